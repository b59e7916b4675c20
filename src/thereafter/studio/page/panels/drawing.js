// Drawing: a canvas that grows stroke by stroke, and the windows through which a network reads and writes.
import { BELIEF_STYLE } from "../parts/beliefs.js";
import { CHOSEN_STYLE } from "../parts/chosen.js";
import { slider } from "../parts/controls.js";
import { el, errors } from "../parts/dom.js";
import { FILM_STYLE } from "../parts/film.js";
import { short } from "../parts/numbers.js";
import { picturePanel } from "../parts/picture_panel.js";
import { paint, shown, unpack } from "../parts/pixels.js";
import { outline, READ, WRITE } from "../parts/squares.js";
import { strokeCard } from "../parts/strokes.js";
import { markCurrent, player, wholeNumber } from "../parts/walk.js";

export const panel = {
  id: "drawing",
  title: "Drawing",
  see: "A picture is not drawn all at once: each stroke writes through its window and adds what is still missing.",
  about:
    "A network draws new digits from random numbers, or draws a digit again that it reads through a window. " +
    "Press Next stroke, or the right arrow key, press Another picture, draw a digit or drop a file.",
  mount,
};

const SOURCES = {
  new: "a new one, from random numbers",
  made: "a written digit, drawn again",
  drawn: "your own drawing, drawn again",
  "held-out": "held out by this run, drawn again",
  own: "your own file, drawn again",
};
const LARGE = 522,
  SMALL = 116; // pixels of the canvases, about twice what is seen
const DASH = [10, 7];
const MOST_STROKES = 1000;
const ABOUT = "A small network is trained to draw written digits; it is kept for next time.";
const HINT =
  "A network of your own appears here once it is trained: thereafter train mnist --task draw --set strokes=16 " +
  "--out runs/drawing";
const STYLE = `${BELIEF_STYLE}${CHOSEN_STYLE}${FILM_STYLE}
.drawing canvas { image-rendering: pixelated; }
.drawing .sheets { display: grid; grid-template-columns: repeat(2, 14.5rem) minmax(0, 1fr); gap: 1rem;
  align-items: start; }
.drawing .sheets.alone { grid-template-columns: 14.5rem minmax(0, 1fr); }
.drawing figure { margin: 0; } .drawing figcaption { color: var(--soft); font-size: .9rem; margin-top: .3rem; }
.drawing .sheet { width: 100%; height: auto; border-radius: .4rem; display: block; border: 1px solid var(--line); }
.drawing .cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 1rem; }
.drawing .swatch { display: inline-block; width: 1.6rem; border-top: 3px solid ${WRITE}; vertical-align: middle; }
.drawing .swatch.read { border-top: 3px dashed ${READ}; }
@media (max-width: 1050px) { .drawing :is(.sheets, .sheets.alone) { grid-template-columns: minmax(0, 1fr); }
  .drawing .sheet { max-width: 18rem; } }`;

