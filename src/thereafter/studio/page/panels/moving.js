// Moving digits: a clip frame by frame, what a network believes after each, and the frames that come next.
import { BELIEF_STYLE, beliefCard } from "../parts/beliefs.js";
import { button, choice, slider } from "../parts/controls.js";
import { calm, el, errors } from "../parts/dom.js";
import { FILM_STYLE } from "../parts/film.js";
import { FORESEEN_STYLE, foreseenFrames } from "../parts/foreseen.js";
import { another, percent } from "../parts/numbers.js";
import { OWN_DIGIT_STYLE, ownDigit } from "../parts/own_digit.js";
import { paint, shown, unpack } from "../parts/pixels.js";
import { chooseHeldOut, taskChoice, taskModels } from "../parts/tasks.js";
import { markCurrent, player, wholeNumber } from "../parts/walk.js";

export const panel = {
  id: "moving",
  title: "Moving digits",
  see: "One frame shows the digit but not where it goes: watch the belief in a direction grow.",
  about:
    "A network reads a clip frame by frame and says after each which digit it is and where it is going. " +
    "Press Next frame, or the right arrow key, press Another clip, or draw a digit and send it off.",
  mount,
};

const SOURCES = { made: "a written digit", drawn: "your own drawing", "held-out": "held out by this run" };
const DIRECTIONS = "E ENE NE NNE N NNW NW WNW W WSW SW SSW S SSE SE ESE".split(" ");
const WORDS = { E: "right", NE: "up and right", N: "up", NW: "up and left", W: "left", S: "down" };
const WORDS_DOWN = { SW: "down and left", SE: "down and right" };
const MOST = 1000; // clips that are made
const MOST_FRAMES = 1000;
const LARGE = 480,
  SMALL = 128; // pixels of the canvases, twice what is seen
const ABOUT = "A small network is trained on clips of written digits that move; it is kept for next time.";
const ABOUT_NEXT = "A small network that predicts the next frames can be trained here; it is kept for next time.";
const HINT =
  "A network of your own that predicts frames appears here once it is trained: " +
  "thereafter train moving-glyphs --task next-frames --out runs/next-frames";
const STYLE = `${BELIEF_STYLE}${FORESEEN_STYLE}${OWN_DIGIT_STYLE}${FILM_STYLE}
.moving canvas { image-rendering: pixelated; }
.moving .film canvas { width: 4.1rem; }
.moving .three { display: grid; grid-template-columns: 14rem repeat(2, minmax(0, 1fr)); gap: 1rem; align-items: start; }
.moving .frame { width: 100%; height: auto; border-radius: .4rem; display: block; border: 1px solid var(--line); }
@media (max-width: 1050px) { .moving .three { grid-template-columns: minmax(0, 1fr); }
  .moving .frame { max-width: 16rem; } }`;

