// Recurrence: one word at a time through a recurrent model, folded into one cell and unrolled over the sentence.
import { examples } from "../parts/at_hand.js";
import { bars } from "../parts/bars.js";
import { choice, field, modelChoice, SENTENCES, slider } from "../parts/controls.js";
import { calm, el, errors, show, visible } from "../parts/dom.js";
import { equationList, withSign } from "../parts/equations.js";
import { LOOP_STYLE, loop, sub } from "../parts/loop.js";
import { percent } from "../parts/numbers.js";
import { fromMiddle, shade, strip } from "../parts/strip.js";
import { drawUpright, meanSize, UNROLLED_STYLE } from "../parts/unrolled.js";
import {
  bringIntoView,
  chips,
  isRecurrent,
  knownUnit,
  MOST_CHARACTERS,
  MOST_STEPS,
  markCurrent,
  player,
  remarks,
  textUpTo,
  usualSize,
  wholeNumber,
} from "../parts/walk.js";

export const panel = {
  id: "recurrence",
  title: "Recurrence",
  see: "One unit takes up the number of the subject, and the state carries it from word to word.",
  about: "Press Next word, or the right arrow key: the cell reads a word and passes its state on to the next step.",
  own: { see: "A single cell reads everything: the state carries what it has read from one token to the next." },
  mount,
};

const WAITING = "The first recurrent model is ready in a few seconds.";

