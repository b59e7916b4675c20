// Window: the network over the last few words (Bengio et al. 2003), its shapes, and what it computes for the text.
import { bars } from "../parts/bars.js";
import { modelChoice, presets } from "../parts/controls.js";
import { calm, el, errors, svg, visible } from "../parts/dom.js";
import { strip } from "../parts/strip.js";

const LIMIT = 4000; // characters of a text that a link can carry
const FIRST = "the teachers behind the doctor near the farmer";
const TEXTS = [
  [FIRST, "teachers … farmer"],
  ["the teacher behind the doctors near the farmers", "teacher … farmers"],
  ["the librarian under the vase near their bottle", "librarian … bottle"],
];

/** What each component is called and what it does; figures come from the model. */
const PARTS = {
  words: {
    title: "Words in the window",
    does: (now) =>
      `The last ${now.window} words, as numbers of the vocabulary. Whatever is older does not exist for the model.`,
  },
  embedding: {
    title: "Word vectors",
    does: () =>
      "Each word is looked up in the matrix E, the same one for every place. Words used alike have vectors alike.",
  },
  joined: {
    title: "Side by side",
    does: () =>
      "The vectors are laid end to end. So a word has other weights in each place, and the window cannot grow.",
  },
  hidden: { title: "Hidden layer", does: () => "tanh(A x + d): every unit looks at all words of the window at once." },
  output: {
    title: "Softmax over all words",
    does: (now) =>
      `softmax(U f + b): a probability for each of the ${words(now).toLocaleString("en")} entries of the vocabulary, ` +
      "adding up to 1. With many words it is the largest part of the model.",
  },
};

const STYLE = `
.network { display: grid; grid-template-columns: minmax(0, 1fr) 18rem; gap: 1.2rem; align-items: start;
  margin: 0 0 1.2rem; }
.stages { overflow-x: auto; padding: .2rem; }
.stage { border: 1px solid var(--line); border-radius: .6rem; padding: .5rem .7rem .7rem; }
.stage.current { border-color: var(--accent); box-shadow: inset 3px 0 0 var(--accent); }
.stage > button { border: 0; background: none; padding: .2rem 0; text-align: left; font-weight: 600; width: 100%; }
.stage > button[aria-pressed="true"]::after { content: " ◂ shapes shown"; font-weight: 400; color: var(--soft);
  font-size: .85rem; }
.places { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(3.2rem, 1fr); }
.places > * { min-width: 0; padding: 0 .15rem; text-align: center; }
.places .token { display: block; overflow: hidden; text-overflow: ellipsis; text-align: center; }
.places .token.empty { border-style: dashed; background: none; color: var(--soft); }
.places small { display: block; color: var(--soft); font-size: .75rem; line-height: 1.3; }
.fan { display: block; width: 100%; height: 1.6rem; stroke: var(--line); stroke-width: 1; }
.strip { height: 2rem; }
.sight { display: flex; flex-wrap: wrap; gap: .6rem 1rem; margin: 0 0 1rem; }
.sight > div { border: 1px dashed var(--line); border-radius: .5rem; padding: .3rem .6rem .5rem; min-width: 0; }
.sight .tokens { margin: 0; } .sight .seen { border: 2px solid var(--accent); }
.sight .gone .token { color: var(--soft); border-style: dashed; background: none; }
.shapes { position: sticky; top: 1rem; }
.shapes dl { margin: 0; display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .25rem .8rem; }
.shapes dt { color: var(--soft); } .shapes dd { margin: 0; overflow-wrap: anywhere; }
.stage .bar { min-height: 2.3rem; }
#sizes th, #sizes td { white-space: nowrap; }
@media (max-width: 700px) {
  .places .token { font-size: .75rem; padding: .1rem 0; }
  .stage { padding: .4rem .4rem .6rem; }
}
@media (max-width: 1000px) {
  .network { grid-template-columns: minmax(0, 1fr); gap: .6rem; }
  .shapes { order: -1; top: .4rem; z-index: 3; padding: .5rem .8rem; box-shadow: 0 .2rem .6rem rgb(0 0 0 / .2); }
  .shapes h3, .shapes p { margin: 0 0 .2rem; } .shapes p { font-size: .85rem; line-height: 1.35; }
  .shapes dl { display: flex; flex-wrap: wrap; gap: 0 .4rem; font-size: .85rem; } .shapes dd { margin-right: .5rem; }
}
`;

export const panel = {
  id: "window",
  title: "Window",
  see: "A word outside of the window does not exist: the number of an early subject is lost with it.",
  about:
    "The network of Bengio et al. (2003) reads the last few words and nothing else. " +
    "The strips are its real numbers for your text. Click a word below to append it and the window slides on; " +
    "point at a part, or step to it with Tab, for its tensor shapes.",
  mount,
};

