// The arrow of the recurrence: one cell whose state goes round and comes in again with the next word.
import { svg, visible } from "./dom.js";
import { percent } from "./numbers.js";
import { shade } from "./strip.js";

export const LOOP_STYLE = `
.loop { display: block; width: 100%; max-width: 26rem; max-height: 11rem; margin: 0 auto; font-size: 17px; }
.loop path, .loop line { fill: none; stroke: var(--soft); stroke-width: 2; }
.loop .round { stroke: var(--accent); stroke-width: 3; }
.loop rect.cell { fill: var(--raised); stroke: var(--accent); stroke-width: 2; }
.loop text { fill: var(--text); } .loop .soft { fill: var(--soft); font-size: 14px; }
.loop .word { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-weight: 600; }`;

/**
 * The folded picture: { node, draw, stop }. The state is a small strip that goes round the loop when a step is taken.
 */
export function loop() {
  const CELLS = 8,
    SIZE = 8;
  const head = svg(
    "marker",
    {
      id: "loop-head",
      viewBox: "0 0 10 10",
      refX: 8,
      refY: 5,
      markerWidth: 8,
      markerHeight: 8,
      markerUnits: "userSpaceOnUse",
      orient: "auto",
    },
    svg("path", { d: "M 0 0 L 10 5 L 0 10 z", style: "fill: var(--soft); stroke: none" }),
  );
  const path = svg("path", {
    class: "round",
    d: "M 305 130 V 62 Q 305 42 285 42 H 155 Q 135 42 135 62 V 130 H 168",
    "marker-end": "url(#loop-head)",
  });
  const put = (x, y, look, anchor = "middle") => svg("text", { x, y, class: look, "text-anchor": anchor });
  const kind = put(220, 136, ""),
    word = put(220, 226, "word"),
    next = put(366, 128, "word", "start"),
    chance = put(366, 148, "soft", "start");
  const left = put(126, 100, "", "end"),
    right = put(314, 92, "", "start"),
    memory = put(220, 78, "soft");
  const packet = svg(
    "g",
    {},
    Array.from({ length: CELLS }, (_, i) =>
      svg("rect", { x: (i - CELLS / 2) * SIZE, y: -SIZE, width: SIZE, height: 2 * SIZE }),
    ),
  );
  const node = svg(
    "svg",
    { class: "loop", viewBox: "96 20 410 216", role: "img" },
    svg("defs", {}, head),
    svg("rect", { class: "cell", x: 170, y: 100, width: 100, height: 60, rx: 10 }),
    path,
    svg("line", { x1: 270, y1: 130, x2: 356, y2: 130, "marker-end": "url(#loop-head)" }),
    svg("line", { x1: 220, y1: 206, x2: 220, y2: 164, "marker-end": "url(#loop-head)" }),
    svg("circle", { cx: 305, cy: 130, r: 4, style: "fill: var(--accent)" }),
    kind,
    word,
    next,
    chance,
    left,
    right,
    memory,
    packet,
  );
  let frame = 0;
  const paint = (values) =>
    [...packet.children].forEach((cell, i) => {
      const [red, green, blue] = shade(values[Math.floor((i * values.length) / CELLS)]);
      cell.style.fill = `rgb(${red}, ${green}, ${blue})`;
      cell.style.stroke = "var(--line)";
    });
  const rest = (share) => {
    const { x, y } = path.getPointAtLength(share * path.getTotalLength());
    packet.setAttribute("transform", `translate(${x} ${y})`);
  };
  const stop = () => cancelAnimationFrame(frame);
  const draw = (now, forward) => {
    stop();
    kind.textContent = now.kind;
    word.textContent = short(now.word);
    next.textContent = short(visible(now.likeliest.text));
    chance.textContent = `${percent(now.likeliest.p)} likely`;
    left.textContent = sub("h", now.at - 1);
    right.textContent = sub("h", now.at);
    memory.textContent = `carries ${now.at} ${now.token}${now.at === 1 ? "" : "s"} on`;
    const expects = `${visible(now.likeliest.text)}, ${percent(now.likeliest.p)}`;
    node.setAttribute(
      "aria-label",
      `The ${now.kind} cell reads ${now.word}, gets the state before it through the loop, and expects ${expects}`,
    );
    if (!forward || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      paint(now.now);
      rest(0.5);
      return;
    }
    // the old state goes into the cell on the left, the new one comes out on the right
    let begun = null;
    paint(now.old);
    const tick = (time) => {
      begun ??= time;
      const share = Math.min(1, (time - begun) / 700);
      if (share >= 0.5) paint(now.now);
      rest(share < 0.5 ? 0.5 + share : share - 0.5);
      if (share < 1) frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  };
  return { node, draw, stop };
}

function short(word) {
  return word.length > 13 ? `${word.slice(0, 12)}…` : word;
}
/** "h₁₂"; h₀ is the state after the start mark, and before that it is 0. */
export function sub(letter, at) {
  return at < 0 ? "0" : letter + [...String(at)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]).join("");
}
