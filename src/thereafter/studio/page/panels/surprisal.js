// Surprisal: a text in the colours of what each word cost a model, one model beside another.
import { examples } from "../parts/at_hand.js";
import { choice, describe, field, modelChoice, SENTENCES } from "../parts/controls.js";
import { answered, calm, el, errors, show } from "../parts/dom.js";
import { colouredWords, cost, expected, scale, strongest, wordTable } from "../parts/surprise.js";

const FIRST = "ready:lstm";
const SECOND = "ready:ngram";
const NONE = "none";
const LONGEST = 5000; // characters: each token costs a whole prediction
const LINKED = 2000; // characters that an address holds
const STYLE = `
.surprisal .both { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
.surprisal .surprise { max-height: 26rem; overflow-y: auto; line-height: 1.9; white-space: pre-wrap; margin: 0; }
.surprisal .surprise span { padding: .15em .1em; border-radius: .2rem; }
.surprisal .surprise .new { text-decoration: underline dotted 2px; text-underline-offset: .25em; }
.surprisal .surprise .here { outline: 2px solid var(--text); outline-offset: 1px; }
.surprisal .scale { display: flex; align-items: center; gap: .5rem; font-size: .85rem; color: var(--soft);
  margin: .6rem 0; font-variant-numeric: tabular-nums; }
.surprisal .scale i { flex: 1; max-width: 14rem; height: .8rem; border-radius: .2rem; border: 1px solid var(--line); }
.surprisal h3 { margin: 0 0 .3rem; }
.surprisal .expected { margin: 1rem 0; }
.surprisal details { margin-top: 1rem; }
.surprisal summary { cursor: pointer; padding: .4rem 0; }`;

export const panel = {
  id: "surprisal",
  title: "Surprisal",
  see: "A word costs as many bits as it was unexpected: where does a model stumble, and where does another?",
  about:
    "Every word has the colour of its surprisal, −log₂ p: pale where it was expected, strong where it was not. " +
    "Point at a word, or move with the arrow keys, to see its rank and what was expected in its place; change “are” " +
    "to “is” and see which model notices.",
  own: {
    about:
      "Every word has the colour of its surprisal, −log₂ p: pale where it was expected, strong where it was not. " +
      "Point at a word, or move with the arrow keys, to see its rank and what was expected in its place; change a " +
      "word and see which model notices.",
  },
  mount,
};

