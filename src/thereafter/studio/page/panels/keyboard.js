// Keyboard: the next-word distribution of several models side by side, as the context grows. While a word is being
// typed, its column shows the words that begin so.
import { examples } from "../parts/at_hand.js";
import { bars, tintLegend } from "../parts/bars.js";
import { field, modelBox } from "../parts/controls.js";
import { arrange, calm, el, errors } from "../parts/dom.js";

const BEGIN = "the teachers near the farmer";
const MOST = 6; // models side by side
const OTHERS = 4; // longer words that are offered below the next ones
const READ = 20000; // characters of a text that the models are asked about: its end
const FIRST = ["ready:ngram", "ready:rnn", "ready:lstm", "ready:transformer"];

export const panel = {
  id: "keyboard",
  title: "Keyboard",
  see: "A singular or a plural verb next: does a model follow the subject, or the noun that stands nearer?",
  about:
    "Click a word to add it, or type: each column shows what one model expects next, " +
    "or how it completes a half-typed word, and how it divides verbs between singular and plural. " +
    "Change “teachers” to “teacher” and see which models notice.",
  own: {
    see: "What comes next? Each column is one model's answer: watch it change with every word.",
    about:
      "Click a word to add it, or type: each column shows what one model expects next, " +
      "or how it completes a half-typed word. Tick a second model and see where the two disagree.",
  },
  mount,
};

