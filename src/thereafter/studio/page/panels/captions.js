// Captions: a picture in words, and where the network looked while it wrote each of them.
import { bars } from "../parts/bars.js";
import { button, choice, field } from "../parts/controls.js";
import { el, errors } from "../parts/dom.js";
import { another, percent, short } from "../parts/numbers.js";
import { openPicture } from "../parts/opening.js";
import { paint, paintLooked, placeName, shown, unpack } from "../parts/pixels.js";
import { chooseHeldOut, taskChoice, taskModels } from "../parts/tasks.js";
import { markCurrent, player, wholeNumber } from "../parts/walk.js";

export const panel = {
  id: "captions",
  title: "Captions",
  see: "Each word looks at its own place of the picture: colour and shape at the thing they name.",
  about:
    "A network reads the picture and writes a caption word by word; the picture is dark where it did not look. " +
    "Press Next word, or the right arrow key, press Another picture, or drop a photo of your own.",
  mount,
};

const SOURCES = { made: "made by rule", "held-out": "held out by this run", own: "your own file" };
const BEAMS = { 1: "likeliest word each time", 3: "beam search, 3 wide", 5: "beam search, 5 wide", 10: "10 wide" };
const SHELF = 8; // made pictures at once
const MOST_STEPS = 1000;
const FIRST_NUMBER = 14; // two things in it, each with a place of its own
const LARGE = 640,
  SMALL = 144; // pixels of the canvases, twice what is seen
const END = "</s>";
const ABOUT = "A small network is trained to caption generated pictures of coloured shapes; it is kept for next time.";
const STYLE = `
.captions canvas { display: block; border-radius: .3rem; }
.captions .shelf { display: flex; flex-wrap: wrap; gap: .4rem; margin: 0 0 .8rem; padding: 0; list-style: none; }
.captions .shelf button { padding: .2rem; line-height: 0; }
.captions .shelf canvas { width: 2.6rem; height: auto; }
.captions .shelf button[aria-pressed="true"] { border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent); }
.captions .both { display: grid; grid-template-columns: 19rem minmax(0, 1fr); gap: 0 1.4rem; align-items: start; }
.captions .seen { width: 100%; height: auto; border: 1px solid var(--line); }
.captions .text { font-size: 1.3rem; line-height: 1.5; margin: 0 0 .2rem; overflow-wrap: anywhere; }
.captions .text mark { background: var(--accent); color: var(--on-accent); border-radius: .25rem; padding: 0 .25rem; }
.captions .columns { margin-top: .7rem; }
.captions :is(#caption-right ul, #caption-kept ol) { margin: 0; padding-left: 1.2rem; font-size: .95rem; }
.captions #caption-kept { grid-column: 1 / -1; }
.captions #caption-kept small { color: var(--soft); font-variant-numeric: tabular-nums; }
.captions .words { display: flex; flex-wrap: wrap; gap: .4rem; margin: 0; padding: 0; list-style: none; }
.captions .words button { display: flex; flex-direction: column; align-items: center; padding: .3rem; width: 5.2rem;
  line-height: 1.3; background: none; }
.captions .words canvas { width: 4.5rem; height: auto; margin-bottom: .2rem; }
.captions .words button[aria-current] { border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent); }
.captions .words span { max-width: 100%; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.captions .words small { color: var(--soft); font-variant-numeric: tabular-nums; }
.captions .over { outline: 3px dashed var(--accent); outline-offset: 4px; }
@media (max-width: 900px) { .captions .both { grid-template-columns: minmax(0, 1fr); }
  .captions .seen { max-width: 24rem; margin-bottom: .8rem; } }`;