function mount(place, context) {
  const ask = context.api.latest();
  const failed = errors();
  let part = PARTS[context.get("part")] ? context.get("part") : "embedding";
  let answer = null;

  const model = modelChoice("Model", context, {
    fits: (one) => one.kind === "window",
    wanted: context.get("model", "ready:window"),
    changed: refresh,
  });
  const text = el("textarea", { rows: 1, maxlength: LIMIT, spellcheck: "false", placeholder: FIRST });
  text.value = context.get("text", FIRST);
  const waiting = el("p", { class: "note" }, "The window model is there as soon as the studio has loaded.");
  const sight = el("div", { class: "sight", id: "sight" });
  const stages = Object.fromEntries(Object.keys(PARTS).map((name) => [name, stage(name)]));
  const shapes = el("aside", { class: "card shapes", id: "shapes", "aria-live": "polite" });
  const network = el("div", { class: "network" }, el("div", { class: "stages" }, wireStages()), shapes);
  const sizes = el("div", {
    class: "wide",
    id: "sizes",
    role: "region",
    "aria-label": "Parameters by component",
    tabindex: "0",
  });
  const picture = el("div", {}, sight, network, el("h3", {}, "What it learns, part by part"), sizes);
  place.append(
    el("style", {}, STYLE),
    el(
      "div",
      { class: "sentence" },
      el("label", { class: "field" }, "The text so far", text),
      el(
        "div",
        { class: "row" },
        el(
          "button",
          { type: "button", class: "main", onclick: () => append(answer?.candidates[0]) },
          "Append the likeliest word",
        ),
        el(
          "button",
          { type: "button", onclick: () => write(text.value.trimEnd().replace(/\S+$/, "").trimEnd()) },
          "Take back a word",
        ),
        el("button", { type: "button", onclick: () => write("") }, "Start again"),
      ),
    ),
    el("div", { class: "row" }, model.node, presets("Examples", TEXTS, write)),
    failed.node,
    waiting,
  );

  const later = calm(refresh);
  text.addEventListener("input", later);
  return () => later.cancel();

  function write(now) {
    text.value = now;
    refresh();
  }

  function append(candidate) {
    if (candidate) write(text.value + candidate.append);
  }

  /** A component of the network: pointing at it, tapping it or stepping to its button shows its shapes. */
  function stage(name) {
    const button = el(
      "button",
      {
        type: "button",
        "aria-controls": "shapes",
        "aria-pressed": "false",
        onfocus: () => keep(name),
        onclick: () => keep(name),
      },
      PARTS[name].title,
    );
    const content = el("div", {});
    const node = el(
      "section",
      { class: "stage", "data-part": name, "aria-label": PARTS[name].title, onpointerenter: () => choose(name) },
      button,
      content,
    );
    return { node, button, content };
  }

  function wireStages() {
    return Object.values(stages).flatMap(({ node }, i) => (i ? [el("div", { class: "wires" }), node] : [node]));
  }

  function choose(name) {
    part = name;
    if (answer) drawShapes();
  }

  function keep(name) {
    choose(name);
    remember();
  }

  function remember() {
    context.set({
      model: model.value === "ready:window" ? null : model.value,
      text: text.value,
      part: part === "embedding" ? null : part,
    });
  }

  async function refresh() {
    later.cancel();
    if (!model.value) return;
    remember();
    let now;
    try {
      now = await ask("/api/window", { model: model.value, text: text.value });
    } catch (error) {
      failed.say(context.api.sentence(error));
      return;
    }
    if (!now) return; // called off while its answer came in
    answer = now;
    failed.say("");
    waiting.remove();
    if (!picture.isConnected) place.append(picture);
    drawSight();
    drawStages();
    drawShapes();
    drawSizes();
    context.announce(`next: ${answer.candidates[0]?.text ?? "nothing"}`);
  }

  function drawSight() {
    const unseen = answer.tokens.slice(0, answer.tokens.length - answer.seen);
    const seen = answer.tokens.slice(answer.tokens.length - answer.seen);
    const earlier = answer.earlier ? [`… ${answer.earlier} more`] : [];
    sight.replaceChildren(
      ...[
        unseen.length ? group("gone", "the model no longer sees these", [...earlier, ...unseen]) : null,
        group("seen", seen.length ? `in the window of ${answer.window}` : "nothing is in the window yet", seen),
      ].filter(Boolean),
    );
  }

  function drawStages() {
    const { slots } = answer;
    const most = Math.max(...slots.flatMap(({ vector }) => vector.map(Math.abs)), 1e-9);
    stages.words.content.replaceChildren(places(slots.map(slotWord)));
    stages.embedding.content.replaceChildren(
      places(slots.map(({ text: word, vector }) => [drawStrip(`vector of ${word}`, vector, most)])),
    );
    stages.joined.content.replaceChildren(
      drawStrip(
        "word vectors side by side",
        slots.flatMap(({ vector }) => vector),
        most,
      ),
    );
    stages.hidden.content.replaceChildren(drawStrip("hidden layer", answer.hidden, 1));
    drawBars();
    const [lookup, join, dense, head] = network.querySelectorAll(".wires");
    const count = slots.length;
    lookup.replaceChildren(straight(count));
    join.replaceChildren(straight(count));
    dense.replaceChildren(fan(count, 7));
    head.replaceChildren(fan(7, 10));
  }

  /** The bars are made anew with each word: whoever chose one with the keyboard stays at its place. */
  function drawBars() {
    const { content } = stages.output;
    const focused = [...content.querySelectorAll("button")].indexOf(document.activeElement);
    content.replaceChildren(bars(answer.candidates, { label: "likeliest next words", chosen: append }));
    if (focused >= 0) content.querySelectorAll("button")[focused]?.focus();
  }

  function drawShapes() {
    const component = answer.parts.find(({ name }) => name === part);
    for (const [name, { node, button }] of Object.entries(stages)) {
      node.classList.toggle("current", name === part);
      button.setAttribute("aria-pressed", String(name === part));
    }
    shapes.dataset.part = part;
    shapes.replaceChildren(
      el("h3", {}, PARTS[part].title),
      el("p", { class: "note" }, PARTS[part].does(answer)),
      el(
        "dl",
        {},
        entry("in", component.input.length ? shape(component.input) : "text"),
        entry("weights", weights(component)),
        entry("out", shape(component.output)),
        entry("learned", component.parameters.toLocaleString("en")),
      ),
    );
  }

  function drawSizes() {
    const rows = answer.parts
      .filter(({ name }) => name !== "words")
      .map((one) =>
        el(
          "tr",
          { "data-part": one.name },
          el("th", { scope: "row" }, PARTS[one.name].title),
          el("td", {}, shape(one.input)),
          el("td", {}, weights(one)),
          el("td", {}, shape(one.output)),
          el("td", { class: "parameters" }, one.parameters.toLocaleString("en")),
          el("td", {}, percent(one.parameters / answer.parameters)),
        ),
      );
    const titles = ["Component", "In", "Weights", "Out", "Parameters", "Share"].map((title) =>
      el("th", { scope: "col" }, title),
    );
    sizes.replaceChildren(
      el(
        "table",
        {},
        el("thead", {}, el("tr", {}, titles)),
        el(
          "tbody",
          {},
          rows,
          el(
            "tr",
            { "data-part": "all" },
            el("th", { scope: "row" }, "All together"),
            el("td", {}),
            el("td", {}),
            el("td", {}),
            el("td", { class: "parameters" }, answer.parameters.toLocaleString("en")),
            el("td", {}, "100 %"),
          ),
        ),
      ),
    );
  }
}

