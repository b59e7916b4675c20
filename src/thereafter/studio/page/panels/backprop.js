// Backpropagation: one sentence forward through the unrolled network, and the gradient of its last loss back; beside it
// what reaches the states of several models, in this sentence or as a mean over many.
import { chain, ink } from "../parts/chain.js";
import { chart, colourOf, DASHES } from "../parts/chart.js";
import { choice, describe, field, modelChoice, presets, slider } from "../parts/controls.js";
import { calm, el, errors, visible } from "../parts/dom.js";
import { POWERS, percent, short } from "../parts/numbers.js";
import { isRecurrent, MOST_CHARACTERS } from "../parts/walk.js";

const BESIDE = ["ready:rnn", "ready:lstm", "ready:gru"];
const LIMIT = 40;
const DECADES = 4; // how many powers of ten below the largest gradient the picture can show
const SENTENCES = 60; // of a mean
const TEXTS = [
  ["the small happy hamsters defended by our musician outside still have", "a far verb"],
  ["the farmers near the author are", "a near verb"],
  [
    "we heard that your ugly guitar near their journalist nearby really has amused his brave black eagle .",
    "a long sentence",
  ],
];
const NAMES = { h: "hidden state h", c: "cell state c" };

export const panel = {
  id: "backprop",
  title: "Backpropagation",
  see: "Back from the verb to its subject, an LSTM's c keeps more of the gradient than its h does, or an RNN's.",
  about:
    "States go forward to the last word, and the gradient of that word's loss comes back. " +
    "Under each state stands its real size. " +
    "Press Backward to watch it; shorten the truncation to see what training would lose.",
  mount,
};

