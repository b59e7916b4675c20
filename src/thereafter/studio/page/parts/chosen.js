// Where a picture comes from: made by rule, held out by a run, drawn here, or a file of the visitor's.
import { button, choice, field } from "./controls.js";
import { el } from "./dom.js";
import { drawingPad } from "./drawing.js";
import { openPicture } from "./opening.js";
import { chooseHeldOut } from "./tasks.js";
import { wholeNumber } from "./walk.js";

const WRITTEN = 2000; // written digits to begin a drawing with

export const CHOSEN_STYLE = `
.chosen .own { display: flex; flex-wrap: wrap; gap: .8rem 1.2rem; align-items: start; margin: 0 0 .9rem; }
.chosen .pad { width: 9rem; height: 9rem; border-radius: .4rem; border: 1px solid var(--line); cursor: crosshair;
  touch-action: none; image-rendering: pixelated; }
.chosen .side { display: flex; flex-wrap: wrap; gap: .7rem; align-items: end; max-width: 26rem; }
.over { outline: 3px dashed var(--accent); outline-offset: 4px; }`;

/**
 * { controls, node, value, number, asked(), state(), settle(model), count }. `sources`: the values and texts to choose
 * from; a panel opens on the first of them, at the number `first`. `another`: what the dice say. `asked()` is what a
 * request says, null while nothing is drawn or opened, `state()` what the address says. `changed()` is called for every
 * other picture, `failed` is a place for errors. `settle` when another model is picked: its held-out pictures can be
 * asked for where it is a run; `made`: how the names of sources begin whose pictures are the made ones.
 */
export function chosenPicture(place, context, { sources, made, first = 0, another, failed, changed }) {
  const names = Object.keys(sources);
  let own = null, // { name, content } of the visitor's file
    last = 0; // the number of the last picture of this source
  let number = Math.max(0, wholeNumber(context.get("number"), first));
  const choose = choice("Picture", Object.entries(sources), context.get("source", names[0]), switched);
  const dice = button(another, roll, { class: "main" });
  const pad = drawingPad("Your digit, drawn with the mouse or a finger", changed);
  pad.write(context.get("ink"));
  const begin = choice("Begin with", [["", "–"], ..."0123456789".split("").map((one) => [one, one])], "", write);
  const drawing = el(
    "div",
    { class: "own" },
    pad.node,
    el(
      "div",
      { class: "side" },
      begin.node,
      button("Clear", () => {
        pad.clear();
        begin.select.value = "";
        changed();
      }),
      el(
        "p",
        { class: "note", style: "margin:0" },
        "Draw a digit into the black square; it is read at the end of a stroke.",
      ),
    ),
  );
  const file = el("input", { type: "file", accept: "image/png,image/jpeg", onchange: () => open(file.files[0]) });
  const opener = el(
    "div",
    { class: "row middle", style: "margin-bottom:.7rem" },
    field("A PNG or JPEG, up to 2 MB; or drop one here", file),
    el("span", { class: "note" }, "It goes no further than this machine."),
  );
  const node = el("div", { class: "chosen" }, drawing, opener);
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
    drawing.hidden = choose.value !== "drawn";
    opener.hidden = choose.value !== "own";
    dice.hidden = choose.value === "own";
  }

  function switched() {
    refresh();
    changed();
  }

  function roll() {
    const before = number;
    number = Math.floor(Math.random() * (last + 1));
    if (number === before) number = (number + 1) % (last + 1);
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

  /** A written digit as the beginning of a drawing, another one each time. */
  async function write(figure) {
    if (figure === "") return;
    const some = 10 * Math.floor((Math.random() * WRITTEN) / 10) + Number(figure);
    try {
      pad.write((await context.api.get(`/api/tasks/video/digit?number=${some}`)).ink);
      changed();
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  function settle(model) {
    chooseHeldOut(choose.select, model, made, Boolean(context.get("source")));
    refresh();
  }

  function asked() {
    const source = choose.value;
    if (source === "own") return own && { source, picture: own.content };
    if (source === "drawn") return pad.ink ? { source, ink: pad.ink, number } : null;
    return { source, number };
  }

  const state = () => ({
    source: choose.value === names[0] ? null : choose.value,
    number: choose.value === "own" ? null : number,
    ink: choose.value === "drawn" ? pad.ink : null,
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
