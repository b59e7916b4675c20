// A text as its tokens, each a chip; with `chosen` each is a button that leads to its step.
import { el, visible } from "./dom.js";

export function tokens(words, { current = -1, chosen = null, label = "tokens", colour = null } = {}) {
  const list = el("ol", { class: "tokens", "aria-label": label });
  words.forEach((word, at) => {
    const attributes = { class: "token", "aria-current": at === current ? "step" : null, title: word };
    const chip = chosen
      ? el("button", { type: "button", ...attributes, onclick: () => chosen(at) }, visible(word))
      : el("span", attributes, visible(word));
    if (colour) chip.style.background = colour(at);
    list.append(el("li", {}, chip));
  });
  return list;
}
