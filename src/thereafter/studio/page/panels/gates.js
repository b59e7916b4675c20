// Gates: how far every gate of a model is open at every step, and its memory, beside another model with the sentence.
import { examples } from "../parts/at_hand.js";
import { choice, field, modelChoice, SENTENCES, slider } from "../parts/controls.js";
import { calm, el, errors, show, visible } from "../parts/dom.js";
import { equationList } from "../parts/equations.js";
import { beforeAndNow, describeMemory, face, levelTable, reading, STYLE, unitOf } from "../parts/levels.js";
import {
  bringIntoView,
  isGated,
  isRecurrent,
  knownUnit,
  MOST_CHARACTERS,
  MOST_STEPS,
  player,
  remarks,
  wholeNumber,
} from "../parts/walk.js";

const MEAN = "mean"; // of the units, in the address
const WAITING = "The first model with gates is ready in a few seconds.";

export const panel = {
  id: "gates",
  title: "Gates",
  see: "One unit keeps the subject's number up to the verb: look at its memory, and at the gate that keeps it.",
  about:
    "Rows are gates, from 0 (closed) to 1 (open), the candidate that may be written, and the memory. " +
    "The twin swaps singular and plural.",
  own: {
    see: "A gate near 1 lets everything through, a gate near 0 nothing: see which of them change the memory, and when.",
    about:
      "Rows are gates, from 0 (closed) to 1 (open), the candidate that may be written, and the memory. " +
      "Step through the text, then follow one unit.",
  },
  mount,
};

