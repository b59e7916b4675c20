// What a network believes of the labels of a clip: columns, a compass for directions, and lines over the frames.
import { chart, DASHES } from "./chart.js";
import { el, pageColour, svg } from "./dom.js";
import { percent } from "./numbers.js";

const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"];
const DRAWN = 0.08; // a label whose belief is never above this has no line
const RADIUS = 70,
  EDGE = 96; // of the compass, and of the square around it
const MOST_COLUMNS = 16;

export const BELIEF_STYLE = `
.belief .head { display: flex; gap: .2rem .7rem; align-items: baseline; margin: 0 0 .4rem; }
.belief .head h3 { margin: 0 auto 0 0; font-weight: 400; } .belief .head strong { font-variant-numeric: tabular-nums; }
.belief .levels { display: flex; align-items: end; gap: .25rem; height: 10.4rem; margin: 0; padding: 0;
  list-style: none; }
.belief .levels li { flex: 1 1 0; min-width: 0; display: flex; flex-direction: column; height: 100%;
  text-align: center; font-size: .85rem; color: var(--soft); font-variant-numeric: tabular-nums; }
.belief .levels .track { flex: 1; display: flex; align-items: end; background: var(--raised); border-radius: .2rem;
  overflow: hidden; }
.belief .levels .fill { display: block; width: 100%; background: var(--neutral); transition: height .15s; }
.belief .levels .best .fill { background: var(--bar-strong); }
.belief .levels .best { font-weight: 700; color: var(--text); }
.belief .levels .true span:last-child { text-decoration: underline; text-underline-offset: .2em; color: var(--text); }
.belief svg.compass { display: block; height: 10.4rem; margin: 0 auto; }
.compass text { font-size: 10px; fill: var(--soft); text-anchor: middle; dominant-baseline: central; }
.compass text.true { fill: var(--text); font-weight: 700; text-decoration: underline; }
.compass .ring { fill: none; stroke: var(--line); }
.compass path { fill: var(--neutral); } .compass path.best { fill: var(--bar-strong); }
.belief .by-frame { min-height: 11rem; }`;

/**
 * { node, draw(belief, frame), lines(belief, frame) }: a card for one column of labels; frames are counted from 1.
 * `unit`: what is counted.
 */
export function beliefCard(unit = "frame") {
  const title = el("h3");
  const best = el("strong");
  const truth = el("span", { class: "note" });
  const now = el("div");
  const lines = el("div", { class: "by-frame" });
  const node = el("section", { class: "card belief" }, el("div", { class: "head" }, title, best, truth), now, lines);

  /** What is believed after a frame. */
  function draw(belief, frame) {
    const chances = belief.belief[frame - 1];
    const likeliest = belief.labels[chances.indexOf(Math.max(...chances))];
    const p = Math.max(...chances);
    node.dataset.column = belief.column;
    node.dataset.best = likeliest;
    title.textContent = belief.column;
    best.textContent = `${likeliest}, ${percent(Number(p.toFixed(3)))}`;
    truth.textContent = belief.true === null ? "" : likeliest === belief.true ? "right" : `it is ${belief.true}`;
    now.replaceChildren(belief.turns ? compass(belief, chances) : columns(belief, chances));
  }

  /** p of each label that was ever believed, over all frames. */
  async function drawLines(belief, frame) {
    const x = belief.belief.map((_, at) => at + 1);
    const most = belief.labels.map((label, at) => ({ label, at, p: Math.max(...belief.belief.map((row) => row[at])) }));
    most.sort((one, other) => other.p - one.p);
    const drawn = most.filter((one, place) => place < COLOURS.length && (one.p > DRAWN || place === 0));
    const traces = drawn.map((one, place) => ({
      name: one.label,
      x,
      y: belief.belief.map((row) => row[one.at]),
      mode: "lines+markers",
      line: { color: COLOURS[place], width: 2, dash: DASHES[place % DASHES.length] },
      marker: { size: 5, color: COLOURS[place] },
      showlegend: true,
    }));
    const line = { color: pageColour("--soft"), width: 1, dash: "dash" };
    const mark = { type: "line", xref: "x", yref: "paper", x0: frame, x1: frame, y0: 0, y1: 1, line };
    const axes = { template: { layout: { yaxis: { range: [-0.03, 1.03] }, xaxis: { dtick: 1 } } } };
    await chart(lines, traces, { x: `after ${unit}`, y: "p", height: 210, layout: { ...axes, shapes: [mark] } });
  }

  return { node, draw, lines: drawLines };
}

function columns(belief, chances) {
  let listed = belief.labels.map((label, at) => ({ label, p: chances[at] }));
  if (listed.length > MOST_COLUMNS) listed = listed.sort((a, b) => b.p - a.p).slice(0, MOST_COLUMNS);
  const most = Math.max(...chances);
  const list = el("ol", { class: "levels", "aria-label": `p of each ${belief.column}` });
  for (const { label, p } of listed) {
    const fill = el("span", { class: "fill" });
    fill.style.height = `${100 * p}%`;
    const kind = `${p === most ? "best" : ""} ${label === belief.true ? "true" : ""}`.trim();
    const track = el("span", { class: "track", "aria-hidden": "true" }, fill);
    const chance = el("span", { class: "hidden" }, `: ${percent(p)}`);
    list.append(
      el(
        "li",
        { class: kind, title: `${label}: ${percent(p)}`, "data-label": label },
        track,
        el("span", {}, label, chance),
      ),
    );
  }
  return list;
}

/** A wedge for each direction, as long as it is believed. */
function compass(belief, chances) {
  const most = Math.max(...chances);
  const half = Math.PI / Math.max(8, belief.labels.length);
  const point = (angle, r) => `${(r * Math.cos(angle)).toFixed(2)} ${(-r * Math.sin(angle)).toFixed(2)}`;
  const parts = [0.5, 1].map((share) => svg("circle", { class: "ring", r: share * RADIUS }));
  belief.labels.forEach((label, at) => {
    const angle = 2 * Math.PI * belief.turns[at];
    const r = RADIUS * chances[at];
    const wedge = `M 0 0 L ${point(angle - half, r)} A ${r} ${r} 0 0 0 ${point(angle + half, r)} Z`;
    const note = svg("title", {}, `${label}: ${percent(chances[at])}`);
    if (r > 0.3) parts.push(svg("path", { d: wedge, class: chances[at] === most ? "best" : "" }, note));
    if (label.length < 3 || label === belief.true || chances[at] === most) {
      const [x, y] = point(angle, RADIUS + 16).split(" ");
      parts.push(svg("text", { x, y, class: label === belief.true ? "true" : "" }, label));
    }
  });
  const likeliest = belief.labels[chances.indexOf(most)];
  const label = `p of each ${belief.column}; the likeliest is ${likeliest}, ${percent(most)}`;
  const box = `${-EDGE} ${-EDGE} ${2 * EDGE} ${2 * EDGE}`;
  return svg("svg", { class: "compass", viewBox: box, role: "img", "aria-label": label }, parts);
}