function mount(place, context) {
  let chosen = context
    .get("models")
    .split(",")
    .filter(Boolean)
    .map((name) => name.replaceAll("%2C", ","));
  let touched = chosen.length > 0;
  let shown = new Map(); // the columns by model; one that would look the same is kept
  let keep = ""; // the model whose first bar gets the focus when the bars are drawn anew
  const ask = context.api.latest();
  const askWords = context.api.latest();
  const failed = errors();
  const text = el("textarea", { rows: 1, placeholder: BEGIN, spellcheck: "false" });
  text.value = context.get("text", context.get("empty") ? "" : BEGIN);
  const lead = examples(context, "Try", [[BEGIN]], text, (now) => write(now, ""));
  const shorter = () => text.value.trimEnd().replace(/\S+$/, "").trimEnd();
  const back = el("button", { type: "button", onclick: () => write(shorter(), "") }, "Undo");
  const clear = el("button", { type: "button", onclick: () => write("", "") }, "Start again");
  const pick = el("div", { class: "row middle", role: "group", "aria-label": "Models" });
  const legend = tintLegend(); // it keeps its place while the first bars are asked for
  const columns = el("div", { class: "columns many", id: "columns" });
  const long = el("p", { class: "note" });
  const buttons = el("div", { class: "row" }, back, clear);
  place.append(
    el("div", { class: "sentence" }, field("The sentence so far", text), buttons),
    pick,
    lead.node,
    long,
    failed.node,
    legend,
    columns,
  );

  const later = calm(refresh);
  text.addEventListener("input", () => {
    keep = "";
    later();
  });

  function write(now, column) {
    text.value = now;
    keep = column;
    refresh();
    if (!keep) text.focus();
  }

  /** Offer the models there are; the boxes stay where they are as long as the list does, and so does the focus. */
  function offer() {
    const names = context.models.map((model) => model.name);
    const before = chosen.join();
    if (!touched) chosen = FIRST.filter((name) => names.includes(name));
    if (!touched && !chosen.length) chosen = names.slice(0, 2);
    const grown = pick.dataset.names !== names.join();
    if (grown) pick.replaceChildren(el("span", { class: "note" }, "Models:"), ...context.models.map(box));
    pick.dataset.names = names.join();
    if (grown || chosen.join() !== before) refresh();
  }

  function box(model) {
    const { name } = model;
    return modelBox(model, chosen.includes(name), (ticked) => {
      touched = true;
      chosen = ticked ? [...chosen, name].slice(-MOST) : chosen.filter((other) => other !== name);
      for (const one of pick.querySelectorAll("input")) one.checked = chosen.includes(one.value);
      refresh();
    });
  }

  async function refresh() {
    later.cancel();
    const there = chosen.filter((name) => context.models.some((model) => model.name === name));
    context.use("Models", there);
    await lead.follow(there[0]);
    const names = chosen.map((name) => name.replaceAll(",", "%2C")).join(",");
    context.set({ text: text.value, empty: text.value ? null : 1, models: touched ? names : null });
    long.textContent =
      text.value.length > READ ? `The models read the last ${READ.toLocaleString("en")} characters.` : "";
    if (!there.length) {
      columns.replaceChildren(
        el(
          "p",
          { class: "note" },
          context.models.length ? "Choose at least one model." : "The first model is ready in a few seconds.",
        ),
      );
      return;
    }
    try {
      const asked = { models: there, prompt: end(text.value), k: 8 };
      const [expected, completions] = await Promise.all([
        ask("/api/next", asked),
        /\S$/.test(text.value) ? askWords("/api/complete", asked) : [],
      ]);
      const answers = expected.map((one) =>
        complete(
          one,
          completions.find((other) => other.model === one.model && !other.error),
        ),
      );
      failed.say("");
      legend.hidden = !answers.some((one) => one.verbs);
      const most = Math.max(...answers.flatMap((one) => one.candidates.map((item) => item.p))); // one scale for all
      shown = new Map(answers.map((one) => [one.model, columnFor(one, most)]));
      arrange(
        columns,
        [...shown.values()].map((one) => one.node),
      );
      if (keep) columns.querySelector(`[data-model="${CSS.escape(keep)}"] .bar`)?.focus();
      context.announce(answers.map((one) => `${one.model}: ${one.error ?? one.candidates[0]?.text ?? ""}`).join(", "));
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  /** The column of an answer; the old one is kept where it shows the same. */
  function columnFor(answer, scale) {
    const label = context.models.find((one) => one.name === answer.model)?.label ?? answer.model;
    const content = JSON.stringify([label, answer, scale]);
    const before = shown.get(answer.model);
    return before?.content === content ? before : { content, node: column(answer, scale, label) };
  }

  function column(answer, scale, label) {
    const words = answer.unknown === 1 ? "1 word of the sentence is" : `${answer.unknown} words of the sentence are`;
    const unknown = answer.unknown ? el("p", { class: "note" }, `${words} new to it.`) : null;
    return el(
      "section",
      { class: "card", "data-model": answer.model },
      el("h3", {}, label),
      answer.error ? el("p", { class: "error", role: "alert" }, answer.error) : null,
      answer.typed ? el("p", { class: "typed note" }, `words that begin with “${answer.typed}”`) : null,
      answer.verbs && !answer.typed ? verbs(answer.verbs) : null,
      bars(answer.candidates, {
        label: answer.typed
          ? `words that begin with ${answer.typed}, of ${answer.model}`
          : `next word of ${answer.model}`,
        scale,
        tinted: answer.verbs !== null,
        chosen: (item) => add(answer.model, item),
      }),
      answer.others.length ? others(answer) : null,
      unknown,
    );
  }

  /** Longer words than a whole one at the end of the text, each a button. */
  function others(answer) {
    return el(
      "p",
      { class: "others note" },
      "or the word continues: ",
      answer.others.map((item) =>
        el(
          "button",
          { type: "button", "data-word": item.text, onclick: () => add(answer.model, item) },
          `${item.text} ${roundPercent(item.p)}`,
        ),
      ),
    );
  }

  function add(model, item) {
    // with the keyboard one stays in the column and can add word after word
    write(text.value + item.append, document.activeElement?.matches(".bar:focus-visible") ? model : "");
  }

  context.watch(offer);
  offer();
  return () => later.cancel();
}

/**
 * An answer with what is known of a half-typed word: in the place of the next words, if what is typed is no word;
 * as `others`, if it may be one that the model expects to go on.
 */
function complete(answer, completion) {
  if (answer.error) return { ...answer, typed: "", others: [], candidates: [], verbs: null, unknown: 0 };
  if (!completion?.half_typed) return { ...answer, typed: "", others: [] };
  if (completion.ending > 0) {
    const others = completion.candidates.filter((item) => item.append).slice(0, OTHERS);
    return { ...answer, typed: "", others };
  }
  // the half-typed word is not one of the words that are new to the model
  const unknown = Math.max(0, answer.unknown - 1);
  return { ...answer, typed: completion.typed, others: [], candidates: completion.candidates, unknown };
}

/** A share as a whole percentage; one above 0 is never shown as 0. */
function roundPercent(share) {
  return share > 0 && share < 0.005 ? "<1 %" : `${Math.round(100 * share)} %`;
}

/** How a model divides the verbs it expects between singular and plural. */
function verbs({ singular, plural }) {
  const all = singular + plural;
  if (all < 0.001) return el("p", { class: "verbs" }, "no verb is expected here", el("span", { class: "both" }));
  const part = (number, share) => {
    const node = el(
      "span",
      { "data-number": number },
      el("span", { class: "fill", style: "display:block;height:100%" }),
    );
    node.style.width = `${100 * share}%`;
    return node;
  };
  return el(
    "p",
    { class: "verbs tinted", "data-singular": singular, "data-plural": plural },
    `verbs: sg ${roundPercent(singular / all)}, pl ${roundPercent(plural / all)}`,
    el(
      "span",
      { class: "both", "aria-hidden": "true" },
      part("singular", singular / all),
      part("plural", plural / all),
    ),
  );
}

/** The end of a text; no surrogate pair is cut in two. */
function end(text) {
  const cut = text.slice(-READ);
  return /^[\udc00-\udfff]/.test(cut) ? cut.slice(1) : cut;
}
