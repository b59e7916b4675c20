// Bars of a distribution: each is a button where it can be chosen.
import { el, visible } from "./dom.js";

/** A list of { text, p }; with `chosen` each bar is a button. Bars are drawn on a scale whose end is the likeliest. */
export function bars(items, { chosen = null, label = "next", scale = null } = {}) {
  const most = scale ?? Math.max(...items.map((item) => item.p), 1e-9);
  const list = el("ol", { class: "bars", "aria-label": label });
  for (const item of items) {
    const percent = item.p >= 0.0995 ? `${(100 * item.p).toFixed(0)} %` : `${(100 * item.p).toFixed(1)} %`;
    const fill = el("span", { class: "fill" });
    fill.style.width = `${Math.min(100, (100 * item.p) / most)}%`;
    const inside = [
      el("span", { class: "word" }, visible(item.text)),
      el("span", { class: "track", "aria-hidden": "true" }, fill),
      el("span", { class: "value" }, percent),
    ];
    const bar = chosen
      ? el("button", { type: "button", class: "bar", "data-word": item.text, onclick: () => chosen(item) }, inside)
      : el("div", { class: "bar", "data-word": item.text }, inside);
    list.append(el("li", {}, bar));
  }
  return list;
}
