// Numbers as a person reads them.

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A whole number as an exponent: 12 is ¹². */
export function exponentOf(number) {
  return [...String(number)].map((sign) => RAISED[sign]).join("");
}

/** A number in a few digits: 0.0123, 1.23·10⁻⁷, 13,781; a dash where there is none. */
export function short(value, digits = 3) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1000 && size < 1e6) return Math.round(value).toLocaleString("en");
  if (size >= 1e-3 && size < 1000) return String(Number(value.toPrecision(digits)));
  const [front, exponent] = value.toExponential(digits - 1).split("e");
  return `${Number(front)}·10${exponentOf(Number(exponent))}`;
}

/** A share as a percentage: 97.2 %, 0.004 %. */
export function percent(share) {
  return share == null ? "–" : `${short(100 * share)} %`;
}

/** For the layout of a chart: ticks as powers of ten, where plotly would write µ and k. */
export const POWERS = { template: { layout: { yaxis: { exponentformat: "power" } } } };

/** A random whole number from 0 to the last, another than before where there is one. */
export function another(before, last) {
  const number = Math.floor(Math.random() * (last + 1));
  return number === before ? (number + 1) % (last + 1) : number;
}
