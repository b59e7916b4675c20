// Train: a new model from a text of the visitor's, with live curves, pause, resume and stop.
import { KINDS } from "/kinds.js";
import { choice, field } from "../parts/controls.js";
import { el, errors, show } from "../parts/dom.js";
import { readText, tooLarge } from "../parts/reading.js";
import { readyModels } from "../parts/ready.js";
import { curveChart, trainings } from "../parts/trainings.js";

const TOKENS = [
  ["", "chosen for the text"],
  ["word", "words between spaces"],
  ["prose", "words and punctuation"],
  ["char", "characters"],
  ["bpe", "word pieces (BPE)"],
  ["wordpiece", "word pieces (WordPiece)"],
  ["unigram", "word pieces (unigram)"],
  ["byte", "bytes"],
];
const CORPORA = [
  ["agreement", "generated sentences (subject and verb agree)"],
  ["python-docs", "the Python manual"],
  ["python-code", "Python source code"],
];
const WAYS = [
  ["built-in", "A built-in text"],
  ["paste", "Paste a text"],
  ["file", "Open a file"],
];
const EXAMPLE = "ready:lstm";
const LONG = 50_000; // from so many characters on a paste is put in without undo
const SHORT = 2000; // characters of a pasted text that still go into a link

export const panel = {
  id: "train",
  title: "Train",
  see: "The loss falls on the text and on lines held out from it: see where the two lines part.",
  about:
    "Choose a text and a kind of model and press Start: the curves show how its loss falls. " +
    "A training run can be paused and resumed, even after the studio was closed; " +
    "its model can be tried in every other panel.",
  mount,
};

function mount(place, context) {
  const failed = errors();
  let file = null; // { name, text } of what was opened
  const sources = form(context, remember, openFile);
  const start = el("button", { type: "submit", class: "main" }, "Start training");
  const newTraining = el(
    "form",
    {
      class: "card",
      "aria-label": "A new training",
      onsubmit: (event) => {
        event.preventDefault();
        begin();
      },
    },
    sources.node,
    el("div", { class: "row middle", style: "margin:.8rem 0 0" }, start, sources.hint),
    failed.node,
  );
  const example = el("section", { class: "card", id: "example" });
  const list = trainings(context, (text) => failed.say(text));
  const ready = readyModels(context);
  place.append(newTraining, el("h3", { style: "margin-top:1.4rem" }, "Trainings"), list.node, example, ready.node);

  function remember() {
    const now = sources.values();
    const text = now.way === "paste" && now.text.length <= SHORT ? now.text : "";
    context.set({
      way: now.way,
      corpus: now.corpus,
      text,
      kind: now.kind,
      tokens: now.tokens,
      epochs: now.epochs,
      minutes: now.minutes,
      hidden: now.hidden,
      layers: now.layers,
      order: now.order,
      name: now.name,
    });
  }

  async function openFile(chosen) {
    file = null;
    failed.say("");
    show(sources.hint, chosen ? `reading ${chosen.name}` : "");
    try {
      if (chosen) {
        file = { name: chosen.name, text: await readText(chosen) };
        show(sources.hint, `${file.name}: ${file.text.length.toLocaleString("en")} characters`);
      }
    } catch (error) {
      show(sources.hint, "");
      failed.say(error.message);
    }
  }

  async function begin() {
    const now = sources.values();
    failed.say("");
    const request = { model: now.kind, name: now.name };
    if (now.way === "built-in") request.source = now.corpus;
    else if (now.way === "file" && !file)
      return failed.say("no file was opened; expected a text file; try choosing one");
    else request.text = (now.way === "file" ? file.text : now.text).toWellFormed();
    if (now.way === "file" && !now.name) request.name = `${file.name.replace(/\.[^.]*$/, "")}-${now.kind}`.slice(0, 60);
    if (now.tokens) request.tokens = now.tokens;
    for (const name of ["epochs", "minutes", "hidden", "layers", "order"])
      if (now[name]) request[name] = Number(now[name]);
    const large = request.text && tooLarge("the text", new Blob([request.text]).size);
    if (large) return failed.say(large);
    start.disabled = true;
    try {
      const begun = await context.api.post("/api/train", request);
      context.announce(`the training ${begun.name} has started`);
      example.hidden = true;
      list.reveal(begun);
    } catch (error) {
      failed.say(context.api.sentence(error));
    } finally {
      start.disabled = false;
    }
  }

  /** Until there is a training, the curve of a ready model shows what one looks like. */
  async function exemplify() {
    const wanted = !context.jobs.length && context.models.some((model) => model.name === EXAMPLE);
    if (!wanted) return context.jobs.length && example.replaceChildren();
    if (example.childElementCount) return;
    const chart = el("div");
    example.append(el("h3", {}, "An example: how the ready LSTM was trained"), chart);
    try {
      const [curve] = await context.api.post("/api/curves", { models: [EXAMPLE] });
      if (chart.isConnected) await curveChart(chart, curve);
    } catch {
      example.replaceChildren(); // a missing example is no error
    }
  }

  function update() {
    list.update(context.jobs);
    context.use(
      "Trainings",
      context.jobs.map((job) => job.run),
    );
    example.hidden = context.jobs.length > 0 || !context.models.length;
    exemplify();
  }

  context.watch(update);
  update();
  return () => {
    list.leave();
    ready.leave();
  };
}