function mount(place, context) {
  let answer = null,
    twinSteps = null,
    most = {},
    drawn = null; // twinSteps: those of the twin sentence; most: the strongest colour of h and of c
  let unitNow = wholeNumber(context.get("unit"), null); // null: the one that carries the number
  const request = context.api.latest(),
    requestTwin = context.api.latest();
  const failed = errors();
  const text = el("textarea", { rows: 1, maxlength: MOST_CHARACTERS, spellcheck: "false" });
  text.value = context.get("text", SENTENCES[0][0]);
  const lead = examples(context, "Sentences", SENTENCES, text, (sentence) => take(sentence, 0));
  const walk = player(showStep);
  walk.set(wholeNumber(context.get("step"), 5), MOST_STEPS);
  const pick = modelChoice("Model", context, {
    fits: isRecurrent,
    wanted: context.get("model", "ready:gru"),
    changed: () => ask(),
  });
  const view = choice(
    "View",
    [
      ["both", "folded and unrolled"],
      ["folded", "folded"],
      ["unrolled", "unrolled"],
    ],
    context.get("view", "both"),
    look,
  );
  const unit = slider("Unit", { min: 0, max: 0, step: 1, value: 0 }, (chosen) => {
    unitNow = chosen;
    drawUnit();
  });
  const note = el("p", { class: "note", style: "margin:0" }, WAITING);
  const words = el("div");
  const folded = loop();
  const states = el("dl", { class: "states", style: "margin:0" });
  const expected = el("div");
  const unrolled = el("div", { class: "wide" });
  const formulas = el("div"),
    about = el("p", { class: "note", id: "unit", style: "margin:.3rem 0 0" });
  const half = el(
    "section",
    { class: "card", style: "padding:.7rem .9rem" },
    el("h3", {}, "Folded: one cell in a loop"),
    folded.node,
    formulas,
  );
  const rolled = el(
    "section",
    { class: "card" },
    el("h3", {}, "Unrolled: the same cell at every step"),
    unrolled,
    about,
  );
  const picture = el("div", { class: "beside", id: "picture" }, rolled, half);
  const shown = el(
    "div",
    { hidden: true },
    picture,
    el(
      "div",
      { class: "halves" },
      el("section", { class: "card" }, el("h3", {}, "Its whole state"), states),
      el("section", { class: "card" }, el("h3", {}, "What comes next"), expected),
    ),
  );
  place.append(
    el("style", {}, UNROLLED_STYLE + LOOP_STYLE),
    el("div", { class: "sentence" }, field("The sentence", text), lead.node),
    el("div", { class: "row" }, pick.node, view.node, unit.node),
    failed.node,
    note,
    words,
    walk.node,
    shown,
  );
  const later = calm(ask);
  text.addEventListener("input", later);
  look(view.value);

  function look(value) {
    half.hidden = value === "unrolled";
    words.hidden = value !== "folded"; // they stand in the unrolled picture
    rolled.hidden = value === "folded";
    picture.style.gridTemplateColumns = value === "both" ? "" : "minmax(0, 1fr)";
    context.set({ view: value === "both" ? null : value });
  }

  function take(sentence, at) {
    text.value = sentence;
    walk.set(at, MOST_STEPS);
    ask();
  }

  async function ask() {
    later.cancel();
    walk.stop();
    await lead.follow(pick.value);
    if (!pick.value || !text.value) {
      note.textContent = text.value ? WAITING : "Type a sentence to read.";
      return;
    }
    context.set({ model: pick.value, text: text.value });
    try {
      const asked = {
        model: pick.value,
        text: text.value.slice(0, MOST_CHARACTERS),
        limit: MOST_STEPS,
        k: 8,
        gates: false,
      };
      const reading = await request("/api/step", asked);
      if (!place.isConnected) return; // another panel is shown by now: the address belongs to it
      const twin = reading.twin ? await requestTwin("/api/step", { ...asked, text: reading.twin, k: 1 }) : null;
      if (!place.isConnected) return;
      [answer, twinSteps] = [reading, twin?.steps.length === reading.steps.length ? twin.steps : null];
      failed.say("");
      rebuild();
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  /** Another sentence or model: everything is drawn anew. */
  function rebuild() {
    const { steps } = answer;
    const names = Object.keys(answer.before.state);
    const letters = [...new Set(names.map((name) => name.split(".")[1]))];
    const values = (letter) =>
      [answer.before, ...steps].flatMap((step) =>
        names.filter((name) => name.endsWith(`.${letter}`)).flatMap((name) => step.state[name]),
      );
    most = Object.fromEntries(letters.map((letter) => [letter, usualSize(values(letter))]));
    note.textContent = remarks(answer);
    const list = chips(steps, walk.go);
    words.replaceChildren(list.node);
    const strips = [
      ["h", "before"],
      ["h", "after"],
      ["h", "change"],
      ["c", "after"],
    ]
      .filter(([letter]) => letters.includes(letter))
      .map((one) => row(...one));
    const colours = letters.map((letter) => `of ${letter} the strongest colour is ±${most[letter].toFixed(2)}`);
    states.replaceChildren(
      ...strips.flatMap((one) => [one.head, one.body]),
      el("p", { class: "note" }, `Blue is below 0, orange above; ${colours.join(", ")} and beyond.`),
    );
    const equations = equationList(answer.equations);
    formulas.replaceChildren(equations.node);
    const palette = Array.from({ length: 201 }, (_, i) => shade(i / 100 - 1));
    const columns = [answer.before, ...steps].map((step, at) => column(step, at, palette));
    unrolled.replaceChildren(
      el(
        "div",
        { class: "unrolled" },
        columns.flatMap((one) => [one.arrow, one.node]),
      ),
    );
    shown.hidden = false;
    drawn = { list, strips, columns, equations };
    unit.input.max = answer.before.state[memory().field].length - 1;
    drawUnit();
    walk.set(walk.at, steps.length);
    showStep(walk.at, walk.at);
  }

  const cardOf = () => context.models.find((one) => one.name === pick.value);

  /**
   * The state and the unit that the picture follows: the unit that carries the number of the subject, where one is
   * known and none was chosen. Else a unit of the last layer, of its c where there is one, or of its h.
   */
  function memory() {
    const known = knownUnit(cardOf(), "number");
    const last = answer.layers.at(-1),
      own = `${last}.c` in answer.before.state ? `${last}.c` : `${last}.h`;
    const field = known && known.field in answer.before.state ? known.field : own;
    const size = answer.before.state[field].length;
    return {
      field,
      index: Math.min(size - 1, Math.max(0, unitNow ?? known?.index ?? 0)),
      known: known?.field === field ? known.index : -1,
    };
  }

  /** One unit at every step, of the sentence and of its twin, on one scale. */
  function drawUnit() {
    if (!answer) return;
    const { field, index, known } = memory(),
      letter = field.split(".")[1];
    const values = (steps) => steps.map((step) => step.state[field][index]);
    const own = values([answer.before, ...answer.steps]),
      other = twinSteps && values([answer.before, ...twinSteps]);
    const top = Math.max(1e-6, ...[...own, ...(other ?? [])].map(Math.abs));
    drawn.columns.forEach((one, at) => {
      one.units.forEach((box, i) => {
        const value = (i ? other : own)[at];
        box.querySelector("b").textContent = withSign(value);
        box.querySelector("i").style.background = fromMiddle(value / top);
      });
    });
    unit.set(index);
    context.set({ unit: unitNow });
    const carries = index === known ? ", which carries the number" : "";
    const second = twinSteps ? "; the lower box: the same in the twin sentence, with singular and plural swapped" : "";
    show(
      about,
      `${twinSteps ? "The upper box" : "The box"}: ${letter} of unit ${index}${carries}${second}. ` +
        "Up and orange is above 0, down and blue below.",
    );
    drawEquations(walk.at);
  }

  function drawEquations(at) {
    const { field, index } = memory(),
      layer = field.split(".")[0];
    drawn.equations.draw((name) =>
      at && `${layer}.${name}` in stateAt(at)
        ? [stateBefore(at, `${layer}.${name}`)[index], stateAt(at)[`${layer}.${name}`][index]]
        : undefined,
    );
  }

  const stateAt = (at) => (at === 0 ? answer.before : answer.steps[at - 1]).state;
  /** The state before a step; before the start mark it is 0. */
  const stateBefore = (at, name) => (at ? stateAt(at - 1)[name] : stateAt(0)[name].map(() => 0));
  const layersOf = (state, letter) => answer.layers.map((layer) => state[`${layer}.${letter}`]);
  /** The state of the first layer between -1 and 1, for the small strip on the loop. */
  const stateForLoop = (at) => layersOf(stateAt(at), "h")[0].map((value) => value / most.h);

  /** One line of the state: a name, a number, a strip for each layer; `draw(at)` fills it. */
  function row(letter, part) {
    const several = answer.layers.length > 1,
      title = el("span"),
      size = el("span", { class: "note" });
    const strips = answer.layers.map((_, i) =>
      strip(`${letter} ${part}${several ? `, layer ${i + 1}` : ""}`, { height: several ? 0.7 : 1 }),
    );
    const draw = (at) => {
      const layers = answer.layers.map((layer) => {
        const name = `${layer}.${letter}`,
          before = stateBefore(at, name),
          after = stateAt(at)[name];
        return { before, after, change: after.map((value, unit) => value - before[unit]) }[part];
      });
      const now = sub(letter, at),
        old = sub(letter, at - 1);
      const formula = { before: old, after: now, change: `${now} − ${old}` }[part];
      title.textContent = `${letter === "c" ? "Cell state" : "State"} ${part}, ${formula}`;
      size.textContent = `mean size ${meanSize(layers.flat()).toFixed(3)}`;
      for (const [i, one] of strips.entries()) one.draw([layers[i]], { most: most[letter] });
    };
    const body = el(
      "dd",
      {},
      strips.map((one) => one.node),
      several && part === "after" ? el("span", { class: "note" }, "first layer above, last below") : null,
    );
    return { head: el("dt", { "data-row": `${letter} ${part}` }, title, size), body, draw };
  }

  /** A step of the unrolled view: what it expects, its state as an upright strip, the word it has read. */
  function column(step, at, palette) {
    const likeliest = step.next[0],
      word = at ? visible(step.form) : "start";
    const canvas = el("canvas", { role: "presentation" });
    drawUpright(canvas, layersOf(step.state, "h"), most.h, palette);
    const twin = at ? twinSteps?.[at - 1].form : "start";
    const units = [0, ...(twinSteps ? [1] : [])].map((i) =>
      el("span", { class: "one", "aria-hidden": "true" }, el("i"), el("b"), i ? el("small", {}, visible(twin)) : null),
    );
    const node = el(
      "button",
      {
        type: "button",
        "data-step": at,
        onclick: () => walk.go(at),
        "aria-label": `Step ${at}: reads ${word}, expects ${visible(likeliest.text)}, ${percent(likeliest.p)}`,
      },
      el("span", { class: "mono likeliest" }, visible(likeliest.text)),
      el("span", { class: "ahead likeliest", "aria-hidden": "true" }, percent(likeliest.p)),
      canvas,
      units[0],
      el("span", { class: "mono" }, step.known === false ? `${word} ?` : word),
      units[1] ?? null,
    );
    return { node, units, arrow: at ? el("span", { class: "arrow", "aria-hidden": "true" }, "→") : null };
  }

  function showStep(at, from) {
    if (!answer) return;
    context.set({ step: at });
    const step = at ? answer.steps[at - 1] : answer.before;
    const word = at ? visible(step.form) : "start",
      likeliest = step.next[0];
    drawn.list.mark(at);
    for (const one of drawn.strips) one.draw(at);
    drawEquations(at);
    drawn.columns.forEach((one, i) => {
      markCurrent(one.node, i === at);
      one.node.classList.toggle("later", i > at);
      one.arrow?.classList.toggle("live", i === at);
    });
    bringIntoView(unrolled, drawn.columns[at].node);
    const model = cardOf();
    const token = { word: "word", char: "character" }[model?.tokens] ?? "token";
    folded.draw(
      { kind: model?.kind ?? "cell", at, word, likeliest, token, old: stateForLoop(from), now: stateForLoop(at) },
      at === from + 1,
    );
    const after = at ? `“${word}”, ${token} ${at} of ${answer.steps.length}` : "nothing but the start mark";
    expected.replaceChildren(
      el("p", { class: "note" }, `After ${after}. Click one to have it read next.`),
      bars(step.next, {
        label: "next word",
        tinted: answer.twin !== "" || answer.steps.some((one) => one.next.some((item) => item.number)),
        chosen: (item) => readInstead(at, item),
      }),
    );
    context.announce(`read ${word}, expects ${visible(likeliest.text)}, ${percent(likeliest.p)}`);
  }

  function readInstead(at, item) {
    take(
      textUpTo(
        text.value,
        answer.steps.slice(0, at).map((step) => step.form),
      ) + item.append,
      at + 1,
    );
    walk.next.focus();
  }

  return () => {
    later.cancel();
    walk.leave();
    folded.stop();
  };
}
