// Glimpses: where a network looked at a picture, what it saw there, and what it believed after each glimpse.
import { BELIEF_STYLE, beliefCard } from "../parts/beliefs.js";
import { CHOSEN_STYLE } from "../parts/chosen.js";
import { slider } from "../parts/controls.js";
import { el, errors } from "../parts/dom.js";
import { FILM_STYLE } from "../parts/film.js";
import { percent } from "../parts/numbers.js";
import { picturePanel } from "../parts/picture_panel.js";
import { paint, shown, unpack } from "../parts/pixels.js";
import { BEFORE, LOOK, mark, outline, retina, segment } from "../parts/squares.js";
import { markCurrent, player, wholeNumber } from "../parts/walk.js";

export const panel = {
  id: "glimpses",
  title: "Glimpses",
  see: "The network never sees the whole picture: watch where it looks next, and how its belief grows.",
  about:
    "A network looks at small parts of a picture, one after the other, and decides after each where to look next. " +
    "Press Next glimpse, or the right arrow key, press Another picture, draw a digit or drop a file.",
  mount,
};

const SOURCES = {
  made: "a written digit among pieces",
  drawn: "your own drawing",
  "held-out": "held out by this run",
  own: "your own file",
};
const LARGE = 560,
  SMALL = 128,
  PATCH = 144; // pixels of the canvases, twice what is seen
const FIRST_NUMBER = 55; // a digit that the first glimpse does not tell
const MOST_GLIMPSES = 1000;
const ABOUT = "A small network is trained to look at written digits among pieces of others; it is kept for next time.";
const HINT =
  "A network of your own appears here once it is trained: thereafter train cluttered-glyphs --task glimpse " +
  "--set scales=3 --out runs/glimpses";
const STYLE = `${BELIEF_STYLE}${CHOSEN_STYLE}${FILM_STYLE}
.glimpses canvas { image-rendering: pixelated; }
.glimpses .three { display: grid; grid-template-columns: 17rem minmax(0, 1fr) 13rem; gap: 1rem; align-items: start; }
.glimpses .seen { width: 100%; height: auto; border-radius: .4rem; display: block; border: 1px solid var(--line); }
.glimpses .patches { display: flex; flex-direction: column; gap: .5rem; margin: 0; padding: 0; list-style: none; }
.glimpses .patches li { display: flex; gap: .6rem; align-items: center; }
.glimpses .patches canvas { width: 4.5rem; height: 4.5rem; border-radius: .2rem; border: 1px solid var(--line); }
@media (max-width: 1050px) { .glimpses .three { grid-template-columns: minmax(0, 1fr); }
  .glimpses .seen { max-width: 20rem; } .glimpses .patches { flex-direction: row; flex-wrap: wrap; } }`;