function mount(place, context) {
  let answer = null,
    frames = [],
    film = [], // buttons, one for each frame
    cards = [],
    models = [],
    last = MOST - 1; // the number of the last clip of this source
  let number = Math.max(0, wholeNumber(context.get("number"), 0));
  const ask = context.api.latest();
  const askNext = context.api.latest();
  const failed = errors();
  const failedNext = errors();
  const later = calm(request, 120);
  const pick = taskChoice("Network", context.get("model"), changeModel);
  const foresees = taskChoice("Network", context.get("next"), requestNext);
  const source = choice("Clip", Object.entries(SOURCES), context.get("source", "made"), changeSource);
  const dice = button("Another clip", roll, { class: "main" });
  const ways = DIRECTIONS.map((name, at) => {
    const words = WORDS[name] ?? WORDS_DOWN[name];
    return [String(at), words ? `${name} (${words})` : name];
  });
  const direction = choice("It goes", ways, context.get("direction", "1"), request);
  const speed = slider(
    "Speed",
    { min: 1, max: 6, step: 0.5, value: context.get("speed", "3"), say: (pixels) => `${pixels} pixels per frame` },
    later,
  );
  const drawing = ownDigit(context, { more: [direction.node, speed.node], failed, changed: request });
  drawing.node.hidden = true;
  const walk = player(showFrame, { first: 1, wait: 450, unit: "frame", whole: "clip" });
  const strip = el("ol", { class: "film", id: "film", "aria-label": "The frames", tabindex: "0" });
  const frame = el("canvas", { class: "frame", role: "img", "aria-label": "The frame", width: 1, height: 1 });
  const status = el("p", { role: "status", id: "moving-status", style: "margin:0 0 .6rem" });
  const three = el("div", { class: "three", id: "picture" });
  const body = el("div", {}, walk.node, strip, status, three);
  const next = foreseenFrames();
  const nextCard = el(
    "section",
    { class: "card", hidden: true, style: "margin-top:1rem" },
    el("h3", {}, "The frames that come next"),
    el("div", { class: "row" }, foresees.node),
    failedNext.node,
    next.node,
  );
  const whole = el(
    "div",
    { class: "moving", hidden: true },
    el("div", { class: "row", style: "margin-bottom:.7rem" }, dice, source.node, pick.node),
    drawing.node,
    failed.node,
    body,
    nextCard,
  );
  const making = taskModels(context, {
    task: "video",
    offer: "Train the network (about four minutes)",
    about: ABOUT,
    changed: offer,
  });
  const makingNext = taskModels(context, {
    task: "next-frames",
    offer: "Train the network for the next frames (about two minutes)",
    about: ABOUT_NEXT,
    changed: (all) => {
      foresees.fill(all);
      hint.hidden = true;
      nextCard.hidden = body.hidden;
      requestNext();
    },
  });
  const hint = el("p", { class: "note", style: "margin-top:1rem" }, HINT);
  place.append(el("style", {}, STYLE), making.node, whole, makingNext.node, hint);

  function offer(all) {
    models = all;
    pick.fill(all);
    whole.hidden = false;
    changeModel();
  }

  function changeModel() {
    const model = models.find((each) => each.name === pick.value);
    chooseHeldOut(source.select, model, "moving-", Boolean(context.get("source")));
    changeSource();
  }

  function changeSource() {
    drawing.node.hidden = source.value !== "drawn";
    dice.hidden = source.value === "drawn";
    request();
  }

  function roll() {
    number = another(number, last);
    request();
  }

  function asked(model) {
    if (source.value !== "drawn") return { model, source: source.value, number };
    return { model, source: "drawn", ink: drawing.ink, direction: Number(direction.value), speed: speed.value };
  }

  async function request() {
    later.cancel();
    walk.stop();
    const drawn = source.value === "drawn";
    context.set({
      model: pick.value.startsWith("ready:") ? null : pick.value,
      source: source.value === "made" ? null : source.value,
      number: drawn ? null : number,
      ink: drawn ? drawing.ink : null,
      direction: drawn ? direction.value : null,
      speed: drawn ? speed.value : null,
    });
    body.hidden = drawn && !drawing.ink;
    nextCard.hidden = body.hidden || !foresees.value;
    failed.say("");
    if (body.hidden) return;
    requestNext();
    try {
      const now = await ask("/api/tasks/video", asked(pick.value));
      if (!place.isConnected) return;
      answer = now;
      if (!drawn) last = answer.count - 1;
      draw();
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  async function requestNext() {
    if (nextCard.hidden || !foresees.value || whole.hidden) return;
    context.set({ next: foresees.value.startsWith("ready:") ? null : foresees.value });
    try {
      const now = await askNext("/api/tasks/next-frames", asked(foresees.value));
      if (!place.isConnected) return;
      failedNext.say("");
      await next.draw(now);
    } catch (error) {
      failedNext.say(context.api.sentence(error));
    }
  }

  function draw() {
    frames = unpack(answer.frames);
    film = frames.map((one, at) =>
      el(
        "button",
        { type: "button", onclick: () => walk.go(at + 1), "data-frame": at + 1, "aria-label": `Frame ${at + 1}` },
        shown(one, SMALL),
        el("small", { "aria-hidden": "true" }, at + 1),
      ),
    );
    strip.replaceChildren(...film.map((one) => el("li", {}, one)));
    if (cards.length !== answer.beliefs.length) cards = answer.beliefs.map(() => beliefCard());
    three.replaceChildren(frame, ...cards.map((one) => one.node));
    walk.set(wholeNumber(context.get("frame"), frames.length), Math.min(MOST_FRAMES, frames.length));
    showFrame(walk.at);
  }

  function showFrame(at) {
    if (!answer) return;
    context.set({ frame: at === frames.length ? null : at });
    film.forEach((one, i) => {
      one.classList.toggle("later", i >= at);
      markCurrent(one, i + 1 === at);
    });
    paint(frame, frames[at - 1], LARGE);
    const best = answer.beliefs.map((one) => {
      const chances = one.belief[at - 1];
      const p = Math.max(...chances);
      return `${one.column} ${one.labels[chances.indexOf(p)]}, ${percent(Number(p.toFixed(3)))}`;
    });
    const truth = answer.beliefs.filter((one) => one.true !== null).map((one) => `${one.column} ${one.true}`);
    status.textContent =
      `After frame ${at} of ${frames.length} of ${answer.name} it believes: ${best.join("; ")}.` +
      (truth.length ? ` True: ${truth.join(", ")}.` : "");
    frame.setAttribute("aria-label", `Frame ${at} of ${answer.name}`);
    answer.beliefs.forEach((one, i) => {
      cards[i].draw(one, at);
      cards[i].lines(one, at).catch((error) => failed.say(context.api.sentence(error)));
    });
    context.announce(status.textContent);
  }

  return () => {
    later.cancel();
    walk.leave();
    making.leave();
    makingNext.leave();
  };
}