function mount(place, context) {
  let answers = []; // an answer for each model, the chosen one first
  let means = null; // the same as means over sentences, where those are asked for
  let unread = ""; // why there are none
  let beside = context.get("beside") ? context.get("beside").split(",") : null;
  let at = Infinity; // how far it has been played: steps forward, then steps back
  let wanted = context.get("step");
  let longest = 1; // steps a truncation can have at most: all of them
  let end = 0,
    timer = 0,
    drawn = null,
    width = 0;
  const ask = context.api.latest(),
    askVerbs = context.api.latest();
  const failed = errors();
  const still = matchMedia("(prefers-reduced-motion: reduce)");

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
  const later = calm(refresh, 250),
    soon = calm(refresh, 10); // models and choices may come several at once
  text.addEventListener("input", later);
  const backward = el(
    "button",
    { type: "button", class: "main", onclick: () => play(total() / 2, total()) },
    "Backward",
  );
  const forward = el("button", { type: "button", onclick: () => play(0, total() / 2) }, "Forward");
  const pause = el("button", { type: "button", onclick: toggle }, "Play");
  const less = el("button", { type: "button", onclick: () => stepBy(-1) }, "Step back");
  const more = el("button", { type: "button", onclick: () => stepBy(1) }, "Step on");
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
    el(
      "div",
      { class: "row", style: "margin-bottom: .3rem" },
      model.node,
      shownField,
      presets("Try", TEXTS, (ready) => {
        text.value = ready;
        refresh();
      }),
    ),
    field("Text: the loss is that of its last word", text),
    failed.node,
    waiting,
    body,
  );

  const one = () => answers[0];
  const steps = () => one().tokens.length;
  const total = () => 2 * steps();
  const whole = () => cut.value >= longest;
  const state = () => stateOf(one(), shown.value);
  const chosen = () => beside ?? BESIDE;
  /** The other field of the layer that is shown: h beside c. */
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
      ...fitting.map((card) => {
        const box = el("input", {
          type: "checkbox",
          onchange: () => {
            const rest = chosen().filter((name) => name !== card.name);
            beside = box.checked ? [...rest, card.name].slice(-5) : rest;
            offer();
          },
        });
        box.checked = chosen().includes(card.name);
        return el(
          "label",
          { style: "display: inline-flex; align-items: center; gap: .3rem; min-height: 2.3rem" },
          box,
          describe(card),
        );
      }),
    );
    soon();
  }

  async function refresh() {
    offer();
    later.cancel();
    soon.cancel();
    if (!model.value) return;
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
    try {
      [answers, means] = await Promise.all([
        ask("/api/backprop", { models, text: text.value.slice(0, MOST_CHARACTERS), limit: LIMIT }),
        over.value === "verbs" ? verbMeans(models) : null,
      ]);
    } catch (error) {
      return failed.say(context.api.sentence(error));
    }
    failed.say("");
    waiting.hidden = true;
    body.hidden = false;
    arrive();
  }

  /** Means over sentences; of models that cannot read them there are none, and this text is shown. */
  async function verbMeans(models) {
    unread = "";
    const reading = models.filter((name) => context.models.find((card) => card.name === name)?.tokens === "word");
    if (!reading.includes(model.value)) {
      unread = "the model does not read whole words";
      return null;
    }
    try {
      return await askVerbs("/api/verb-gradients", { models: reading, between: between.value, count: SENTENCES });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      unread = context.api.sentence(error);
      return null;
    }
  }

  /** Put a new answer on the page; what the address asked for holds for the first one. */
  function arrive() {
    stop();
    const keep = shown.value || context.get("state", "l0.c"); // an LSTM's c, where there is one
    shown.replaceChildren(...one().states.map((part) => el("option", { value: keyOf(part) }, nameOf(part, one()))));
    shown.value = keyOf(stateOf(one(), keep));
    shownField.style.display = one().states.length < 2 ? "none" : "";
    cut.input.max = longest = steps();
    cut.set(Math.min(Number(context.get("cut", steps())) || steps(), steps()));
    at = wanted === "" ? total() : Math.max(0, Math.min(total(), Number(wanted) || 0));
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
    const begun = at > steps() ? total() - at : steps();
    drawn.paint({
      forward: size.map((value, step) => (step < at ? { level: value / tallest, text: short(value, 2) } : null)),
      back: sent.map((value, step) => (step >= begun ? { level: level(value), text: short(value, 2) } : null)),
      beside: beyond()?.norm.map((value, step) => ({ text: short(step < first ? 0 : value, 2) })),
      cut: first,
      say:
        `${steps()} states; size of the last ${short(size.at(-1))}; gradient at the last ${short(sent.at(-1))}, ` +
        `at the first ${short(sent[0])}`,
    });
    stage.numbers = { size, sent, share: one().share[cut.value - 1] };
    drawn.follow(at > steps() ? begun : Math.max(0, Math.min(at, steps()) - 1));
    now.textContent = sayNow(sent, size, letter);
    kept.textContent = sayKept(first);
    pause.textContent = timer ? "Pause" : "Play";
    less.disabled = at <= 0;
    more.disabled = at >= total();
  }

  function sayNow(sent, size, letter) {
    if (at <= 0) return "Nothing has been read yet.";
    if (at <= steps()) {
      const read = visible(one().tokens[at - 1]);
      const norm = `|${letter}| = ${short(size[at - 1])}`;
      return `Forward, step ${at} of ${steps()}: after “${read}” the state has the size ${norm}.`;
    }
    const step = total() - at,
      back = steps() - 1 - step;
    const where =
      back === 0
        ? "at the last state, where the loss is"
        : `${count(back, "step")} back, after “${visible(one().tokens[step])}”`;
    const part = back === 0 || !sent.at(-1) ? "" : `, ${percent(sent[step] / sent.at(-1))} of what the last state gets`;
    return `Backward, ${where}: the gradient has the size ${short(sent[step])}${part}.`;
  }

  function sayKept(first) {
    const share = one().share[cut.value - 1];
    if (first <= 0) return "Nothing is cut: every state gets its gradient, which is the whole one.";
    const states = `${first} of ${steps()} states ${first === 1 ? "gets" : "get"} no gradient`;
    const over = share > 1 ? " It is longer because what is left out points the other way." : "";
    return (
      `Cut after ${count(cut.value, "step")}: ${states}. ` +
      `The gradient of the recurrent weights keeps ${percent(share)} of its whole length.${over}`
    );
  }

  /** What the chart and the table show: every field of the last layer of every model, by steps back. */
  function lines() {
    return (means ?? answers).flatMap((answer, place) => {
      const last = answer.states.at(-1)?.layer;
      const parts = answer.states
        .filter((part) => part.layer === last)
        .toSorted((a, b) => a.field.localeCompare(b.field));
      const turn = (values) => (means ? values : values?.toReversed()) ?? null;
      return parts.map((part, nth) => ({
        answer,
        place,
        nth,
        part,
        norm: turn(part.norm),
        direct: turn(part.direct),
        gates: turn(part.gates),
      }));
    });
  }

  /** The chart and the table of all models; the chart is drawn again with every cut. */
  async function compare() {
    const all = lines();
    verdicts.replaceChildren(table(all));
    const verdictTexts = all.map((line) => `${nameFor(line)} ${line.part.decay?.words ?? "unknown"}`);
    const shares = means?.map((answer) => `${labelOf(answer)} ${percent(answer.right)}`).join(", ");
    const right = means ? ` Verbs with the right number: ${shares}.` : "";
    const why = over.value === "verbs" && !means ? ` Measured on this text: ${unread}.` : "";
    words.textContent = `${verdictTexts.join("; ")}.${right}${why}`;
    const traces = all.flatMap((line) => [
      curve(line, line.norm),
      ...(line.direct ? [curve(line, line.direct, "gates alone")] : []),
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

  function curve({ answer, place, nth, part, norm }, values, path = "") {
    const color = colourOf(context.models.find((card) => card.name === answer.model)?.kind, place);
    const one = norm[1] > 0 ? norm[1] : null;
    return {
      name: `${labelOf(answer)} ${part.field}${path && `, ${path}`}`,
      mode: path ? "lines" : "lines+markers",
      x: values.map((_, back) => back),
      y: values.map((value) => (one && value ? value / one : null)),
      line: { color, dash: path ? "dot" : DASHES[nth], width: path ? 1.5 : 3 - nth },
      marker: { color, size: 5, symbol: nth ? "square" : "circle" },
    };
  }

  function nameFor({ answer, part }) {
    return `${labelOf(answer)} ${part.field}`;
  }

  function labelOf(answer) {
    return context.models.find((card) => card.name === answer.model)?.label ?? answer.model;
  }

  function table(all) {
    const head = [
      "Model",
      "State",
      "Verdict",
      "Share of 1 step back",
      "Size 1 step back",
      "Farthest",
      "By its gates alone",
      "Product of gates",
    ];
    return el(
      "table",
      { id: "verdicts", style: "white-space: nowrap" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          head.map((name) => el("th", { scope: "col" }, name)),
        ),
      ),
      el(
        "tbody",
        {},
        all.map(({ answer, part, norm, direct, gates }) => {
          const cells = [
            NAMES[part.field] ?? part.field,
            part.decay?.verdict ?? "–",
            part.decay?.measured ?? "–",
            short(norm[1]),
            short(norm.at(-1)),
            direct ? short(direct.at(-1)) : "–",
            gates ? short(gates.at(-1)) : "–",
          ];
          return el(
            "tr",
            { "data-model": answer.model, "data-field": part.field },
            el("th", { scope: "row" }, labelOf(answer)),
            cells.map((cell) => el("td", {}, cell)),
          );
        }),
      ),
    );
  }

  // ---- playing

  function play(from, to) {
    if (!drawn) return;
    stop();
    at = from;
    end = to;
    if (still.matches) at = to;
    else timer = setTimeout(tick, pace());
    settle();
  }

  function tick() {
    at += 1;
    timer = at < end ? setTimeout(tick, pace()) : 0;
    settle();
  }

  const pace = () => Math.max(120, Math.min(450, 6000 / steps()));

  function stop() {
    clearTimeout(timer);
    timer = 0;
  }

  /** Show where it stands, and note it in the address once it stands still. */
  function settle() {
    paint();
    if (timer) return;
    wanted = at >= total() ? "" : String(at);
    context.set({ step: wanted || null });
    context.announce(now.textContent);
  }

  function toggle() {
    if (!drawn) return;
    if (timer) {
      stop();
      settle();
    } else play(at >= total() ? 0 : at, total());
  }

  function stepBy(by) {
    if (!drawn) return;
    stop();
    at = Math.max(0, Math.min(total(), at + by));
    settle();
  }

  function pressKey(event) {
    const does = { ArrowRight: () => stepBy(1), ArrowLeft: () => stepBy(-1), " ": toggle }[event.key];
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
    stop();
    later.cancel();
    soon.cancel();
    resized.disconnect();
    document.removeEventListener("keydown", pressKey);
  };
}

function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function keyOf({ layer, field: letter }) {
  return `${layer}.${letter}`;
}

/** The state a key names; in a model without it the last layer's of that letter, or its h. */
function stateOf(answer, key) {
  const letter = key.split(".")[1] ?? "h";
  const last = (wanted) => answer.states.findLast((part) => part.field === wanted);
  return answer.states.find((part) => keyOf(part) === key) ?? last(letter) ?? last("h") ?? answer.states[0];
}

function nameOf({ layer, field: letter }, answer) {
  const several = new Set(answer.states.map((part) => part.layer)).size > 1;
  return `${NAMES[letter] ?? letter}${several ? `, layer ${layer.replace("l", "")}` : ""}`;
}

function cutLine(x) {
  const line = { color: ink("--soft"), dash: "dash", width: 2 };
  return {
    shapes: [{ type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line }],
    annotations: [{ x, y: 1, yref: "paper", text: "cut", showarrow: false, xanchor: "left", yanchor: "top" }],
  };
}
