// Backpropagation: one sentence forward through the unrolled network, and the gradient of its last loss back; beside it
// what reaches the states of several models, in this sentence or as a mean over many.
import { examples } from "../parts/at_hand.js";
import { chain } from "../parts/chain.js";
import { chart, colourOf } from "../parts/chart.js";
import { button, choice, field, modelBox, modelChoice, slider } from "../parts/controls.js";
import { answered, calm, el, errors, visible } from "../parts/dom.js";
import {
  count,
  curveOf,
  cutLine,
  describeCut,
  describeStep,
  keyOf,
  linesOf,
  nameOf,
  stateOf,
  verdictTable,
} from "../parts/gradients.js";
import { POWERS, percent, short } from "../parts/numbers.js";
import { playback } from "../parts/playback.js";
import { isRecurrent, MOST_CHARACTERS } from "../parts/walk.js";

const BESIDE = ["ready:rnn", "ready:lstm", "ready:gru"];
const LIMIT = 40;
const DECADES = 4; // how many powers of ten below the largest gradient the picture can show
const SENTENCES = 60; // over which a mean is taken
const TEXTS = [
  ["the small happy hamsters defended by our musician outside still have", "a far verb"],
  ["the farmers near the author are", "a near verb"],
  [
    "we heard that your ugly guitar near their journalist nearby really has amused his brave black eagle .",
    "a long sentence",
  ],
];

export const panel = {
  id: "backprop",
  title: "Backpropagation",
  see: "Back from the verb to its subject, an LSTM's c keeps more of the gradient than its h does, or an RNN's.",
  about:
    "States go forward to the last word, and the gradient of that word's loss comes back; " +
    "under each state stands its real size. " +
    "Press Backward to watch it; shorten the truncation to see what training would lose.",
  own: {
    see: "The farther back, the less gradient is left: an LSTM's c keeps more of it than its h does, or an RNN's.",
  },
  mount,
};

