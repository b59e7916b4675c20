// The picture of the window network: its words in their places, the wires between its components, shapes in words.
import { el, svg, visible } from "./dom.js";
import { strip } from "./strip.js";

export const NETWORK_STYLE = `
.network { display: grid; grid-template-columns: minmax(0, 1fr) 18rem; gap: 1.2rem; align-items: start;
  margin: 0 0 1.2rem; }
.stages { overflow-x: auto; padding: .2rem; }
.stage { border: 1px solid var(--line); border-radius: .6rem; padding: .5rem .7rem .7rem; }
.stage.current { border-color: var(--accent); box-shadow: inset 3px 0 0 var(--accent); }
.stage > button { border: 0; background: none; padding: .2rem 0; text-align: left; font-weight: 600; width: 100%; }
.stage > button[aria-pressed="true"]::after { content: " ◂ shapes shown"; font-weight: 400; color: var(--soft);
  font-size: .85rem; }
.places { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(3.2rem, 1fr); }
.places > * { min-width: 0; padding: 0 .15rem; text-align: center; }
.places .token { display: block; overflow: hidden; text-overflow: ellipsis; text-align: center; }
.places .token.empty { border-style: dashed; background: none; color: var(--soft); }
.places small { display: block; color: var(--soft); font-size: .75rem; line-height: 1.3; }
.fan { display: block; width: 100%; height: 1.6rem; stroke: var(--line); stroke-width: 1; }
.strip { height: 2rem; }
.sight { display: flex; flex-wrap: wrap; gap: .6rem 1rem; margin: 0 0 1rem; }
.sight > div { border: 1px dashed var(--line); border-radius: .5rem; padding: .3rem .6rem .5rem; min-width: 0; }
.sight .tokens { margin: 0; } .sight .seen { border: 2px solid var(--accent); }
.sight .gone .token { color: var(--soft); border-style: dashed; background: none; }
.shapes { position: sticky; top: 1rem; }
.shapes dl { margin: 0; display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .25rem .8rem; }
.shapes dt { color: var(--soft); } .shapes dd { margin: 0; overflow-wrap: anywhere; }
.stage .bar { min-height: 2.3rem; }
#sizes th, #sizes td { white-space: nowrap; }
@media (max-width: 700px) {
  .places .token { font-size: .75rem; padding: .1rem 0; }
  .stage { padding: .4rem .4rem .6rem; }
}
@media (max-width: 1000px) {
  .network { grid-template-columns: minmax(0, 1fr); gap: .6rem; }
  .shapes { order: -1; top: .4rem; z-index: 3; padding: .5rem .8rem; box-shadow: 0 .2rem .6rem rgb(0 0 0 / .2); }
  .shapes h3, .shapes p { margin: 0 0 .2rem; } .shapes p { font-size: .85rem; line-height: 1.35; }
  .shapes dl { display: flex; flex-wrap: wrap; gap: 0 .4rem; font-size: .85rem; } .shapes dd { margin-right: .5rem; }
}
`;

/** A tensor's shape: "[5, 32]". */
export function shape(sizes) {
  return `[${sizes.join(", ")}]`;
}

/** A share as a percentage, with a digit more where it is small. */
export function percentOf(share) {
  return share === 0 ? "0 %" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** The weights of a component with their shapes. */
export function weights(part) {
  return part.weights.map(({ name, shape: sizes }) => `${name} ${shape(sizes)}`).join(" + ") || "none";
}

/** A name and its value in a list of definitions. */
export function entry(name, value) {
  return [el("dt", {}, name), el("dd", { "data-entry": name }, value)];
}

/** Words in a frame with a title. */
export function group(kind, title, tokens) {
  return el(
    "div",
    { class: kind },
    el("span", { class: "note" }, title),
    el(
      "ol",
      { class: "tokens" },
      tokens.map((word) => el("li", { class: "token" }, visible(word))),
    ),
  );
}

/** One column for each place of the window. */
export function places(columns) {
  return el(
    "div",
    { class: "places" },
    columns.map((column) => el("div", {}, column)),
  );
}

/** A place of the window; an empty one and a word never met say so in words. */
export function slotWord({ text, known }) {
  const empty = text === "<s>";
  return [
    el(
      "span",
      { class: empty ? "token empty" : "token", title: empty ? "nothing was read here" : text },
      visible(text),
    ),
    empty ? el("small", {}, "nothing") : known ? null : el("small", {}, "never met"),
  ].filter(Boolean);
}

/** A vector as a strip; ±most is the strongest colour. */
export function stripOf(label, values, most) {
  const { node, draw } = strip(label);
  draw([values], { most });
  node.numbers = values; // for tests, as charts have them
  return node;
}

/** One line from each place straight down. */
export function straight(count) {
  return wires(Array.from({ length: count }, (_, i) => [centre(i, count), centre(i, count)]));
}

/** Every place above to every place below. */
export function fan(above, below) {
  return wires(
    Array.from({ length: above * below }, (_, i) => [centre(i % above, above), centre(Math.floor(i / above), below)]),
  );
}

function centre(i, count) {
  return (100 * (i + 0.5)) / count;
}

function wires(pairs) {
  return svg(
    "svg",
    { class: "fan", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    pairs.map(([from, to]) => svg("line", { x1: from, y1: 0, x2: to, y2: 24, "vector-effect": "non-scaling-stroke" })),
  );
}
