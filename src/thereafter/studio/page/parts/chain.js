// An unrolled network: one state a step, from left to right, and the loss at the end. What flows is painted into it.
import { el, svg, visible } from "./dom.js";

const MIDDLE = 48,
  RADIUS = 16,
  LEFT = 58,
  LOSS = 104,
  TAIL = 26,
  GAP = 3;

/**
 * A chain of states, one for each label (what is read at that step): { node, paint, follow(step) }. `heads` name the
 * rows: what is read, the forward pass, the backward pass and, where there are four, a second backward pass. The loss
 * stands beside the chain and stays in sight however long it is. `paint({ forward, back, beside, cut, say })` fills
 * it. Each list has for each step null or { level, text }: the level, from 0 to 1, is the size of the disc and the
 * thickness of the arrow. The steps before `cut` are shown as cut off. `follow(step)` scrolls to a step.
 */
export function chain(labels, { heads, loss, width, forward = true }) {
  const steps = labels.length;
  const column = Math.max(58, Math.min(104, (width - LEFT - LOSS - TAIL) / steps));
  const at = (step) => LEFT + column * (step + 0.5);
  const rows = forward ? [MIDDLE + 44, MIDDLE + 66, MIDDLE + 88] : [MIDDLE + 44, null, MIDDLE + 66];
  if (heads.length > 3) rows.push(rows[2] + 22);
  const size = { width: LEFT + column * steps + TAIL, height: rows.at(-1) + 8 };
  const picture = svg("svg", {
    ...size,
    viewBox: `0 0 ${size.width} ${size.height}`,
    role: "img",
    style: "display: block",
  });
  const scroller = el("div", { class: "wide", style: "flex: 0 1 auto; min-width: 0" }, picture);
  const end = svg(
    "svg",
    { width: LOSS + 2, height: size.height, style: "flex: none", "aria-hidden": "true", "data-loss": "" },
    ...lossBox(0, loss),
  );
  const node = el("div", { style: "display: flex" }, scroller, end);
  const lanes = forward ? [MIDDLE - 7, MIDDLE + 7] : [MIDDLE, MIDDLE];
  const tip = LEFT + column * steps + TAIL; // where the loss begins
  const most = Math.floor(column / 7.2);

  heads.forEach((head, row) => {
    if (rows[row]) picture.append(text(head, 0, rows[row], { anchor: "start", soft: true }));
  });
  const parts = labels.map((label, step) => stepParts(label, step));
  const line = svg("line", {
    y1: 14,
    y2: size.height,
    stroke: "var(--text)",
    "stroke-width": 2,
    "stroke-dasharray": "5 4",
  });
  const sign = text("cut", 0, 10, {});
  const cutMark = svg("g", { class: "cut", visibility: "hidden" }, line, sign);
  picture.append(cutMark);

  function stepParts(label, step) {
    const x = at(step),
      next = step === steps - 1 ? tip : at(step + 1) - RADIUS;
    const group = svg("g", { "data-step": step });
    const ring = svg("circle", { cx: x, cy: MIDDLE, r: RADIUS, fill: "var(--raised)", stroke: "var(--soft)" });
    const discs = ["var(--good)", "var(--warm)"].map((colour) => disc(x, colour));
    const there = forward ? arrow(x + RADIUS + GAP, next - GAP, lanes[0], "var(--good)") : null;
    const back = arrow(next - GAP, x + RADIUS + GAP, lanes[1], "var(--warm)");
    const read = text(crop(label, most), x, rows[0], { mono: true });
    read.append(svg("title", {}, visible(label)));
    const reads = svg("line", { x1: x, x2: x, y1: MIDDLE + 31, y2: MIDDLE + RADIUS + 2, stroke: "var(--soft)" });
    const texts = [
      text("", x, rows[1] ?? 0, { colour: "var(--good)" }),
      text("", x, rows[2], { colour: "var(--warm)" }),
    ];
    if (rows.length > 3) texts.push(text("", x, rows[3], { colour: "var(--warm)" }));
    group.append(
      ring,
      ...discs,
      read,
      ...(forward ? [reads] : []),
      ...texts,
      back.node,
      ...(there ? [there.node] : []),
    );
    picture.append(group);
    return { group, ring, discs, there, back, texts };
  }

  function paint({ forward: going = [], back: coming = [], beside = [], cut = 0, say = "" }) {
    parts.forEach((part, step) => {
      const off = step < cut;
      part.group.setAttribute("opacity", off ? 0.55 : 1);
      part.ring.setAttribute("stroke-dasharray", off ? "3 3" : "none");
      fill(part.discs[0], coming[step] ? null : going[step]);
      fill(part.discs[1], coming[step]);
      part.there?.set(going[step]);
      part.back.set(coming[step]);
      part.texts[0].textContent = going[step]?.text ?? "";
      part.texts[1].textContent = coming[step]?.text ?? "";
      if (part.texts[2]) part.texts[2].textContent = coming[step] ? (beside[step]?.text ?? "") : "";
    });
    cutMark.setAttribute("visibility", cut > 0 ? "visible" : "hidden");
    for (const name of ["x1", "x2"]) line.setAttribute(name, at(cut) - column / 2);
    sign.setAttribute("x", at(cut) - column / 2);
    picture.setAttribute("aria-label", say);
  }

  function follow(step) {
    const x = at(step);
    if (x - column < scroller.scrollLeft) scroller.scrollLeft = x - 2 * column;
    if (x + column > scroller.scrollLeft + scroller.clientWidth)
      scroller.scrollLeft = x + 2 * column - scroller.clientWidth;
  }

  return { node, paint, follow };
}

