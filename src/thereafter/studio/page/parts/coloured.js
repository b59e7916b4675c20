// A text in the colours of one unit: each token as strong as the state of the unit after it was read.
import { el, show, visible } from "./dom.js";
import { shade } from "./strip.js";

const PALE = 0.45; // how much of the colour is left, so that the text can be read on it

function css(value) {
  return `rgb(${shade(PALE * value).join()})`;
}

/** The colours of many values, each worked out once. */
function paint() {
  const known = new Map();
  return (value) => {
    const key = value.toFixed(2);
    if (!known.has(key)) known.set(key, css(Number(key)));
    return known.get(key);
  };
}

/** The ends of the colours as numbers. */
export function legend(answer) {
  const low = el("i", { role: "img", "aria-label": "blue is low, orange is high" });
  low.style.background = `linear-gradient(to right, ${[-1, 0, 1].map(css).join()})`;
  const [least, most] = ends(answer);
  return [el("span", {}, `low ${least}`), low, el("span", {}, `${most} high`)];
}

/** The values at which the colours are strongest: there and beyond. */
function ends(answer) {
  const at = (shadeOf) => answer.values.filter((_, i) => answer.shades[i] === shadeOf);
  const low = at(-1),
    high = at(1);
  return [low.length ? Math.max(...low).toFixed(2) : "", high.length ? Math.min(...high).toFixed(2) : ""];
}

function mean(values) {
  return values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : NaN;
}

/** What the coloured text shows, in words and means. */
export function summary(answer, yesNo, meaning) {
  if (!yesNo || !answer.truth) return `The mean of the unit is ${mean(answer.values).toFixed(2)}.`;
  const [inside, outside] = [1, 0].map((is) => mean(answer.values.filter((_, i) => answer.truth[i] === is)).toFixed(2));
  return `Underlined: ${meaning}. The unit's mean is ${inside} there and ${outside} elsewhere.`.replace(
    "NaN there",
    "not known there",
  );
}

/** The coloured text; a token is read out where one points, or by arrow keys: { node, draw }. */
export function colouredText(readout) {
  const node = el("div", {
    class: "card mono",
    id: "coloured",
    tabindex: "0",
    role: "group",
    "aria-label": "The text in the colours of the unit; arrow keys read the values",
    "aria-describedby": "readout",
  });
  let shown = null,
    at = -1;
  const read = (now) => {
    node.children[at]?.classList.remove("here");
    at = now;
    const token = node.children[at];
    token.classList.add("here");
    const { answer, about } = shown;
    const truth = !answer.truth
      ? ""
      : about.yesNo
        ? answer.truth[at]
          ? `; ${about.meaning}`
          : `; not ${about.meaning}`
        : `; ${about.meaning}: ${answer.truth[at]}`;
    show(
      readout,
      `token ${at + 1}, “${visible(answer.tokens[at])}”: ${answer.values[at]?.toFixed(3) ?? "no number"}${truth}`,
    );
  };
  const point = (event) => {
    const token = event.target.closest("[data-at]");
    if (token) read(Number(token.dataset.at));
  };
  node.addEventListener("pointerover", point);
  node.addEventListener("click", point);
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 10, ArrowLeft: -1, ArrowUp: -10 }[event.key];
    if (!step || !shown) return;
    event.preventDefault();
    read(Math.max(0, Math.min(node.children.length - 1, at + step)));
    node.children[at].scrollIntoView({ block: "nearest" });
  });
  const draw = (answer, about) => {
    shown = { answer, about };
    at = -1;
    const colour = paint();
    node.replaceChildren(
      ...answer.tokens.map((token, i) => {
        const value = answer.values[i]?.toFixed(3) ?? "no number";
        const made = el(
          "span",
          { "data-at": i, title: `${value}`, class: about.yesNo && answer.truth?.[i] ? "holds" : null },
          token.replaceAll("\n", "⏎\n") || "·",
        );
        made.style.background = colour(answer.shades[i] ?? 0);
        return made;
      }),
    );
  };
  return { node, draw };
}
