// Gates: how far every gate of a model is open at every step, and its memory, beside another model on the same sentence.
import { choice, field, modelChoice, presets, SENTENCES, slider } from "../parts/controls.js";
import { calm, el, errors } from "../parts/dom.js";
import { face, levelTable, reading, STYLE } from "../parts/levels.js";
import { bringIntoView, chips, MOST_CHARACTERS, MOST_STEPS, player, recurrent, remarks, whole } from "../parts/walk.js";

const RUNNING = "the cat , which the family adopted from the shelter last summer , was happy .";
const WAITING = "The first model with gates is ready in a few seconds.";

export const panel = {
  id: "gates",
  title: "Gates",
  about: "Each tank shows how far a gate stands open at the current word, from 0 (shut) to 1 (open), with the memory it guards below and a network without gates beside it. "
    + "Press Next word to read on, or move the unit slider to follow a single unit instead of the mean.",
  mount,
};

function gated(model) { return recurrent(model) && model.kind !== "rnn"; }

function mount(place, context) {
  let shown = null; // what the models did with the sentence, and what shows it
  let unitNow = whole(context.get("unit"), -1);
  const requests = [context.api.latest(), context.api.latest()];
  const failed = errors();
  const text = el("textarea", { rows: 2, maxlength: MOST_CHARACTERS, spellcheck: "false" });
  text.value = context.get("text", SENTENCES[0]);
  const walk = player(draw, { first: 1 });
  walk.set(whole(context.get("step"), 5), MOST_STEPS);
  const first = modelChoice("Model with gates", context, { fits: gated, wanted: context.get("model", "ready:lstm"), changed: () => ask() });
  const second = modelChoice("Beside it", context, { fits: recurrent, wanted: context.get("beside", "ready:rnn"), changed: () => ask() });
  const layers = choice("Layer", [], "", () => ask());
  let layer = Math.max(0, whole(context.get("layer"), 0));
  const unit = slider("Unit", { min: -1, max: 0, step: 1, value: -1, say: (at) => (at < 0 ? "mean of all" : at) }, chooseUnit);
  const step = slider("Word", { min: 1, max: 1, step: 1, value: 1 }, (at) => walk.go(at));
  layers.node.style.display = "none";
  const note = el("p", { class: "note" }, WAITING), words = el("div"), cards = el("div", { class: "columns" }), every = el("div", { class: "wide" });
  const save = el("button", { type: "button", onclick: download });
  const below = el("section", { class: "card", hidden: true, style: "margin-top:1rem" }, el("h3", {}, "Every step"), every,
    el("div", { class: "row middle", style: "margin:.8rem 0 0" }, save, el("span", { class: "note" }, "The values of every unit at every step, as lm.trace gives them.")));
  place.append(el("style", {}, STYLE), field("The sentence", text),
    el("div", { style: "margin-top:.6rem" }, presets("Sentences", [...SENTENCES, [RUNNING, "the running example"]], take)),
    el("div", { class: "row" }, first.node, second.node, layers.node), el("div", { class: "row" }, unit.node, step.node), failed.node, note, words, walk.node, cards, below);
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
    if (!first.value || !text.value) {
      note.textContent = text.value ? WAITING : "Type a sentence to be read.";
      return;
    }
    offerLayers();
    context.set({ model: first.value, beside: second.value, text: text.value, layer: layer || null });
    const sentence = text.value.slice(0, MOST_CHARACTERS);
    try {
      const reads = await Promise.all([first, second].map((pick, i) => (pick.value ? read(pick.value, sentence, requests[i]) : null)));
      if (!place.isConnected) return; // another panel is shown by now, and the address is its own
      failed.say("");
      fresh(sentence, ...reads);
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  const cardOf = (name) => context.models.find((model) => model.name === name) ?? { name, label: name, tokens: "", layers: 1 };

  /** The layers of the chosen model; of one there is nothing to choose. */
  function offerLayers() {
    const count = cardOf(first.value).layers ?? 1;
    if (layers.select.length === count) layer = Number(layers.value);
    else {
      layers.select.replaceChildren(...Array.from({ length: count }, (_, i) => el("option", { value: i }, i + 1)));
      layer = Math.min(layer, count - 1);
      layers.select.value = layer;
    }
    layers.node.style.display = count < 2 ? "none" : "";
  }

  /** What one model did: the chosen layer of it, or its last where it has fewer. */
  async function read(name, sentence, request) {
    const model = cardOf(name), at = Math.min(layer, (model.layers ?? 1) - 1);
    const answer = await request("/api/step", { model: name, text: sentence, limit: MOST_STEPS, k: 1, layer: at });
    return reading(answer, model, `l${at}`);
  }

  /** Another sentence or model: everything is made anew. */
  function fresh(sentence, main, beside) {
    const alike = beside && beside.model.tokens === main.model.tokens;
    const count = alike ? Math.min(main.steps.length, beside.steps.length) : main.steps.length;
    const reads = (alike ? [main, beside] : [main]).map((one) => ({ ...one, steps: one.steps.slice(0, count) }));
    const faces = reads.map((one) => face(one, chooseUnit));
    const table = levelTable(reads, walk.go), list = chips(reads[0].steps, walk.go);
    note.textContent = remarks(main);
    words.replaceChildren(list.node);
    cards.replaceChildren(...faces.map((one) => one.node));
    if (beside && !alike) cards.append(el("section", { class: "card" }, el("h3", {}, beside.model.label),
      el("p", { class: "note" }, `It reads tokens of the kind “${beside.model.tokens}”, ${main.model.label} reads “${main.model.tokens}”, so their steps are not the same. Choose another.`)));
    every.replaceChildren(table.node);
    save.textContent = `Save the trace of ${main.model.label} (.npz)`;
    below.hidden = false;
    shown = { main: reads[0], text: sentence, faces, table, list };
    unit.input.max = main.units - 1;
    unitNow = Math.max(-1, Math.min(main.units - 1, unitNow));
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
    unit.set(unitNow);
    step.set(at);
    context.set({ step: at, unit: unitNow < 0 ? null : unitNow });
    shown.list.mark(at);
    shown.table.draw(at, unitNow);
    for (const one of shown.faces) one.draw(at, unitNow);
    bringIntoView(every, shown.table.heads[at - 1]);
    context.announce(`word ${at} of ${shown.main.steps.length}, ${shown.main.steps[at - 1].form}`);
  }

  /** The file that `lm.trace(...).save` writes, for the same words. */
  async function download() {
    const { model, steps } = shown.main;
    try {
      const body = JSON.stringify({ model: model.name, text: shown.text, limit: steps.length });
      const response = await fetch("/api/trace.npz", { method: "POST", headers: { "Content-Type": "application/json" }, body });
      if (!response.ok) throw new context.api.Refused(response.status, (await response.json()).error);
      const address = URL.createObjectURL(await response.blob());
      el("a", { href: address, download: `${model.label}-trace.npz` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  return () => { later.cancel(); walk.leave(); };
}