function mount(place, context) {
  let shown = null; // what the models did with the sentence, and what shows it
  // the unit that is shown. null: of each model the one that carries the number; -1: the mean of all
  let unitNow = context.get("unit") === MEAN ? -1 : wholeNumber(context.get("unit"), null);
  const requests = [context.api.latest(), context.api.latest(), context.api.latest()];
  const failed = errors();
  const text = el("textarea", { rows: 1, maxlength: MOST_CHARACTERS, spellcheck: "false" });
  text.value = context.get("text", SENTENCES[0][0]);
  const lead = examples(context, "Sentences", SENTENCES, text, take);
  const walk = player(draw, { first: 1 });
  walk.set(wholeNumber(context.get("step"), 5), MOST_STEPS);
  const first = modelChoice("Model with gates", context, {
    fits: isGated,
    wanted: context.get("model", "ready:lstm"),
    changed: () => ask(),
  });
  const second = modelChoice("Beside it", context, {
    fits: isRecurrent,
    wanted: context.get("beside", "ready:rnn"),
    changed: () => ask(),
  });
  const layers = choice("Layer", [], "", () => {
    [layer, chosenLayer] = [Number(layers.value), true];
    ask();
  });
  let layer = Math.max(0, wholeNumber(context.get("layer"), -1)),
    chosenLayer = context.get("layer") !== "";
  const unit = slider(
    "Unit",
    { min: -1, max: 0, step: 1, value: -1, say: (at) => (at < 0 ? "mean of all" : at) },
    chooseUnit,
  );
  const step = slider("Word", { min: 1, max: 1, step: 1, value: 1 }, (at) => walk.go(at));
  layers.node.style.display = "none";
  const note = el("p", { class: "note", style: "margin:0" }, WAITING),
    cards = el("div", { class: "columns" });
  const every = el("div", { class: "wide" }),
    kept = el("p", { class: "note", id: "kept", style: "margin:0 0 .4rem" });
  const title = el("h3"),
    beside = el("h3"),
    formulas = el("div");
  const picture = el(
    "div",
    { class: "beside", hidden: true, id: "picture" },
    el("section", { class: "card", style: "padding:.7rem .9rem" }, title, kept, every),
    el("section", { class: "card", style: "padding:.7rem .9rem" }, beside, formulas),
  );
  const save = el("button", { type: "button", onclick: download });
  const below = el(
    "div",
    { class: "row middle", hidden: true, style: "margin:1rem 0 0" },
    save,
    el("span", { class: "note" }, "The values of every unit at every step, as lm.trace gives them."),
  );
  place.append(
    el("style", {}, STYLE),
    el("div", { class: "sentence" }, field("The sentence", text), lead.node),
    el("div", { class: "row" }, first.node, second.node, layers.node, unit.node, step.node),
    failed.node,
    note,
    walk.node,
    picture,
    cards,
    below,
  );
  const later = calm(ask);
  text.addEventListener("input", later);

  function take(sentence) {
    text.value = sentence;
    walk.set(1, MOST_STEPS);
    ask();
  }

  async function ask() {
    later.cancel();
    walk.stop();
    await lead.follow(first.value);
    if (!first.value || !text.value) {
      note.textContent = text.value ? WAITING : "Type a sentence to read.";
      return;
    }
    offerLayers();
    context.set({ model: first.value, beside: second.value, text: text.value, layer: chosenLayer ? layer : null });
    const sentence = text.value.slice(0, MOST_CHARACTERS);
    try {
      let missing = ""; // why there is no model beside the first
      const reads = await Promise.all([
        read(first.value, sentence, requests[0]),
        second.value &&
          read(second.value, sentence, requests[1]).catch((error) => {
            if (error.name === "AbortError") throw error; // another sentence or model is asked about by now
            missing = `${cardOf(second.value).label}: ${context.api.sentence(error)}`;
          }),
      ]);
      if (!place.isConnected) return; // another panel is shown by now: the address belongs to it
      const twin = reads[0].twin ? await read(first.value, reads[0].twin, requests[2]) : null;
      if (!place.isConnected) return;
      failed.say(missing);
      rebuild(sentence, ...reads, twin);
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  const cardOf = (name) =>
    context.models.find((model) => model.name === name) ?? { name, label: name, tokens: "", layers: 1 };

  /** Offer the layers of the chosen model; where there is one only, there is no choice. */
  function offerLayers() {
    const count = cardOf(first.value).layers ?? 1;
    if (!chosenLayer) layer = knownUnit(cardOf(first.value), "number")?.layer ?? 0;
    if (layers.select.length !== count) {
      layers.select.replaceChildren(...Array.from({ length: count }, (_, i) => el("option", { value: i }, i + 1)));
    }
    layer = Math.min(layer, count - 1);
    layers.select.value = layer;
    layers.node.style.display = count < 2 ? "none" : "";
  }

  /** What one model did with the sentence, in the chosen layer, or in its last where it has fewer. */
  async function read(name, sentence, request) {
    const model = cardOf(name),
      at = Math.min(layer, (model.layers ?? 1) - 1);
    const answer = await request("/api/step", { model: name, text: sentence, limit: MOST_STEPS, k: 1, layer: at });
    return reading(answer, model, `l${at}`);
  }

  /** Another sentence or model: everything is made anew. */
  function rebuild(sentence, main, other, turned) {
    const alike = other && other.model.tokens === main.model.tokens;
    const count = alike ? Math.min(main.steps.length, other.steps.length) : main.steps.length;
    const reads = (alike ? [main, other] : [main]).map((one) => ({ ...one, steps: one.steps.slice(0, count) }));
    const faces = reads.map((one) => face(one, chooseUnit));
    const twin = turned?.steps.length >= count ? { ...turned, steps: turned.steps.slice(0, count) } : null;
    const table = levelTable(reads, walk.go, twin),
      equations = equationList(main.equations);
    note.textContent = remarks(main);
    formulas.replaceChildren(equations.node);
    cards.replaceChildren(...faces.map((one) => one.node));
    if (other && !alike)
      cards.append(
        el(
          "section",
          { class: "card" },
          el("h3", {}, other.model.label),
          el(
            "p",
            { class: "note" },
            `It reads tokens of the kind “${other.model.tokens}”, ${main.model.label} reads “${main.model.tokens}”, ` +
              "so their steps are not the same. Choose another.",
          ),
        ),
      );
    every.replaceChildren(table.node);
    save.textContent = `Save the trace of ${main.model.label} (.npz)`;
    below.hidden = picture.hidden = false;
    shown = { main: reads[0], twin, text: sentence, faces, table, equations };
    unit.input.max = main.units - 1;
    if (unitNow !== null) unitNow = Math.max(-1, Math.min(main.units - 1, unitNow));
    step.input.max = count;
    walk.set(walk.at, count);
    draw(walk.at);
  }

  function chooseUnit(chosen) {
    unitNow = chosen;
    draw(walk.at);
  }

  function draw(at) {
    if (!shown) return;
    const { main, twin } = shown,
      one = unitOf(main, unitNow);
    unit.set(one);
    step.set(at);
    context.set({ step: at, unit: unitNow === -1 ? MEAN : unitNow });
    const known = one >= 0 && one === main.known ? ", which carries the number" : "";
    show(title, one < 0 ? "Every step, the mean of all units" : `Every step, unit ${one}${known}`);
    show(
      beside,
      `${main.model.label} at “${visible(main.steps[at - 1].form)}”, ${one < 0 ? "mean of all" : `unit ${one}`}`,
    );
    show(kept, describeMemory(main, twin, unitNow));
    shown.equations.draw((name) =>
      one < 0 && ["c", "h"].includes(name) ? undefined : beforeAndNow(main, name, at, unitNow),
    );
    shown.table.draw(at, unitNow);
    for (const one of shown.faces) one.draw(at, unitNow);
    bringIntoView(every, shown.table.heads[at - 1]);
    context.announce(`word ${at} of ${main.steps.length}, ${main.steps[at - 1].form}`);
  }

  /** The file that `lm.trace(...).save` writes, for the same words. */
  async function download() {
    const { model, steps } = shown.main;
    try {
      const asked = { model: model.name, text: shown.text, limit: steps.length };
      await context.api.download("/api/trace.npz", asked, `${model.label}-trace.npz`);
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  return () => {
    later.cancel();
    walk.leave();
  };
}