function fill(circle, value) {
  circle.style.r = value?.level ? `${(2 + (RADIUS - 2) * value.level).toFixed(1)}px` : "0px";
}

function disc(x, colour) {
  return svg("circle", { cx: x, cy: MIDDLE, r: 0, fill: colour, style: "transition: r .25s" });
}

/** An arrow whose thickness is a level; without a value it is a thin grey line. */
function arrow(from, to, y, colour) {
  const way = Math.sign(to - from);
  const shaft = svg("line", { x1: from, x2: to - 5 * way, y1: y, y2: y, style: "transition: stroke-width .25s" });
  const head = svg("polygon", {});
  const set = (value) => {
    const thick = value ? 1 + 6 * value.level : 1;
    const tint = value ? colour : "var(--line)";
    shaft.setAttribute("stroke", tint);
    shaft.style.strokeWidth = `${thick.toFixed(1)}px`;
    const half = Math.max(3.5, thick / 2 + 2);
    head.setAttribute("points", `${to},${y} ${to - 7 * way},${y - half} ${to - 7 * way},${y + half}`);
    head.setAttribute("fill", tint);
  };
  set(null);
  return { node: svg("g", {}, shaft, head), set };
}

function lossBox(x, [first, second]) {
  const box = { x, y: MIDDLE - 24, width: LOSS, height: 48, rx: 6, fill: "var(--raised)", stroke: "var(--soft)" };
  return [
    svg("rect", box),
    text(first, x + LOSS / 2, MIDDLE - 4, {}),
    text(second, x + LOSS / 2, MIDDLE + 14, { soft: true }),
  ];
}

function text(content, x, y, { anchor = "middle", colour = null, soft = false, mono = false }) {
  return svg(
    "text",
    {
      x,
      y,
      "text-anchor": anchor,
      "font-size": 12.5,
      fill: colour ?? (soft ? "var(--soft)" : "var(--text)"),
      "font-family": mono ? "ui-monospace, DejaVu Sans Mono, monospace" : null,
    },
    content,
  );
}

function crop(label, most) {
  const seen = visible(label);
  return seen.length > most ? `${seen.slice(0, most - 1)}…` : seen;
}
