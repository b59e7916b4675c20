// Where a picture comes from: made by rule, held out by a run, drawn here, or a file of the visitor's.
import { button, choice, field } from "./controls.js";
import { el } from "./dom.js";
import { another } from "./numbers.js";
import { openPicture } from "./opening.js";
import { OWN_DIGIT_STYLE, ownDigit } from "./own_digit.js";
import { chooseHeldOut } from "./tasks.js";
import { wholeNumber } from "./walk.js";

export const CHOSEN_STYLE = `${OWN_DIGIT_STYLE}
.over { outline: 3px dashed var(--accent); outline-offset: 4px; }`;

/**
 * { controls, node, value, number, asked(), state(), settle(model), count }. `sources`: the values and texts to choose
 * from; a panel opens on the first of them, at the number `first`. `other`: what the dice say. `asked()` is what a
 * request says, null while nothing is drawn or opened, `state()` what the address says. `changed()` is called for every
 * other picture, `failed` is a place for errors. `settle` when another model is picked: its held-out pictures can be
 * asked for where it is a run; `made`: how the names of sources begin whose pictures are the made ones.
 */
export function chosenPicture(place, context, { sources, made, first = 0, other, failed, changed }) {
  const names = Object.keys(sources);
  let own = null, // { name, content } of the visitor's file
    last = 0; // the number of the last picture of this source
  let number = Math.max(0, wholeNumber(context.get("number"), first));
  const choose = choice("Picture", Object.entries(sources), context.get("source", names[0]), switched);
  const dice = button(other, roll, { class: "main" });
  const drawing = ownDigit(context, { failed, changed });
  const file = el("input", { type: "file", accept: "image/png,image/jpeg", onchange: () => open(file.files[0]) });
  const opener = el(
    "div",
    { class: "row middle", style: "margin-bottom:.7rem" },
    field("A PNG or JPEG, up to 2 MB; or drop one here", file),
    el("span", { class: "note" }, "It never leaves this machine."),
  );
  const node = el("div", {}, drawing.node, opener);
  place.addEventListener("dragover", (event) => {
    event.preventDefault();
    place.classList.add("over");
  });
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    place.classList.remove("over");
    open(event.dataTransfer.files[0]);
  });

  function refresh() {
    drawing.node.hidden = choose.value !== "drawn";
    opener.hidden = choose.value !== "own";
    dice.hidden = choose.value === "own";
  }

  function switched() {
    refresh();
    changed();
  }

  function roll() {
    number = another(number, last);
    changed();
  }

  async function open(picked) {
    if (!picked) return;
    try {
      own = await openPicture(picked);
      choose.select.value = "own";
      switched();
    } catch (error) {
      failed.say(error.message);
    }
  }

  function settle(model) {
    chooseHeldOut(choose.select, model, made, Boolean(context.get("source")));
    refresh();
  }

  function asked() {
    const source = choose.value;
    if (source === "own") return own && { source, picture: own.content };
    if (source === "drawn") return drawing.ink ? { source, ink: drawing.ink, number } : null;
    return { source, number };
  }

  const state = () => ({
    source: choose.value === names[0] ? null : choose.value,
    number: choose.value === "own" ? null : number,
    ink: choose.value === "drawn" ? drawing.ink : null,
  });

  refresh();
  return {
    controls: [dice, choose.node],
    node,
    settle,
    asked,
    state,
    get value() {
      return choose.value;
    },
    get number() {
      return number;
    },
    /** How many pictures this source has. */
    set count(many) {
      last = Math.max(0, many - 1);
    },
  };
}
