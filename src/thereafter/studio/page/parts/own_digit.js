// A digit of the visitor's own: a square to draw into, and written digits to begin with.
import { button, choice } from "./controls.js";
import { el } from "./dom.js";
import { drawingPad } from "./drawing.js";

const WRITTEN = 2000; // written digits to begin a drawing with

export const OWN_DIGIT_STYLE = `
.own-digit { display: flex; flex-wrap: wrap; gap: .8rem 1.2rem; align-items: start; margin: 0 0 .9rem; }
.own-digit .pad { width: 10rem; height: 10rem; border-radius: .4rem; border: 1px solid var(--line); cursor: crosshair;
  touch-action: none; image-rendering: pixelated; }
.own-digit .side { display: flex; flex-wrap: wrap; gap: .7rem; align-items: end; max-width: 26rem; }`;

/**
 * { node, ink }. It begins with the drawing of the address. `more`: what else can be set beside it. `changed()` is
 * called after every stroke, `failed` is a place for errors.
 */
export function ownDigit(context, { more = [], failed, changed }) {
  const pad = drawingPad("Your digit, drawn with the mouse or a finger", changed);
  pad.write(context.get("ink"));
  const begin = choice("Begin with", [["", "–"], ..."0123456789".split("").map((one) => [one, one])], "", write);
  const clear = button("Clear", () => {
    pad.clear();
    begin.select.value = "";
    changed();
  });
  const about = "Draw a digit into the black square; it is read at the end of a stroke.";
  const note = el("p", { class: "note", style: "margin:0" }, about);
  const node = el(
    "div",
    { class: "own-digit" },
    pad.node,
    el("div", { class: "side" }, begin.node, clear, ...more, note),
  );

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

  return {
    node,
    get ink() {
      return pad.ink;
    },
  };
}
