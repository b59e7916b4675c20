// A number for each stroke of a drawing, as columns.
import { el } from "./dom.js";
import { short } from "./numbers.js";
import { markCurrent } from "./walk.js";

/** { node, draw(title, values, about), mark(at) }: a card; strokes are counted from 1, `about` says what is counted. */
export function strokeCard() {
  const title = el("h3");
  const now = el("strong");
  const list = el("ol", { class: "levels" });
  const note = el("p", { class: "note", style: "margin:.5rem 0 0" });
  const node = el("section", { class: "card belief" }, el("div", { class: "head" }, title, now), list, note);
  let drawn = [];

  function draw(heading, values, about) {
    drawn = values;
    title.textContent = heading;
    note.textContent = about;
    list.setAttribute("aria-label", `${heading}, by stroke`);
    const most = Math.max(...values, 1e-9);
    list.replaceChildren(
      ...values.map((value, at) => {
        const fill = el("span", { class: "fill" });
        fill.style.height = `${(100 * value) / most}%`;
        const track = el("span", { class: "track", "aria-hidden": "true" }, fill);
        const spoken = el("span", { class: "hidden" }, `: ${short(value)}`);
        const label = el("span", {}, at + 1, spoken);
        return el("li", { title: `stroke ${at + 1}: ${short(value)}`, "data-stroke": at + 1 }, track, label);
      }),
    );
  }

  function mark(at) {
    [...list.children].forEach((one, i) => {
      one.classList.toggle("best", i + 1 === at);
      markCurrent(one, i + 1 === at);
    });
    now.textContent = at ? short(drawn[at - 1]) : "";
  }

  return { node, draw, mark };
}
