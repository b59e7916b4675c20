// Frames that come next: what came, what a network expected, and the error of both by step.
import { chart } from "./chart.js";
import { el, pageColour } from "./dom.js";
import { short } from "./numbers.js";
import { shown, unpack } from "./pixels.js";

const SIDE = 128; // pixels of a canvas, twice what is seen
const BEFORE = 3; // frames that were read and are shown, the last ones

export const FORESEEN_STYLE = `
.foreseen table { border-spacing: .25rem; border-collapse: separate; margin: 0 0 .4rem; }
.foreseen th, .foreseen td { border: 0; padding: 0; text-align: center; font-weight: 400; }
.foreseen tbody th { text-align: right; padding-right: .5rem; color: var(--soft); white-space: nowrap; }
.foreseen thead th { color: var(--soft); font-size: .85rem; }
.foreseen canvas { display: block; width: 3.9rem; height: auto; border-radius: .2rem; border: 1px solid var(--line); }
.foreseen .read canvas { border-style: dashed; }
.foreseen #foreseen-errors { max-width: 46rem; min-height: 15rem; }
.foreseen td:not(:has(canvas)) { min-width: 3.9rem; }`;

/** { node, draw(answer) }: two rows of frames under each other, and a chart. */
export function foreseenFrames() {
  const table = el("table", { "aria-label": "Observed and predicted frames" });
  const wide = el(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": "Frames that come next" },
    table,
  );
  const picture = el("div", { id: "foreseen-errors" });
  const note = el("p", { class: "note", id: "foreseen-note" });
  const node = el("div", { class: "foreseen" }, wide, note, picture);

  async function draw(answer) {
    const read = unpack(answer.read);
    const [came, predicted] = [unpack(answer.came), unpack(answer.predicted)];
    const last = read.slice(-BEFORE);
    const first = read.length - last.length + 1;
    const steps = came.map((_, at) => read.length + 1 + at);
    const frame = (one, name) => el("td", {}, shown(one, SIDE, name));
    const head = [...last.map((_, at) => el("th", { scope: "col" }, `read ${first + at}`))];
    table.replaceChildren(
      el("thead", {}, el("tr", {}, el("td"), head, ...steps.map((at) => el("th", { scope: "col" }, `frame ${at}`)))),
      el(
        "tbody",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "row" }, "observed"),
          last.map((one, at) => el("td", { class: "read" }, shown(one, SIDE, `frame ${first + at}, read`))),
          came.map((one, at) => frame(one, `frame ${steps[at]} as observed`)),
        ),
        el(
          "tr",
          {},
          el("th", { scope: "row" }, "predicted"),
          last.map(() => el("td")),
          predicted.map((one, at) => frame(one, `frame ${steps[at]} as predicted`)),
        ),
      ),
    );
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    note.textContent =
      `It read ${read.length} frames and expected ${came.length}: ${short(mean(answer.nats))} nats per frame, ` +
      `squared error ${short(mean(answer.errors))}; the last frame again would have ${short(mean(answer.copied))}.`;
    const mode = "lines+markers";
    const copied = { color: pageColour("--neutral"), width: 2, dash: "dash" };
    const traces = [
      { name: "network", x: steps, y: answer.errors, mode, line: { color: pageColour("--accent"), width: 2.4 } },
      { name: "the last frame again", x: steps, y: answer.copied, mode, line: copied },
    ];
    const axes = { template: { layout: { yaxis: { rangemode: "tozero" }, xaxis: { dtick: 1 } } } };
    await chart(picture, traces, { x: "frame", y: "squared error", height: 240, layout: axes });
  }

  return { node, draw };
}