function words(answer) {
  return answer.parts.at(-1).output.at(-1);
}

function shape(sizes) {
  return `[${sizes.join(", ")}]`;
}

function percent(share) {
  return share === 0 ? "0 %" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

function weights(part) {
  return part.weights.map(({ name, shape: sizes }) => `${name} ${shape(sizes)}`).join(" + ") || "none";
}

function entry(name, value) {
  return [el("dt", {}, name), el("dd", { "data-entry": name }, value)];
}

function group(kind, title, tokens) {
  return el(
    "div",
    { class: kind },
    el("span", { class: "note" }, title),
    el(
      "ol",
      { class: "tokens" },
      tokens.map((word) => el("li", { class: "token" }, visible(word))),
    ),
  );
}

function places(columns) {
  return el(
    "div",
    { class: "places" },
    columns.map((column) => el("div", {}, column)),
  );
}

/** A place of the window; an empty one and a word never met say so in words. */
function slotWord({ text, known }) {
  const empty = text === "<s>";
  return [
    el(
      "span",
      { class: empty ? "token empty" : "token", title: empty ? "nothing was read here" : text },
      visible(text),
    ),
    empty ? el("small", {}, "nothing") : known ? null : el("small", {}, "never met"),
  ].filter(Boolean);
}

function drawStrip(label, values, most) {
  const { node, draw } = strip(label);
  draw([values], { most });
  node.numbers = values; // for tests, as charts have them
  return node;
}

/** One line from each place straight down. */
function straight(count) {
  return wires(Array.from({ length: count }, (_, i) => [centre(i, count), centre(i, count)]));
}

/** Every place above to every place below. */
function fan(above, below) {
  return wires(
    Array.from({ length: above * below }, (_, i) => [centre(i % above, above), centre(Math.floor(i / above), below)]),
  );
}

function centre(i, count) {
  return (100 * (i + 0.5)) / count;
}

function wires(pairs) {
  return svg(
    "svg",
    { class: "fan", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    pairs.map(([from, to]) => svg("line", { x1: from, y1: 0, x2: to, y2: 24, "vector-effect": "non-scaling-stroke" })),
  );
}