function mount(place, context) {
  let answers = []; // an answer for each model, the chosen one first
  let means = null; // the same as means over sentences, where means are asked for
  let unread = ""; // why there are no means
  let beside = context.get("beside") ? context.get("beside").split(",") : null;
  let wanted = context.get("step");
  let longest = 1; // steps a truncation can have at most: all of them
  let drawn = null,
    width = 0;
  const ask = context.api.latest(),
    askVerbs = context.api.latest();
  const failed = errors();
  // how far it has been played: steps forward, then steps back
  const position = playback({
    total: () => total(),
    pace: () => Math.max(120, Math.min(450, 6000 / steps())),
    moved: settle,
  });
  const model = modelChoice("Model", context, {
    fits: isRecurrent,
    wanted: context.get("model", "ready:lstm"),
    changed: () => soon(),
  });
  const shown = el("select", {
    onchange: () => {
      context.set({ state: shown.value });
      draw();
    },
  });
  const shownField = field("State", shown);
  const text = el("textarea", { rows: innerWidth < 700 ? 2 : 1, spellcheck: "false" });
  text.value = context.get("text", TEXTS[0][0]);
  const lead = examples(context, "Try", TEXTS, text, (ready) => {
    text.value = ready;
    refresh();
  });
  const later = calm(refresh, 250),
    soon = calm(refresh, 10); // several models and choices may come at once
  text.addEventListener("input", later);
  const backward = button("Backward", () => position.play(total() / 2, total()), { class: "main" });
  const forward = button("Forward", () => position.play(0, total() / 2));
  const pause = button("Play", position.toggle);
  const less = button("Step back", () => position.stepBy(-1));
  const more = button("Step on", () => position.stepBy(1));
  const cut = slider("Truncation", { min: 1, max: 1, step: 1, value: 1, say: sayCut }, () => {
    context.set({ cut: whole() ? null : cut.value });
    paint();
    compare();
  });
  const stage = el("div", {
    class: "card",
    tabindex: 0,
    role: "group",
    "aria-label": "The unrolled network. Arrow keys step, the space bar plays and pauses.",
  });
  const loss = el("p", {
    id: "loss",
    style: "position: sticky; top: 0; z-index: 2; background: var(--ground); margin: 0 0 .3rem; padding: .2rem 0",
  });
  const now = el("p", { id: "now", style: "margin: .4rem 0 0; min-height: 1.5em" });
  const kept = el("p", { id: "kept", style: "margin: 0 0 .4rem" });
  const left = el("p", { class: "note", id: "left-out" });
  const others = el("div", { class: "row middle", role: "group", "aria-label": "Models beside it" });
  const curves = el("div", { id: "distances" });
  const words = el("p", { id: "words", style: "margin: .2rem 0" });
  const over = choice(
    "Measured on",
    [
      ["verbs", `${SENTENCES} new sentences, loss at the verb`],
      ["text", "this text"],
    ],
    context.get("over", "verbs"),
    () => {
      context.set({ over: over.value === "verbs" ? null : over.value });
      soon();
    },
  );
  const between = slider(
    "Words from subject to verb",
    { min: 2, max: 10, step: 1, value: context.get("between", "6") },
    () => later(),
  );
  const verdicts = el("div", { class: "wide" });
  const waiting = el("p", { class: "note" }, "A recurrent model is ready in a few seconds.");
  const body = el(
    "div",
    { hidden: true },
    loss,
    stage,
    now,
    kept,
    left,
    el("div", { class: "row middle", style: "margin-bottom: .4rem" }, backward, forward, pause, less, more, cut.node),
    el(
      "div",
      { class: "row", style: "margin: .4rem 0 0" },
      el("h3", { style: "margin: 0 0 .4rem" }, "What is left of the gradient"),
      over.node,
      between.node,
    ),
    words,
    curves,
    others,
    verdicts,
  );
  place.append(
    el("div", { class: "row", style: "margin-bottom: .3rem" }, model.node, shownField, lead.node),
    field("Text: the loss is that of its last word", text),
    failed.node,
    waiting,
    body,
  );

  const one = () => answers[0];
  const steps = () => one().tokens.length;
  const total = () => (answers.length ? 2 * steps() : 0);
  const whole = () => cut.value >= longest;
  const state = () => stateOf(one(), shown.value);
  const chosen = () => beside ?? BESIDE;
  /** The other state of the layer that is shown: h beside c. */
  const beyond = () => one().states.find((part) => part.layer === state().layer && part.field !== state().field);

  function sayCut(value) {
    return value >= longest ? `none, all ${longest} steps` : `after ${count(value, "step")}`;
  }

  function offer() {
    const fitting = context.models.filter((card) => isRecurrent(card) && card.name !== model.value);
    const key = [fitting.map((card) => card.name), beside].join(";");
    if (others.dataset.key === key) return;
    others.dataset.key = key;
    others.replaceChildren(
      el("span", { class: "note" }, "Beside it:"),
      ...fitting.map((card) =>
        modelBox(card, chosen().includes(card.name), (ticked) => putBeside(card.name, ticked), "min-height: 2.3rem"),
      ),
    );
    soon();
  }

  function putBeside(name, ticked) {
    const rest = chosen().filter((other) => other !== name);
    beside = ticked ? [...rest, name].slice(-5) : rest;
    offer();
  }

  async function refresh() {
    offer();
    later.cancel();
    soon.cancel();
    if (!model.value) return;
    await lead.follow(model.value);
    const names = chosen().filter((name) => name !== model.value && context.models.some((card) => card.name === name));
    between.node.hidden = over.value !== "verbs";
    between.node.style.display = between.node.hidden ? "none" : "";
    context.set({
      model: model.value,
      text: text.value,
      beside: beside && (beside.join(",") || "none"),
      between: over.value === "verbs" ? between.value : null,
    });
    const models = [model.value, ...names].slice(0, 6);
    context.use("Beside it", names);
    try {
      const [all, measured] = await Promise.all([
        ask("/api/backprop", { models, text: text.value.slice(0, MOST_CHARACTERS), limit: LIMIT }),
        over.value === "verbs" ? verbMeans(models) : null,
      ]);
      const sound = answered(all, failed, (name) => labelOf({ model: name }));
      if (sound[0].model !== models[0]) return; // without the chosen model there is nothing to show
      [answers, means] = [sound, measured];
    } catch (error) {
      return failed.say(context.api.sentence(error));
    }
    waiting.hidden = true;
    body.hidden = false;
    arrive();
  }

  /** Means over sentences. A model that does not read words has none: then the typed text is shown. */
  async function verbMeans(models) {
    unread = "";
    const reading = models.filter((name) => context.models.find((card) => card.name === name)?.tokens === "word");
    if (!reading.includes(model.value)) {
      unread = "the model does not read whole words";
      return null;
    }
    try {
      const asked = { models: reading, between: between.value, count: SENTENCES };
      const all = await askVerbs("/api/verb-gradients", asked);
      unread = all.find((answer) => answer.model === model.value)?.error ?? "";
      return unread ? null : all.filter((answer) => !answer.error);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      unread = context.api.sentence(error);
      return null;
    }
  }

  /** Put a new answer on the page. The state and the step that the address names hold for the first one. */
  function arrive() {
    position.stop();
    const keep = shown.value || context.get("state", "l0.c"); // an LSTM's c, where there is one
    shown.replaceChildren(...one().states.map((part) => el("option", { value: keyOf(part) }, nameOf(part, one()))));
    shown.value = keyOf(stateOf(one(), keep));
    shownField.style.display = one().states.length < 2 ? "none" : "";
    cut.input.max = longest = steps();
    cut.set(Math.min(Number(context.get("cut", steps())) || steps(), steps()));
    position.set(wanted === "" ? total() : Number(wanted) || 0);
    left.textContent = one().left_out
      ? `${count(steps(), "token")} are read, ${one().left_out} left out: ` +
        `at most ${LIMIT}, and of a model that reads lines the last line.`
      : "";
    draw();
  }

  function draw() {
    width = stage.clientWidth;
    const { target, loss: nats, p } = one();
    const word = visible(target).slice(0, 11);
    const { field: letter } = state(),
      second = beyond();
    const heads = ["read", `|${letter}|`, `|∂L/∂${letter}|`, ...(second ? [`|∂L/∂${second.field}|`] : [])];
    drawn = chain(one().tokens, { heads, loss: [`loss ${short(nats)}`, `of “${word}”`], width: width - 34 });
    stage.replaceChildren(drawn.node);
    loss.replaceChildren(
      "The loss is that of ",
      el("strong", {}, `“${visible(target)}”`),
      ` behind “${visible(one().tokens.at(-1))}”: `,
      el("strong", {}, `L = ${short(nats)}`),
      `, its probability p = ${percent(p)} under ${labelOf(one())}.`,
    );
    paint();
    compare();
  }

  function paint() {
    const { size, norm, field: letter } = state();
    const first = steps() - cut.value; // the first state that still gets a gradient
    const sent = norm.map((value, step) => (step < first ? 0 : value));
    const tallest = Math.max(...size),
      largest = Math.max(...sent);
    const level = (value) => (value > 0 ? Math.max(0.01, 1 + Math.log10(value / largest) / DECADES) : 0);
    const begun = position.at > steps() ? total() - position.at : steps();
    drawn.paint({
      forward: size.map((value, step) =>
        step < position.at ? { level: value / tallest, text: short(value, 2) } : null,
      ),
      back: sent.map((value, step) => (step >= begun ? { level: level(value), text: short(value, 2) } : null)),
      beside: beyond()?.norm.map((value, step) => ({ text: short(step < first ? 0 : value, 2) })),
      cut: first,
      say:
        `${steps()} states; size of the last ${short(size.at(-1))}; gradient at the last ${short(sent.at(-1))}, ` +
        `at the first ${short(sent[0])}`,
    });
    stage.numbers = { size, sent, share: one().share[cut.value - 1] };
    drawn.follow(position.at > steps() ? begun : Math.max(0, Math.min(position.at, steps()) - 1));
    now.textContent = describeStep(position.at, one().tokens, { sent, size, letter });
    kept.textContent = describeCut(cut.value, steps(), one().share[cut.value - 1]);
    pause.textContent = position.playing ? "Pause" : "Play";
    less.disabled = position.at <= 0;
    more.disabled = position.at >= total();
  }

  /** The chart and the table of all models; the chart is drawn again with every cut. */
  async function compare() {
    const all = linesOf(answers, means);
    verdicts.replaceChildren(verdictTable(all, labelOf));
    const verdictTexts = all.map((line) => `${lookOf(line).name} ${line.part.decay?.words ?? "unknown"}`);
    const shares = means?.map((answer) => `${labelOf(answer)} ${percent(answer.right)}`).join(", ");
    const right = means ? ` Verbs with the right number: ${shares}.` : "";
    const why = over.value === "verbs" && !means ? ` Measured on this text: ${unread}.` : "";
    words.textContent = `${verdictTexts.join("; ")}.${right}${why}`;
    const traces = all.flatMap((line) => [
      curveOf(line, line.norm, lookOf(line)),
      ...(line.direct ? [curveOf(line, line.direct, lookOf(line), "gates alone")] : []),
    ]);
    const layout = { ...POWERS, ...(whole() || means ? {} : cutLine(cut.value - 0.5)) };
    try {
      await chart(curves, traces, {
        x: "steps back from the loss",
        y: "share of 1 step back",
        log: true,
        height: 270,
        layout,
      });
    } catch (error) {
      return failed.say(context.api.sentence(error));
    }
    curves.setAttribute(
      "aria-label",
      `Gradient by steps back from the loss, as a share of that 1 step back: ${verdictTexts.join("; ")}`,
    );
  }

  /** The name of a line in the chart, and its colour, which is that of the kind of model. */
  function lookOf({ answer, place, part }) {
    const kind = context.models.find((card) => card.name === answer.model)?.kind;
    return { name: `${labelOf(answer)} ${part.field}`, color: colourOf(kind, place) };
  }

  function labelOf(answer) {
    return context.models.find((card) => card.name === answer.model)?.label ?? answer.model;
  }

  /** Show where it stands, and note it in the address once it stands still. */
  function settle() {
    paint();
    if (position.playing) return;
    wanted = position.at >= total() ? "" : String(position.at);
    context.set({ step: wanted || null });
    context.announce(now.textContent);
  }

  function pressKey(event) {
    const keys = { ArrowRight: () => position.stepBy(1), ArrowLeft: () => position.stepBy(-1), " ": position.toggle };
    const does = keys[event.key];
    const busy = event.key === " " ? event.target !== stage : event.target.closest?.("input, textarea, select");
    if (!does || busy || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    does();
  }

  const resized = new ResizeObserver(() => {
    if (drawn && Math.abs(stage.clientWidth - width) > 8) draw();
  });
  resized.observe(stage);
  document.addEventListener("keydown", pressKey);
  context.watch(offer);
  offer();
  return () => {
    position.stop();
    later.cancel();
    soon.cancel();
    resized.disconnect();
    document.removeEventListener("keydown", pressKey);
  };
}
