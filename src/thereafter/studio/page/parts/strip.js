// A vector as a strip of colours: blue below 0, orange above. The numbers stand in its label and on hover.
import { el, pageColour } from "./dom.js";

function colours() {
  return ["--low", "--mid", "--high"].map((name) => rgb(pageColour(name)));
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** The colour of a value between -1 and 1 as [r, g, b]. */
export function shade(value, [low, mid, high] = colours()) {
  const end = value < 0 ? low : high;
  const share = Math.min(1, Math.abs(value));
  return mid.map((from, i) => Math.round(from + share * (end[i] - from)));
}

/** A canvas of one row a vector; `draw(rows, { most })` fills it, a value of ±most being the strongest colour. */
export function strip(label, { height = 1 } = {}) {
  const node = el("canvas", { class: "strip", role: "img", "aria-label": label });
  node.style.height = `${1.6 * height}rem`;
  let vectors = [];
  node.addEventListener("mousemove", (event) => {
    if (!vectors.length) return;
    const box = node.getBoundingClientRect();
    const row = Math.min(vectors.length - 1, Math.floor(((event.clientY - box.top) / box.height) * vectors.length));
    const unit = Math.floor(((event.clientX - box.left) / box.width) * vectors[row].length);
    node.title = `unit ${unit}: ${vectors[row][unit]?.toFixed(3) ?? ""}`;
  });
  const draw = (rows, { most = 1, say = "" } = {}) => {
    vectors = rows;
    const width = rows[0]?.length ?? 1;
    node.width = width;
    node.height = Math.max(1, rows.length);
    const ink = node.getContext("2d");
    const picture = ink.createImageData(width, node.height);
    const three = colours();
    rows.forEach((row, y) => {
      row.forEach((value, x) => {
        picture.data.set([...shade(value / most, three), 255], 4 * (y * width + x));
      });
    });
    ink.putImageData(picture, 0, 0);
    const mean = rows.flat().reduce((sum, value) => sum + Math.abs(value), 0) / (width * Math.max(1, rows.length));
    node.setAttribute("aria-label", `${label}${say ? `, ${say}` : ""}: ${width} units, mean size ${mean.toFixed(2)}`);
  };
  return { node, draw };
}

/**
 * A bar from the middle, as a background: up and orange above 0, down and blue below. `behind`: pale, behind a number.
 */
export function fromMiddle(share, behind = false) {
  const [from, to] = share < 0 ? [50 + 50 * share, 50] : [50, 50 + 50 * share];
  const strong = `var(${share < 0 ? "--low" : "--high"})`,
    colour = behind ? `color-mix(in srgb, ${strong} 40%, transparent)` : strong;
  const bar = `linear-gradient(to top, transparent ${from}%, ${colour} 0 ${to}%, transparent 0)`;
  const zero = "linear-gradient(to top, transparent calc(50% - .5px), var(--soft) 0 calc(50% + .5px), transparent 0)";
  return behind ? bar : `${zero},${bar}`;
}