/** The fields of a new training: { node, hint, values() }. */
function form(context, remember, openFile) {
  const way = el("div", { class: "row middle", role: "radiogroup", "aria-label": "Where the text comes from" });
  const buttons = WAYS.map(([value, name]) => {
    const button = el("input", {
      type: "radio",
      name: "way",
      value,
      onchange: () => {
        arrange();
        remember();
      },
    });
    button.checked = context.get("way", "built-in") === value;
    way.append(el("label", { style: "padding:.5rem .3rem" }, button, ` ${name}`));
    return button;
  });
  if (!buttons.some((button) => button.checked)) buttons[0].checked = true;
  const corpus = choice("Built-in text", CORPORA, context.get("corpus", "agreement"), remember);
  const text = el("textarea", {
    rows: 6,
    spellcheck: "false",
    placeholder: "Paste a few pages here, 8 MB at most.",
    oninput: remember,
  });
  text.value = context.get("text");
  text.addEventListener("paste", (event) => {
    const given = event.clipboardData?.getData("text/plain") ?? "";
    if (given.length < LONG) return;
    event.preventDefault(); // a browser takes many seconds for a long paste that can be undone
    text.setRangeText(given, text.selectionStart, text.selectionEnd, "end");
    remember();
  });
  const pasted = field("The text", text);
  const file = el("input", {
    type: "file",
    accept: "text/*,.txt,.md,.csv,.json,.py,.tex,.html,.xml",
    onchange: () => openFile(file.files[0]),
  });
  const picked = field("A text file, 8 MB at most", file);
  const hint = el("span", { class: "note", id: "hint", role: "status" });
  const kind = choice(
    "Model",
    KINDS.map((one) => [one.name, one.title]),
    KINDS.some((one) => one.name === context.get("kind")) ? context.get("kind") : "lstm",
    () => {
      arrange();
      remember();
    },
  );
  const tokens = choice("Tokens", TOKENS, context.get("tokens"), remember);
  const epochs = number(
    "Epochs (times the text is read)",
    { min: 0.01, max: 1000, step: "any", value: context.get("epochs"), placeholder: "by the text" },
    remember,
  );
  const minutes = number(
    "Minutes at most",
    { min: 0.05, max: 600, step: "any", value: context.get("minutes"), placeholder: "no limit" },
    remember,
  );
  const hidden = number(
    "Hidden units",
    { min: 1, max: 2048, step: 1, value: context.get("hidden"), placeholder: "by the text" },
    remember,
  );
  const layers = number(
    "Layers",
    { min: 1, max: 8, step: 1, value: context.get("layers"), placeholder: "by the text" },
    remember,
  );
  const order = number(
    "Order",
    { min: 1, max: 10, step: 1, value: context.get("order"), placeholder: "by the text" },
    remember,
  );
  const name = el("input", { type: "text", maxlength: 60, placeholder: "chosen for you", oninput: remember });
  name.value = context.get("name");
  const more = el(
    "details",
    {},
    el("summary", { style: "padding:.5rem 0;cursor:pointer" }, "More choices"),
    el(
      "div",
      { class: "row", style: "margin:.4rem 0 0" },
      minutes.node,
      hidden.node,
      layers.node,
      order.node,
      field("Name", name),
    ),
  );
  more.open = ["minutes", "hidden", "layers", "order", "name"].some((one) => context.get(one));
  const node = el(
    "div",
    {},
    way,
    el("div", { class: "row", style: "margin:0" }, corpus.node),
    pasted,
    picked,
    el("div", { class: "row", style: "margin:.8rem 0 0" }, kind.node, tokens.node, epochs.node),
    more,
  );

  const chosen = () => buttons.find((button) => button.checked).value;
  function arrange() {
    const row = KINDS.find((one) => one.name === kind.value);
    for (const [part, when] of [
      [corpus.node, "built-in"],
      [pasted, "paste"],
      [picked, "file"],
    ])
      hide(part, chosen() !== when);
    hide(hint, chosen() !== "file");
    for (const part of [epochs.node, minutes.node]) hide(part, !row.neural);
    for (const [part, size] of [
      [hidden.node, "hidden"],
      [layers.node, "layers"],
      [order.node, "order"],
    ])
      hide(part, !row.sizes.includes(size));
  }
  arrange();
  const values = () => ({
    way: chosen(),
    corpus: corpus.value,
    text: text.value,
    kind: kind.value,
    tokens: tokens.value,
    name: name.value.trim(),
    epochs: epochs.input.value,
    minutes: minutes.input.value,
    hidden: hidden.input.value,
    layers: layers.input.value,
    order: order.input.value,
  });
  return { node, hint, values };
}

function number(label, attributes, remember) {
  const input = el("input", { type: "number", style: "width:9rem", oninput: remember, ...attributes });
  return { node: field(label, input), input };
}

/** A field that is not shown is not checked either: a browser would refuse the form for a number nobody sees. */
function hide(part, hidden) {
  part.style.display = hidden ? "none" : "";
  for (const input of part.querySelectorAll("input")) input.disabled = hidden;
}
