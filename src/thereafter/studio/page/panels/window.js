// Window: the network over the last few words (Bengio et al. 2003), its shapes, and what it computes for the text.
import { examples } from "../parts/at_hand.js";
import { bars } from "../parts/bars.js";
import { modelChoice } from "../parts/controls.js";
import { calm, el, errors } from "../parts/dom.js";
import {
  entry,
  fan,
  group,
  NETWORK_STYLE,
  percentOf,
  places,
  shape,
  slotWord,
  straight,
  stripOf,
  weights,
} from "../parts/network.js";

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

export const panel = {
  id: "window",
  title: "Window",
  see: "A word outside the window does not exist: the number of an early subject is lost with it.",
  about:
    "The network of Bengio et al. (2003) reads the last few words and nothing else; " +
    "the strips are its real numbers for your text. Click a word below to append it and the window moves on; " +
    "point at a part, or step to it with Tab, for its tensor shapes.",
  own: { see: "A word outside the window does not exist: whatever it said is lost with it." },
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
  const lead = examples(context, "Examples", TEXTS, text, write);
  const waiting = el("p", { class: "note" }, "The window model is available once the studio has loaded.");
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
    el("style", {}, NETWORK_STYLE),
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
          "Undo",
        ),
        el("button", { type: "button", onclick: () => write("") }, "Start again"),
      ),
    ),
    el("div", { class: "row" }, model.node, lead.node),
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
    await lead.follow(model.value);
    remember();
    let now;
    try {
      now = await ask("/api/window", { model: model.value, text: text.value });
    } catch (error) {
      failed.say(context.api.sentence(error));
      return;
    }
    if (!now) return; // aborted while its answer came in
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
      places(slots.map(({ text: word, vector }) => [stripOf(`vector of ${word}`, vector, most)])),
    );
    stages.joined.content.replaceChildren(
      stripOf(
        "word vectors side by side",
        slots.flatMap(({ vector }) => vector),
        most,
      ),
    );
    stages.hidden.content.replaceChildren(stripOf("hidden layer", answer.hidden, 1));
    drawBars();
    const [lookup, join, dense, head] = network.querySelectorAll(".wires");
    const count = slots.length;
    lookup.replaceChildren(straight(count));
    join.replaceChildren(straight(count));
    dense.replaceChildren(fan(count, 7));
    head.replaceChildren(fan(7, 10));
  }

  /** The bars are made anew with each word. The focus stays on the same place of the list. */
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
          el("td", {}, percentOf(one.parameters / answer.parameters)),
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
            el("th", { scope: "row" }, "Total"),
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
