// Bars of a distribution: each is a button where it can be chosen. Verb forms can be tinted by their number.
import { el, visible } from "./dom.js";

const MARKS = { singular: "sg", plural: "pl" };

/**
 * A list of { text, p }; with `chosen` each bar is a button. Bars are drawn on a scale whose end is the likeliest.
 * `tinted`: items have a `number` too, shown by a colour and by a mark, since not everybody can tell the colours apart.
 */
export function bars(items, { chosen = null, label = "next", scale = null, tinted = false } = {}) {
  const most = scale ?? Math.max(...items.map((item) => item.p), 1e-9);
  const list = el("ol", { class: tinted ? "bars tinted" : "bars", "aria-label": label });
  for (const item of items) {
    const percent = item.p >= 0.0995 ? `${(100 * item.p).toFixed(0)} %` : `${(100 * item.p).toFixed(1)} %`;
    const fill = el("span", { class: "fill" });
    fill.style.width = `${Math.min(100, (100 * item.p) / most)}%`;
    const inside = [
      el("span", { class: "word" }, visible(item.text)),
      tinted
        ? el("span", { class: "mark", title: item.number ? `${item.number} verb` : null }, MARKS[item.number] ?? "")
        : null,
      el("span", { class: "track", "aria-hidden": "true" }, fill),
      el("span", { class: "value" }, percent),
    ];
    const attributes = { class: "bar", "data-word": item.text, "data-number": tinted ? item.number : null };
    const bar = chosen
      ? el("button", { type: "button", ...attributes, onclick: () => chosen(item) }, inside)
      : el("div", attributes, inside);
    list.append(el("li", {}, bar));
  }
  return list;
}

/** What the colours and marks of tinted bars mean. */
export function tintLegend() {
  const entry = (number, mark, text) =>
    el(
      "span",
      { "data-number": number },
      el("i", { class: "fill", "aria-hidden": "true" }),
      mark ? el("b", {}, `${mark} `) : null,
      text,
    );
  return el(
    "p",
    { class: "tints tinted note", role: "note" },
    entry("singular", "sg", "singular verb"),
    entry("plural", "pl", "plural verb"),
    entry("", "", "other words"),
  );
}
