// A text in the colours of its surprisal, what was expected at one of its words, and all words as a table.
import { bars } from "./bars.js";
import { el, visible } from "./dom.js";
import { short } from "./numbers.js";
import { sortable } from "./table.js";

const LEAST = 8; // bits at which the colour is strongest, at least: a text without surprises is pale
const STRONG = 62; // per cent of the colour that is left, so that the text can be read on it

/** The bits at which the colour is strongest, one figure for all models: the 95th percentile. */
export function strongest(answer) {
  const bits = answer.models.flatMap((one) => one.words.filter((word) => word?.bits != null).map((word) => word.bits));
  bits.sort((one, other) => one - other);
  return Math.max(LEAST, Math.ceil(bits[Math.floor(0.95 * (bits.length - 1))] ?? 0));
}

/** The colour of a word; a probability of 0 is as strong as can be. */
export function tint(word, most) {
  const share = word ? Math.min(1, (word.bits ?? most) / most) : 0;
  return `color-mix(in srgb, var(--high) ${(STRONG * share).toFixed(1)}%, var(--ground))`;
}

/** What a word cost, in words. */
export function cost(word) {
  if (!word) return "not read";
  const spelling = word.unknown ? `, unknown: ${short(word.spelling_bits)} bits more for its spelling` : "";
  return `${word.bits == null ? "probability 0" : `${word.bits.toFixed(2)} bits`}${spelling}`;
}

/** The ends of the colours as numbers. */
export function scale(most) {
  const strip = el("i", { role: "img", "aria-label": `from white, 0 bits, to orange, ${most} bits and more` });
  strip.style.background = `linear-gradient(to right, var(--ground), ${tint({ bits: most }, most)})`;
  return [el("span", {}, "0 bits"), strip, el("span", {}, `${most} bits and more`)];
}

/** The words of one model in their colours; `chosen(at)` is called for the word pointed at, clicked or reached. */
export function colouredWords(answer, number, most, chosen) {
  const { words, model } = answer.models[number];
  const node = el("div", {
    class: "card mono surprise",
    tabindex: "0",
    role: "group",
    "data-model": model,
    "aria-label": `The text in the colours of ${model}; arrow keys move from word to word`,
  });
  let at = -1;
  answer.words.forEach((text, i) => {
    const span = el(
      "span",
      {
        "data-at": i,
        "data-bits": words[i]?.bits ?? "",
        title: cost(words[i]),
        class: words[i]?.unknown ? "new" : null,
      },
      text === "\n" ? "⏎" : text,
    );
    span.style.background = tint(words[i], most);
    node.append(span, text === "\n" ? "\n" : " ");
  });
  const point = (event) => {
    const span = event.target.closest("[data-at]");
    if (span) chosen(Number(span.dataset.at));
  };
  node.addEventListener("pointerover", point);
  node.addEventListener("click", point);
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 10, ArrowLeft: -1, ArrowUp: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    chosen(Math.max(0, Math.min(answer.words.length - 1, at + step)));
    node.children[at].scrollIntoView({ block: "nearest" });
  });
  const mark = (now) => {
    node.children[at]?.classList.remove("here");
    at = now;
    node.children[at]?.classList.add("here");
  };
  return { node, mark };
}

/** What one model expected where a word begins. */
export function expected(word, label) {
  if (!word) return [el("h3", {}, label), el("p", { class: "note" }, "This model does not read it.")];
  const pieces = word.tokens.length > 1 ? ` Its tokens: ${word.tokens.map(visible).join(" · ")}.` : "";
  return [
    el("h3", {}, label),
    el("p", { "data-cost": word.bits ?? "" }, cost(word)),
    el(
      "p",
      { class: "note" },
      `Rank ${word.rank.toLocaleString("en")}; entropy ${word.entropy.toFixed(2)} bits; ` +
        `read from ${word.context.toLocaleString("en")} token${word.context === 1 ? "" : "s"}.${pieces}`,
    ),
    bars(word.alternatives, { label: `what ${label} expected`, scale: 1 }),
  ];
}

/** All words with their figures, to be sorted by any of them: { node, draw(answer, labels) }. */
export function wordTable() {
  const table = sortable({ label: "Words with their surprisal", sort: "position" });
  const draw = (answer, labels) => {
    const several = answer.models.length > 1;
    const columns = [
      { key: "position", title: "no.", show: (row) => String(row.position) },
      { key: "word", title: "word", show: (row) => visible(row.word) },
    ];
    answer.models.forEach((_, i) => {
      const mark = several ? ` ${labels[i]}` : "";
      columns.push(
        { key: `bits${i}`, title: `bits${mark}`, show: (row) => row[`bits${i}`]?.toFixed(2) ?? "–" },
        { key: `rank${i}`, title: `rank${mark}`, show: (row) => row[`rank${i}`]?.toLocaleString("en") ?? "–" },
        { key: `entropy${i}`, title: `entropy${mark}`, show: (row) => row[`entropy${i}`]?.toFixed(2) ?? "–" },
        { key: `likeliest${i}`, title: `likeliest${mark}`, show: (row) => row[`likeliest${i}`] ?? "–" },
      );
    });
    const rows = answer.words.map((word, at) => {
      const row = { name: at + 1, position: at + 1, word };
      answer.models.forEach((model, i) => {
        const one = model.words[at];
        if (!one) return;
        Object.assign(row, { [`bits${i}`]: one.bits, [`rank${i}`]: one.rank, [`entropy${i}`]: one.entropy });
        row[`likeliest${i}`] = one.alternatives[0] ? visible(one.alternatives[0].text) : null;
      });
      return row;
    });
    table.draw(columns, [{ title: "", rows }], "position");
  };
  return { node: table.node, draw };
}