function mount(place, context) {
  let answer = null,
    canvases = [], // before the first stroke, and after each
    picture = null, // that is drawn again
    film = [];
  const ask = context.api.latest();
  const failed = errors();
  const walk = player(showStroke, { first: 0, wait: 500, unit: "stroke", whole: "drawing" });
  const step = slider("Stroke", { min: 0, max: 1, step: 1, value: 0 }, (at) => walk.go(at));
  walk.node.append(step.node);
  const strip = el("ol", { class: "film", id: "drawing-film", "aria-label": "The canvas by stroke", tabindex: "0" });
  const [sheet, target] = ["canvas", "target"].map((id) =>
    el("canvas", { class: "sheet", id: `drawing-${id}`, role: "img", width: 1, height: 1, "aria-label": id }),
  );
  const status = el("p", { role: "status", id: "drawing-status", style: "margin:0 0 .6rem" });
  const wrote = el("figcaption", {}, el("i", { class: "swatch", "aria-hidden": "true" }), " where it wrote");
  const read = el("figcaption", {}, el("i", { class: "swatch read", "aria-hidden": "true" }), " where it read");
  const original = el("figure", {}, target, read);
  const [first, second] = [strokeCard(), strokeCard()];
  const sheets = el(
    "div",
    { class: "sheets", id: "picture" },
    el("figure", {}, sheet, wrote),
    original,
    el("div", { class: "cards" }, first.node, second.node),
  );
  const body = el("div", {}, walk.node, strip, status, sheets);
  const leave = picturePanel(place, context, {
    name: "drawing",
    style: STYLE,
    body,
    walk,
    failed,
    picture: { sources: SOURCES, made: "" },
    models: { task: "draw", offer: "Train the network (about two minutes)", about: ABOUT },
    hint: HINT,
    ask: (model, asked) =>
      asked.source === "new"
        ? ask("/api/tasks/draw/new", { model, seed: asked.number })
        : ask("/api/tasks/draw", { model, ...asked }),
    draw,
  });

  function draw(now) {
    answer = now;
    canvases = unpack(answer.canvases);
    picture = answer.pixels && unpack(answer.pixels)[0];
    film = canvases.map((one, at) =>
      el(
        "button",
        {
          type: "button",
          onclick: () => walk.go(at),
          "data-stroke": at,
          "aria-label": at ? `After stroke ${at}` : "Before the first stroke",
        },
        shown(one, SMALL),
        el("small", { "aria-hidden": "true" }, at),
      ),
    );
    strip.replaceChildren(...film.map((one) => el("li", {}, one)));
    original.hidden = !picture;
    sheets.classList.toggle("alone", !picture);
    const attends = answer.strokes.some((one) => one.write);
    wrote.hidden = read.hidden = !attends;
    second.node.hidden = !picture;
    if (picture) {
      first.draw(
        "Told by each stroke",
        values("latent"),
        "Nats of its numbers z: how much the network had to be told about the picture to draw this stroke.",
      );
      second.draw(
        "Still wrong in the picture",
        values("left"),
        `Nats of the pixels after each stroke, the fewer the better; ${short(answer.left)} before the first.`,
      );
    } else {
      first.draw("What a stroke changed", values("changed"), "Pixels: the sum of the changes in their probabilities.");
    }
    const many = Math.min(MOST_STROKES, answer.strokes.length);
    walk.set(wholeNumber(context.get("stroke"), many), many);
    step.input.max = many;
    showStroke(walk.at);
  }

  const values = (name) => answer.strokes.map((one) => one[name]);

  /** A window over a sheet: from its first place to its last. */
  function frame(canvas, over, window, look) {
    if (!window) return;
    const side = (window.places - 1) * window.stride + 1;
    const box = { left: window.column + 0.5 - side / 2, top: window.row + 0.5 - side / 2, wide: side, high: side };
    outline(canvas, over, box, look);
  }

  function showStroke(at) {
    if (!answer) return;
    context.set({ stroke: at === answer.strokes.length ? null : at });
    step.set(at);
    film.forEach((one, i) => {
      one.classList.toggle("later", i > at);
      markCurrent(one, i === at);
    });
    const now = at ? answer.strokes[at - 1] : null;
    paint(sheet, canvases[at], LARGE);
    frame(sheet, canvases[at], now?.write, { colour: WRITE, width: 5 });
    if (picture) {
      paint(target, picture, LARGE);
      frame(target, picture, now?.read, { colour: READ, width: 5, dash: DASH });
    }
    first.mark(at);
    second.mark(at);
    const total = answer.strokes.length;
    const spoken = answer.strokes.reduce((sum, one) => sum + one.latent, 0);
    const costs = picture
      ? (now ? ` This stroke was told ${short(now.latent)} nats about the picture;` : " Nothing has been told yet;") +
        ` the pixels are still ${short(now ? now.left : answer.left)} nats off.` +
        ` All ${total} strokes and the pixels left at the end cost ${short(answer.nats)} nats` +
        ` (${short(spoken)} and ${short(answer.strokes[total - 1].left)}): the fewer, the better.`
      : "";
    const when = at ? `After stroke ${at} of ${total}` : `Before the first of ${total} strokes`;
    status.textContent = `${when} of ${answer.name}.${costs}`;
    const place = now?.write ? ` It wrote about column ${short(now.write.column)}, row ${short(now.write.row)}.` : "";
    sheet.setAttribute("aria-label", `The canvas. ${status.textContent}${place}`);
    const seen = now?.read ? ` It read about column ${short(now.read.column)}, row ${short(now.read.row)}.` : "";
    target.setAttribute("aria-label", `${answer.name}, which is drawn again.${seen}`);
    context.announce(status.textContent);
  }

  return leave;
}