function mount(place, context) {
  let answer = null;
  let at = -1; // the word whose predictions are shown
  let blocks = [];
  let known = ""; // the models that are offered beside the first
  const ask = context.api.latest();
  const failed = errors();
  const text = el("textarea", { rows: 3, spellcheck: "false", maxlength: LONGEST });
  text.value = context.get("text", SENTENCES[0][0]);
  const lead = examples(context, "Try", SENTENCES, text, (now) => {
    text.value = now;
    refresh();
  });
  const first = modelChoice("Model", context, { wanted: context.get("model", FIRST), changed: () => refresh() });
  let wanted = context.get("beside", SECOND);
  const second = choice("Beside it", [[NONE, "no other model"]], NONE, (now) => {
    wanted = now;
    refresh();
  });
  const legend = el("div", { class: "scale" });
  const both = el("div", { class: "both", id: "surprises" });
  const readout = el("p", { class: "note", id: "surprise-readout", role: "status" });
  const detail = el("div", { class: "both expected", id: "expected" });
  const table = wordTable();
  const more = el(
    "details",
    { open: context.get("table") === "1" },
    el("summary", {}, "All words as a table"),
    table.node,
  );
  const walk = el("button", { type: "button", class: "main", onclick: () => next() }, "Next most surprising word");
  const later = calm(refresh, 250);
  text.addEventListener("input", later);
  more.addEventListener("toggle", () => context.set({ table: more.open ? "1" : null }));
  place.append(
    el("style", {}, STYLE),
    el(
      "div",
      { class: "surprisal" },
      field("The text", text),
      el("div", { class: "row", style: "margin:.6rem 0" }, first.node, second.node),
      lead.node,
      failed.node,
      el("div", { class: "row", style: "margin:.6rem 0" }, walk, legend),
      both,
      readout,
      detail,
      more,
    ),
  );

  function offer() {
    const names = context.models.map((model) => model.name);
    if (names.join() === known) return;
    known = names.join();
    const options = [[NONE, "no other model"], ...context.models.map((model) => [model.name, describe(model)])];
    second.select.replaceChildren(...options.map(([value, name]) => el("option", { value }, name)));
    const before = second.value;
    second.select.value = names.includes(wanted) ? wanted : NONE;
    if (first.value && before !== second.value) refresh();
  }

  async function refresh() {
    later.cancel();
    if (!first.value) return;
    await lead.follow(first.value);
    const beside = second.value;
    context.use("Beside it", beside === NONE ? [] : [beside]);
    const models = beside === NONE || beside === first.value ? [first.value] : [first.value, beside];
    context.set({ model: first.value, beside: wanted, text: text.value.slice(0, LINKED) || null });
    if (!text.value.trim()) {
      failed.say("Type a text.");
      return;
    }
    try {
      const now = await ask("/api/surprisal", { models, text: text.value, top: 5 });
      answered(now.failed, failed, labelOf);
      answer = now;
      draw();
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  const labelOf = (name) => context.models.find((model) => model.name === name)?.label ?? name;
  const labels = () => answer.models.map((one) => labelOf(one.model));

  function draw() {
    const most = strongest(answer);
    const names = labels();
    legend.replaceChildren(...scale(most));
    blocks = answer.models.map((_, i) => colouredWords(answer, i, most, choose));
    both.replaceChildren(
      ...answer.models.map((one, i) =>
        el("section", {}, el("h3", {}, names[i]), blocks[i].node, el("p", { class: "note" }, sums(one))),
      ),
    );
    table.draw(answer, names);
    at = -1;
    choose(dearest());
    context.announce(answer.models.map((one, i) => `${names[i]}: ${sums(one)}`).join(" "));
  }

  /** From the word that is shown to the one that cost the first model next most; from the last to the first. */
  function next() {
    if (!answer) return;
    const bits = answer.models[0].words.map((word) => (word ? (word.bits ?? Infinity) : -1));
    const order = bits.map((_, i) => i).filter((i) => bits[i] >= 0);
    order.sort((a, b) => bits[b] - bits[a] || a - b);
    choose(order[(order.indexOf(at) + 1) % order.length]);
  }

  /** The word that cost the first model most. */
  function dearest() {
    const bits = answer.models[0].words.map((word) => (word ? (word.bits ?? Infinity) : -1));
    return bits.indexOf(Math.max(...bits));
  }

  function sums(one) {
    const words = answer.words.filter((word) => word !== "\n").length;
    const bits =
      one.bits == null ? "a probability of 0" : `${one.bits.toFixed(1)} bits over ${words} words and line ends`;
    const unknown = one.unknown
      ? ` ${one.unknown} of its ${one.tokens} tokens are unknown (underlined): ` +
        `${one.spelling_bits.toFixed(1)} bits more for their spelling.`
      : "";
    return `${bits}.${unknown}`;
  }

  function choose(now) {
    if (now === at) return;
    at = now;
    for (const block of blocks) block.mark(at);
    const names = labels();
    const word = answer.words[at] === "\n" ? "the line end" : `“${answer.words[at]}”`;
    show(
      readout,
      `Word ${at + 1}, ${word}: ${answer.models.map((one, i) => `${names[i]} ${cost(one.words[at])}`).join("; ")}.`,
    );
    detail.replaceChildren(
      ...answer.models.map((one, i) => el("section", { class: "card" }, ...expected(one.words[at], names[i]))),
    );
  }

  context.watch(offer);
  queueMicrotask(offer);
  return () => later.cancel();
}
