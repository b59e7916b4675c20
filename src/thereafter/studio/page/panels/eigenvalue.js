// Eigenvalue: what is left of a vector after many multiplications by one matrix, and of a gradient that goes back
// through a network with this matrix.
import { examples } from "../parts/at_hand.js";
import { chain } from "../parts/chain.js";
import { chart } from "../parts/chart.js";
import { choice, field, modelChoice, presets, slider } from "../parts/controls.js";
import { calm, el, errors, pageColour } from "../parts/dom.js";
import { exponentOf, POWERS, percent, short } from "../parts/numbers.js";
import { MOST_CHARACTERS } from "../parts/walk.js";

const CURVES = {
  linear: { name: "linear RNN", color: "--low", dash: "solid", symbol: "circle" },
  tanh: { name: "tanh RNN", color: "--high", dash: "dash", symbol: "square" },
  lstm: { name: "LSTM along c", color: "--text", dash: "longdash", symbol: "triangle-up" },
  trained: { name: "trained RNN", color: "--good", dash: "dot", symbol: "diamond" },
};
const TEXT =
  "the farmers near the author are old .\nour white curtain which vanished but shone was useful .\n" +
  "the clerks outside have knelt quickly .\nher customer that won often is late .";
const NODES = 11; // states that are drawn, however many steps there are
const DECADES = 3; // powers of ten above and below 1 that the thickness of an arrow shows

export const panel = {
  id: "eigenvalue",
  title: "Eigenvalue",
  see: "Below a spectral radius of 1 products vanish, above it they explode; an LSTM's c depends on its forget gate.",
  about:
    "On the left a vector is multiplied by the same matrix again and again; on the right a gradient goes back " +
    "through networks that have this matrix between their steps. " +
    "Drag the spectral radius, the size of the largest eigenvalue, and then the forget gate.",
  mount,
};