function mount(place, context) {
  let answer = null,
    picture = null,
    cards = [], // the words of the caption
    models = [],
    own = null, // { name, content } of the visitor's file
    last = 0; // the number of the last picture of this source
  let number = Math.max(0, wholeNumber(context.get("number"), FIRST_NUMBER));
  let step = context.get("step");
  const ask = context.api.latest();
  const failed = errors();
  const pick = taskChoice("Captioner", context.get("model"), changeModel);
  const source = choice("Pictures", Object.entries(SOURCES), context.get("source", "made"), changeSource);
  const beam = choice("Caption by", Object.entries(BEAMS), context.get("beam", "1"), request);
  const dice = button("Another picture", roll, { class: "main" });
  const file = el("input", { type: "file", accept: "image/png,image/jpeg", onchange: () => open(file.files[0]) });
  const opener = el(
    "div",
    { class: "row middle", hidden: true },
    field("A PNG or JPEG, up to 2 MB; or drop one here", file),
    el("span", { class: "note" }, "It never leaves this machine."),
  );
  const shelf = el("ul", { class: "shelf", "aria-label": "Made pictures" });
  const walk = player(showStep);
  const seen = el("canvas", { class: "seen", role: "img", "aria-label": "The picture", width: 1, height: 1 });
  const text = el("p", { class: "text", id: "caption" });
  const status = el("p", { class: "note", role: "status", style: "margin:0" });
  const verdict = el("p", { class: "note", id: "caption-verdict", style: "margin:.2rem 0 0" });
  const likely = el("div");
  const known = el("section", { class: "card", id: "caption-right" });
  const kept = el("section", { class: "card", id: "caption-kept" });
  const words = el("ol", { class: "words", id: "caption-words", "aria-label": "The words, and where each looked" });
  const body = el(
    "div",
    {},
    walk.node,
    el(
      "div",
      { class: "both", id: "picture" },
      seen,
      el(
        "div",
        {},
        text,
        status,
        verdict,
        el(
          "div",
          { class: "columns" },
          el("section", { class: "card" }, el("h3", {}, "Likeliest words at this step"), likely),
          known,
          kept,
        ),
      ),
    ),
    el("h3", { style: "margin:1.2rem 0 .5rem" }, "Word by word"),
    words,
  );
  const whole = el(
    "div",
    { class: "captions", hidden: true },
    el("div", { class: "row", style: "margin-bottom:.7rem" }, dice, source.node, beam.node, pick.node),
    opener,
    shelf,
    failed.node,
    body,
  );
  const making = taskModels(context, {
    task: "caption",
    offer: "Train the captioner (about two minutes)",
    about: ABOUT,
    changed: offer,
  });
  place.append(el("style", {}, STYLE), making.node, whole);
  place.addEventListener("dragover", (event) => {
    event.preventDefault();
    whole.classList.add("over");
  });
  place.addEventListener("dragleave", () => whole.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    whole.classList.remove("over");
    open(event.dataTransfer.files[0]);
  });

  function offer(all) {
    models = all;
    pick.fill(all);
    whole.hidden = false;
    changeModel();
  }

  function changeModel() {
    const model = models.find((each) => each.name === pick.value);
    chooseHeldOut(source.select, model, "shapes", Boolean(context.get("source")));
    changeSource();
  }

  function changeSource() {
    opener.hidden = source.value !== "own";
    shelf.hidden = source.value !== "made";
    dice.hidden = source.value === "own";
    last = 0;
    fillShelf();
    request();
  }

  async function open(picked) {
    if (!picked) return;
    try {
      own = await openPicture(picked);
      source.select.value = "own";
      step = "";
      changeSource();
    } catch (error) {
      failed.say(error.message);
    }
  }

  function roll() {
    number = another(number, last);
    step = "";
    fillShelf();
    request();
  }

  async function fillShelf() {
    if (source.value !== "made") return;
    const first = SHELF * Math.floor(number / SHELF);
    try {
      const made = await context.api.get(`/api/tasks/caption/pictures?first=${first}`);
      if (!place.isConnected || first !== SHELF * Math.floor(number / SHELF)) return;
      last = made.last;
      const pictures = unpack(made.pixels);
      shelf.replaceChildren(
        ...pictures.map((each, at) => {
          const chosen = first + at === number;
          const about = { "aria-label": made.shows[at], title: made.shows[at], "aria-pressed": String(chosen) };
          return el(
            "li",
            {},
            el("button", { type: "button", ...about, onclick: () => take(first + at) }, shown(each, 84)),
          );
        }),
      );
    } catch (error) {
      if (error.status !== 503) failed.say(context.api.sentence(error));
    }
  }

  function take(chosen) {
    number = chosen;
    step = "";
    [...shelf.children].forEach((each, at) => {
      each.firstChild.setAttribute("aria-pressed", String(SHELF * Math.floor(number / SHELF) + at === number));
    });
    request();
  }

  async function request() {
    walk.stop();
    const mine = source.value === "own";
    context.set({
      model: pick.value.startsWith("ready:") ? null : pick.value,
      source: source.value === "made" ? null : source.value,
      number: mine ? null : number,
      beam: beam.value === "1" ? null : beam.value,
    });
    body.hidden = mine && !own;
    if (body.hidden) {
      failed.say("");
      return;
    }
    const asked = { model: pick.value, source: source.value, beam: Number(beam.value) };
    try {
      const now = await ask("/api/tasks/caption", mine ? { ...asked, picture: own.content } : { ...asked, number });
      if (!place.isConnected) return;
      answer = now;
      if (source.value !== "own") last = answer.count - 1;
      failed.say("");
      draw();
    } catch (error) {
      body.hidden = !answer || mine;
      failed.say(context.api.sentence(error));
    }
  }

  function draw() {
    picture = answer.pixels && unpack(answer.pixels)[0];
    seen.hidden = !picture;
    cards = answer.steps.map(card);
    words.replaceChildren(...cards.map((each) => el("li", {}, each)));
    const attends = answer.steps[0].weights !== null;
    const rule = answer.right !== null;
    verdict.textContent = [
      rule &&
        (answer.right ? "The rule of this picture allows this sentence." : "The rule allows other sentences here."),
      !attends && "This network has no attention: it saw the whole picture, at once or at every step.",
    ]
      .filter(Boolean)
      .join(" ");
    known.hidden = !answer.references.length;
    const heading = rule ? "Captions by the rule" : "Captions of this picture";
    known.replaceChildren(el("h3", {}, heading), el("ul", {}, ...answer.references.map((one) => el("li", {}, one))));
    kept.hidden = !answer.kept.length;
    const rows = answer.kept.map((one) =>
      el("li", {}, `${one.text} `, el("small", {}, `log p ${short(one.log_prob)}`)),
    );
    kept.replaceChildren(el("h3", {}, "What the beam kept, best first"), el("ol", {}, ...rows));
    walk.set(/^\d+$/.test(step) ? Number(step) : sharpest(), Math.min(MOST_STEPS, answer.steps.length));
    showStep(walk.at);
  }

  /** The step that looked at one place most: a good one to begin with. */
  function sharpest() {
    const most = answer.steps.map((each) => (each.weights && each.word !== END ? Math.max(...each.weights) : 0));
    return 1 + most.indexOf(Math.max(...most));
  }

  function card(one, at) {
    const thumb = picture && shown(picture, SMALL);
    if (thumb) paintLooked(thumb, picture, SMALL, { ...answer, weights: one.weights, edge: false });
    const word = one.word === END ? "end" : one.word;
    const inside = [thumb, el("span", {}, word), el("small", {}, percent(one.p && Number(one.p.toFixed(3))))];
    return el("button", { type: "button", onclick: () => walk.go(at + 1), "data-step": at + 1 }, inside);
  }

  function showStep(at) {
    if (!answer) return;
    step = String(at);
    context.set({ step: at });
    cards.forEach((each, i) => {
      markCurrent(each, i + 1 === at);
    });
    const spoken = answer.steps.filter((one) => one.word !== END);
    text.replaceChildren(
      ...spoken.flatMap((one, i) => [i + 1 === at ? el("mark", {}, one.word) : el("span", {}, one.word), " "]),
    );
    if (!at) {
      if (picture) paint(seen, picture, LARGE);
      seen.setAttribute("aria-label", `${answer.name}, as the network sees it`);
      status.textContent = "Nothing has been written yet: the whole picture, as the network sees it.";
      likely.replaceChildren(el("p", { class: "note" }, "Press Next word."));
      return;
    }
    const now = answer.steps[at - 1];
    if (picture) paintLooked(seen, picture, LARGE, { ...answer, weights: now.weights });
    const word = now.word === END ? "It ends here" : `It writes “${now.word}”`;
    let looked = "";
    if (now.weights) {
      const most = Math.max(...now.weights);
      const where = placeName(now.weights.indexOf(most), answer.rows, answer.columns);
      looked = ` and looks most at the ${where}: ${percent(most)} on one of ${now.weights.length} places`;
    }
    status.textContent = `Step ${at} of ${answer.steps.length}: ${word} (${percent(now.p)})${looked}.`;
    seen.setAttribute("aria-label", `${answer.name}, bright where the network looked. ${status.textContent}`);
    const listed = now.likeliest.map((one) => ({ ...one, text: one.text === END ? "(end)" : one.text }));
    likely.replaceChildren(bars(listed, { label: "likeliest words at this step", scale: 1 }));
    context.announce(status.textContent);
  }

  return () => {
    walk.leave();
    making.leave();
  };
}
