// Walking through a sentence with a recurrent model, a step for each token: what the panels of its state share.
import { KINDS } from "/kinds.js";
import { button } from "./controls.js";
import { el, visible } from "./dom.js";
import { tokens } from "./tokens.js";

const RECURRENT = new Set(KINDS.filter((one) => one.recurrent).map((one) => one.name));
const GATED = new Set(KINDS.filter((one) => one.gated).map((one) => one.name));
/** The most characters that can be typed, and the most tokens of them that are read. */
export const MOST_CHARACTERS = 4000,
  MOST_STEPS = 60;

/** A whole number that an address gives, else the fallback. */
export function wholeNumber(text, fallback) {
  return /^-?\d{1,6}$/.test(text) ? Number(text) : fallback;
}

/**
 * The unit of a model that is known to carry something, for instance the subject's "number": { layer, field, index } or
 * null.
 */
export function knownUnit(model, property) {
  const parts = /^(l(\d+))\.([hc])\[(\d+)\]$/.exec(model?.units?.[property] ?? "");
  return parts && { layer: Number(parts[2]), field: `${parts[1]}.${parts[3]}`, index: Number(parts[4]) };
}

/** Whether a model carries a state from word to word. */
export function isRecurrent(model) {
  return RECURRENT.has(model.kind);
}

/** Whether its cell has gates. */
export function isGated(model) {
  return GATED.has(model.kind);
}

/**
 * Buttons that walk from step to step, and the arrow keys: { node, go, set, stop, leave, next, at }. `moved(at, from)`
 * is called for every move; `set(at, last)` says where one is and how far one can go. `leave` when the panel goes.
 * `unit` and `whole` are what is walked through: words of a sentence, frames of a clip.
 */
export function player(moved, { first = 0, wait = 1000, unit = "word", whole = "sentence" } = {}) {
  let at = first,
    last = first,
    timer = 0;
  const next = button(`Next ${unit}`, () => walk(at + 1), { class: "main" });
  const back = button("Back", () => walk(at - 1));
  const again = button("Start again", () => walk(first));
  const play = button("Play", () => (timer ? stop() : begin()));
  // it stays in sight while one scrolls through what it changes
  const node = el(
    "div",
    {
      class: "row middle",
      role: "group",
      "aria-label": `Walk through the ${whole}`,
      style:
        "gap:.4rem; position:sticky; top:0; z-index:2; padding:.5rem 0; margin-bottom:.5rem; background:var(--ground)",
    },
    next,
    back,
    again,
    play,
  );

  function refresh() {
    next.disabled = at >= last;
    back.disabled = again.disabled = at <= first;
    play.disabled = last <= first;
    play.textContent = timer ? "Pause" : "Play";
  }
  function go(to) {
    const from = at;
    at = Math.max(first, Math.min(last, to));
    refresh();
    if (at !== from) moved(at, from);
  }
  function walk(to) {
    stop();
    go(to);
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    refresh();
  }
  function begin() {
    timer = setInterval(() => {
      if (at >= last) stop();
      else go(at + 1);
    }, wait);
    go(at >= last ? first : at + 1);
  }
  function pressKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.("input, textarea, select"))
      return;
    event.preventDefault();
    walk(at + step);
  }
  document.addEventListener("keydown", pressKey);
  const set = (now, end) => {
    at = Math.max(first, Math.min(end, now));
    last = end;
    refresh();
  };
  const leave = () => {
    stop();
    document.removeEventListener("keydown", pressKey);
  };
  return {
    node,
    go: walk,
    set,
    stop,
    leave,
    next,
    get at() {
      return at;
    },
  };
}

/**
 * The words of the steps as chips that lead there: { node, mark }. A word the model does not know is dashed and has a
 * "?".
 */
export function chips(steps, chosen) {
  const node = tokens(
    steps.map((step) => step.form),
    { chosen: (i) => chosen(i + 1), label: "The words, in the order they are read" },
  );
  const all = [...node.querySelectorAll(".token")];
  all.forEach((chip, i) => {
    chip.style.minHeight = "2.25rem";
    if (steps[i].known) return;
    chip.append(" ?");
    chip.style.borderStyle = "dashed";
    chip.title = `${steps[i].form}: unknown to the model, read as ${steps[i].token}`;
  });
  const mark = (at) => {
    for (const [i, chip] of all.entries()) markCurrent(chip, i + 1 === at);
  };
  return { node, mark };
}

/** Mark an element as the one of the current step, or not. */
export function markCurrent(element, is) {
  if (is) element.setAttribute("aria-current", "step");
  else element.removeAttribute("aria-current");
}

/** Sentences about unknown words and tokens that were left out; "" where there are none. */
export function remarks({ steps, left }) {
  const unknown = [...new Set(steps.filter((step) => !step.known).map((step) => visible(step.form)))];
  const sentences = [];
  if (unknown.length) sentences.push(`Unknown to this model, so all read as <unk>: ${unknown.join(", ")}.`);
  if (left) sentences.push(`The first ${steps.length} of ${steps.length + left} tokens are read.`);
  return sentences.join(" ");
}

/** The beginning of a text that ends with the last of these words, which stand in it one after the other. */
export function textUpTo(text, forms) {
  const plain = text.toLowerCase();
  let at = 0;
  for (const form of forms) {
    const start = plain.indexOf(form.toLowerCase(), at);
    if (start >= 0) at = start + form.length;
  }
  return text.slice(0, at);
}

/** Scroll a box sideways until an element in it is seen; the page itself stays where it is. */
export function bringIntoView(box, element) {
  const outer = box.getBoundingClientRect(),
    inner = element.getBoundingClientRect();
  if (inner.right > outer.right) box.scrollLeft += inner.right - outer.right + 40;
  if (inner.left < outer.left) box.scrollLeft -= outer.left - inner.left + 40;
}

/** The 98th percentile of the sizes, for the strongest colour: so one outlier does not make a whole strip pale. */
export function usualSize(values) {
  const sizes = Float64Array.from(values, Math.abs).sort();
  return Math.max(0.05, sizes[Math.ceil(0.98 * sizes.length) - 1] ?? 0);
}