function mount(place, context) {
  let seed = Number(context.get("seed", "0")) || 0;
  let answer = null,
    drawn = null,
    sweeping = 0,
    width = 0,
    left = false;
  const failed = errors();
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const refresh = steady(ask);
  const later = calm(refresh, 250);

  const radius = slider(
    "Spectral radius",
    { min: 0.5, max: 1.5, step: 0.01, value: context.get("radius", "0.9"), say: (value) => value.toFixed(2) },
    () => {
      stop();
      refresh();
    },
  );
  const steps = slider("Steps", { min: 10, max: 100, step: 1, value: context.get("steps", "50") }, refresh);
  const forget = slider(
    "Forget gate",
    { min: 0.5, max: 1, step: 0.01, value: context.get("forget", "0.97"), say: (value) => value.toFixed(2) },
    () => refresh(),
  );
  const through = choice(
    "Gradient through",
    [
      ["linear", "a linear RNN"],
      ["tanh", "a tanh RNN"],
      ["lstm", "an LSTM, along c"],
      ["trained", "a trained RNN"],
    ],
    context.get("through", "linear"),
    refresh,
  );
  const units = choice(
    "Units",
    ["8", "16", "32", "64"].map((count) => [count, count]),
    context.get("units", "32"),
    refresh,
  );
  radius.node.style.flex = "1 1 16rem"; // the main slider is the longest
  const again = el(
    "button",
    {
      type: "button",
      onclick: () => {
        seed += 1;
        refresh();
      },
    },
    "Another random matrix",
  );
  const sweep = el(
    "button",
    { type: "button", class: "main", onclick: () => (sweeping ? stop() : start()) },
    "Sweep from 0.8 to 1.2",
  );
  const model = modelChoice("Trained model", context, {
    fits: (card) => card.kind === "rnn",
    wanted: context.get("model", "ready:rnn"),
    changed: () => {
      if (network() === "trained") refresh();
    },
  });
  const text = el("textarea", { rows: 4, spellcheck: "false", oninput: later });
  text.value = context.get("text", TEXT);
  const lead = examples(context, "Try", [[TEXT]], text, (now) => {
    text.value = now;
    refresh();
  });
  const trained = el(
    "div",
    { id: "trained" },
    el("div", { class: "row" }, model.node),
    field("Text the gradient is measured on", text),
    lead.node,
  );
  const verdict = el("p", {
    id: "verdict",
    role: "status",
    style: "font-size: 1.1rem; margin: .4rem 0 .1rem; min-height: 1.6em",
  });
  const more = el("p", { class: "note", id: "more", style: "margin: 0 0 .6rem; min-height: 1.6em" });
  const powers = el("div", { id: "powers" }),
    gradients = el("div", { id: "gradients" });
  const stage = el("div", { class: "card", style: "margin-top: 1rem" });
  const picture = el("div", { tabindex: 0, role: "group", "aria-label": "The unrolled network" });
  const title = el("h3", {});
  stage.append(
    title,
    picture,
    el(
      "p",
      { class: "note", style: "margin: .3rem 0 0" },
      "The thicker the arrow, the larger the gradient, in powers of ten. " +
        "The number under a state is what reaches it of 1 at the end.",
    ),
  );
  place.append(
    el("div", { class: "row", style: "margin-bottom: .4rem" }, radius.node, forget.node, steps.node, sweep),
    el(
      "div",
      { class: "row", style: "margin-bottom: .4rem" },
      through.node,
      units.node,
      again,
      presets("Set to", ["0.90", "1.00", "1.10"], (value) => {
        stop();
        radius.set(value);
        refresh();
      }),
    ),
    trained,
    failed.node,
    verdict,
    more,
    el(
      "div",
      { class: "columns" },
      el("section", { class: "card" }, el("h3", {}, "Repeated multiplication"), powers),
      el("section", { class: "card" }, el("h3", {}, "Gradient through the network"), gradients),
    ),
    stage,
  );

  const network = () => through.value;

  async function ask() {
    if (left) return;
    const withModel = network() === "trained";
    trained.hidden = !withModel;
    if (withModel) await lead.follow(model.value);
    context.set({
      radius: radius.value,
      steps: steps.value,
      through: network(),
      units: units.value,
      seed: seed || null,
      forget: forget.value === 0.97 ? null : forget.value,
      model: withModel ? model.value : null,
      text: withModel ? text.value : null,
    });
    const body = { radius: radius.value, steps: steps.value, units: Number(units.value), seed, forget: forget.value };
    if (withModel && model.value)
      Object.assign(body, { model: model.value, text: text.value.slice(0, MOST_CHARACTERS) });
    try {
      answer = { ...body, ...(await context.api.post("/api/eigenvalue", body)) };
      if (left) return;
      failed.say("");
      await draw();
    } catch (error) {
      if (!left) failed.say(context.api.sentence(error));
    }
  }

  async function draw() {
    const shown = answer.trained || network() !== "trained" ? network() : "linear"; // until a trained model is ready
    verdict.textContent = sayVerdict(answer[shown], shown);
    more.textContent = sayMore(shown);
    drawChain(answer[shown], shown);
    const at = answer.power.values.map((_, k) => k);
    const guide = {
      name: "stays 1",
      x: [0, answer.steps],
      y: [1, 1],
      mode: "lines",
      hoverinfo: "skip",
      line: { color: pageColour("--soft"), width: 1, dash: "dashdot" },
    };
    const curve = (values, look, thick) => ({
      name: look.name,
      x: at,
      y: values.map((value) => value || null),
      mode: "lines+markers",
      line: { color: pageColour(look.color), dash: look.dash, width: thick ? 4 : 2 },
      marker: { color: pageColour(look.color), symbol: look.symbol, size: thick ? 6 : 4 },
    });
    const power = { ...CURVES.linear, name: "|Wᵏx| / |x|" };
    await chart(powers, [curve(answer.power.values, power, true), guide], {
      x: "multiplications k",
      y: "size of Wᵏx",
      log: true,
      height: 300,
      layout: POWERS,
    });
    powers.setAttribute(
      "aria-label",
      `Size of W to the k times x by k: ${short(answer.power.values.at(-1))} after ${answer.steps} multiplications`,
    );
    const there = Object.keys(CURVES).filter((name) => answer[name]);
    const gates = {
      ...curve(answer.gates.values, { ...CURVES.lstm, name: "its forget gates alone", dash: "dot" }, false),
      mode: "lines",
    };
    await chart(
      gradients,
      [...there.map((name) => curve(answer[name].values, CURVES[name], name === shown)), gates, guide],
      { x: "steps back", y: "gradient", log: true, height: 300, layout: POWERS },
    );
    const verdicts = there.map(
      (name) =>
        `${CURVES[name].name} ${answer[name].decay?.verdict ?? "unknown"}, ${short(answer[name].values.at(-1))}`,
    );
    gradients.setAttribute("aria-label", `Gradient after ${answer.steps} steps back: ${verdicts.join("; ")}`);
  }

  function drawChain({ values }, name) {
    const path = name === "lstm" ? "LSTM's c" : CURVES[name].name;
    title.textContent = `The ${path}, unrolled: the backward pass`;
    const places = Array.from({ length: NODES }, (_, node) =>
      Math.round((answer.steps * (NODES - 1 - node)) / (NODES - 1)),
    );
    const key = [...places, picture.clientWidth].join();
    if (picture.dataset.key !== key) {
      picture.dataset.key = key;
      width = picture.clientWidth;
      const labels = places.map((back) => (back ? `−${back}` : "end"));
      drawn = chain(labels, { heads: ["step", null, "gradient"], loss: ["loss", "at the end"], width, forward: false });
      picture.replaceChildren(drawn.node);
      drawn.follow(NODES - 1);
    }
    const level = (value) => (value > 0 ? Math.max(0.01, Math.min(1, 0.5 + Math.log10(value) / (2 * DECADES))) : 0);
    drawn.paint({
      back: places.map((back) => ({ level: level(values[back]), text: short(values[back], 2) })),
      say: `Gradient by steps back: ${places.map((back) => `${back}: ${short(values[back])}`).join(", ")}`,
    });
  }

  function sayVerdict({ values, decay }, name) {
    const word = decay ? decay.verdict[0].toUpperCase() + decay.verdict.slice(1) : "Unknown";
    const power = `${answer.radius}${exponentOf(answer.steps)} = ${short(answer.radius ** answer.steps)}`;
    const last = short(values.at(-1)),
      grown = values.at(-1) > 1.005;
    const reached =
      `after ${answer.steps} steps back through the ${name === "lstm" ? "LSTM, along c," : CURVES[name].name} ` +
      (grown ? `the gradient has grown ${last} times` : `${last} of the gradient is left`);
    if (name === "lstm") {
      const gates = `${answer.forget}${exponentOf(answer.steps)} = ${short(answer.gates.values.at(-1))}`;
      return `${word}: ${reached}; its forget gates alone give ${gates}, the radius alone would give ${power}.`;
    }
    const comparison = name === "linear" ? `, which is ${power}` : `; the radius alone would give ${power}`;
    return `${word}: ${reached}${comparison}.`;
  }

  function sayMore(name) {
    if (name === "linear") {
      return (
        "Nothing stands between the products, so that the gradient is the power of the radius to the last digit. " +
        `Along the c of an LSTM ${percent(answer.lstm.values.at(-1))} is left.`
      );
    }
    if (name === "lstm") {
      return (
        "A step multiplies c by its forget gate f, and by the matrix only beside it: " +
        "c = f c + (1 − f) tanh(W tanh c + x). " +
        "The gate takes the place of the eigenvalue, and it is learned."
      );
    }
    if (name === "tanh") {
      return (
        "The slopes of tanh are below 1 and take something off at every step: " +
        "it fades sooner than the radius says, and above 1 it need not explode."
      );
    }
    const { own } = answer.trained;
    return (
      `The matrix of this model has the spectral radius ${short(own)}; here it is scaled to ${answer.radius}. ` +
      "A trained matrix has eigenvalues of many sizes, and tanh takes its part: the largest one alone does not decide."
    );
  }

  // ---- the sweep

  function start() {
    if (radius.value < 0.8 || radius.value >= 1.2) radius.set(0.8);
    sweep.textContent = "Stop the sweep";
    const by = still.matches ? 0.1 : 0.01;
    sweeping = setInterval(
      () => {
        radius.set(Math.min(1.2, radius.value + by).toFixed(2));
        refresh();
        if (radius.value >= 1.2) stop();
      },
      still.matches ? 1000 : 120,
    );
    refresh();
  }

  function stop() {
    clearInterval(sweeping);
    sweeping = 0;
    sweep.textContent = "Sweep from 0.8 to 1.2";
  }

  const resized = new ResizeObserver(() => {
    if (answer && Math.abs(picture.clientWidth - width) > 8) draw();
  });
  resized.observe(picture);
  context.watch(() => {
    if (!answer) refresh();
  }); // the page may be up before the studio can compute
  refresh();
  return () => {
    left = true;
    stop();
    later.cancel();
    resized.disconnect();
  };
}

/** One call at a time, and always a last one with the latest values: dragging never piles up work on the server. */
function steady(call) {
  let running = false,
    again = false;
  return async () => {
    again = true;
    if (running) return;
    running = true;
    while (again) {
      again = false;
      await call();
    }
    running = false;
  };
}