function mount(place, context) {
  let answer = null,
    picture = null,
    patches = [], // of each glimpse
    film = [];
  const ask = context.api.latest();
  const failed = errors();
  const walk = player(showGlimpse, { first: 0, wait: 900, unit: "glimpse", whole: "picture" });
  const step = slider("Glimpse", { min: 0, max: 1, step: 1, value: 0 }, (at) => walk.go(at));
  walk.node.append(step.node);
  const strip = el("ol", { class: "film", id: "glimpse-film", "aria-label": "What each glimpse saw", tabindex: "0" });
  const seen = el("canvas", { class: "seen", role: "img", "aria-label": "The picture", width: 1, height: 1 });
  const status = el("p", { role: "status", id: "glimpse-status", style: "margin:0 0 .6rem" });
  const belief = beliefCard("glimpse");
  const sharp = el("ul", { class: "patches", "aria-label": "What this glimpse saw" });
  const parts = el("section", { class: "card" }, el("h3", {}, "What it saw"), sharp);
  const body = el(
    "div",
    {},
    walk.node,
    strip,
    status,
    el("div", { class: "three", id: "picture" }, seen, belief.node, parts),
  );
  const leave = picturePanel(place, context, {
    name: "glimpses",
    style: STYLE,
    body,
    walk,
    failed,
    picture: { sources: SOURCES, made: "cluttered", first: FIRST_NUMBER },
    models: { task: "glimpse", offer: "Train the network (about three minutes)", about: ABOUT },
    hint: HINT,
    ask: (model, asked) => ask("/api/tasks/glimpse", { model, ...asked }),
    draw,
  });

  function draw(now) {
    answer = now;
    picture = unpack(answer.pixels)[0];
    patches = answer.glimpses.map((one) => unpack(one.patches));
    film = answer.glimpses.map((one, at) =>
      el(
        "button",
        { type: "button", onclick: () => walk.go(at + 1), "data-glimpse": at + 1, "aria-label": `Glimpse ${at + 1}` },
        retina(one.squares, patches[at], SMALL),
        el("small", { "aria-hidden": "true" }, at + 1),
      ),
    );
    strip.replaceChildren(...film.map((one) => el("li", {}, one)));
    const many = Math.min(MOST_GLIMPSES, film.length);
    walk.set(wholeNumber(context.get("glimpse"), many), many);
    step.input.max = many;
    showGlimpse(walk.at);
  }

  /** The picture with the path so far: numbers where it looked, the squares of the last glimpse. */
  function paintPath(at) {
    paint(seen, picture, LARGE);
    const path = answer.glimpses.slice(0, at);
    const middle = (one) => [one.column, one.row];
    if (!path.length || !path[0].squares.length) return;
    path.slice(1).forEach((one, i) => {
      segment(seen, picture, middle(path[i]), middle(one), BEFORE);
    });
    path.forEach((one, i) => {
      const now = i + 1 === at;
      for (const { left, top, side } of now ? one.squares : one.squares.slice(0, 1)) {
        outline(
          seen,
          picture,
          { left, top, wide: side, high: side },
          { colour: now ? LOOK : BEFORE, width: now ? 5 : 2 },
        );
      }
    });
    path.forEach((one, i) => {
      mark(seen, picture, middle(one), i + 1, i + 1 === at ? LOOK : "#fff");
    });
  }

  function showGlimpse(at) {
    if (!answer) return;
    context.set({ glimpse: at === film.length ? null : at });
    step.set(at);
    film.forEach((one, i) => {
      one.classList.toggle("later", i >= at);
      markCurrent(one, i + 1 === at);
    });
    paintPath(at);
    belief.node.style.visibility = at ? "visible" : "hidden";
    parts.style.visibility = at ? "visible" : "hidden";
    const truth = answer.true === null ? "" : ` True: ${answer.true}.`;
    if (!at) {
      status.textContent = `Nothing of ${answer.name} has been seen yet. Press Next glimpse.${truth}`;
      seen.setAttribute("aria-label", answer.name);
      return;
    }
    const now = answer.glimpses[at - 1];
    const p = Math.max(...now.belief);
    const best = answer.labels[now.belief.indexOf(p)];
    const where = now.squares.length
      ? ` It looked at column ${now.column.toFixed(0)}, row ${now.row.toFixed(0)}.`
      : " It sees the whole picture at once.";
    status.textContent =
      `After glimpse ${at} of ${film.length} of ${answer.name} it believes: ${best}, ` +
      `${percent(Number(p.toFixed(3)))}.${truth}${where}`;
    seen.setAttribute("aria-label", `${answer.name}, with the places of the glimpses. ${status.textContent}`);
    const believed = {
      column: "label",
      labels: answer.labels,
      turns: null,
      belief: answer.glimpses.map((one) => one.belief),
      true: answer.true,
    };
    belief.draw(believed, at);
    belief.lines(believed, at).catch((error) => failed.say(context.api.sentence(error)));
    sharp.replaceChildren(
      ...patches[at - 1].map((one, k) => {
        const side = now.squares[k]?.side ?? picture.width;
        return el("li", {}, shown(one, PATCH), el("span", { class: "note" }, `${side} x ${side} pixels`));
      }),
    );
    context.announce(status.textContent);
  }

  return leave;
}
