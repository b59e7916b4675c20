// Tagging: the word class of every word of a sentence, and how sure the tagger is of it.
import { bars } from "../parts/bars.js";
import { field } from "../parts/controls.js";
import { calm, el, errors } from "../parts/dom.js";
import { MOST_TYPED, taskChoice, taskModels } from "../parts/tasks.js";

export const panel = {
  id: "tagging",
  title: "Tagging",
  about: "Every word gets a tag, and below it stand the likeliest tags with their probabilities: the same word may be a noun here and a verb there. "
    + "Change the sentence, or a single word of it, and see which tags follow.",
  mount,
};

const SENTENCES = [
  "they fish near the old fish .",
  "the cook can often watch this play .",
  "we answer every answer with my plan .",
  "they dance zinkly behind the blorp .",
];
const ABOUT = "A tagger is trained here that reads each word and its letters. Its sentences are generated from about 60 words, many of them nouns "
  + "in one place and verbs in another, and it is kept for the next time.";
const STYLE = `
@media (min-width: 701px) { .tagged { --least: 13rem; } }
.tagged { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, var(--least, 10rem)), 1fr)); gap: .7rem; list-style: none; padding: 0; }
.tagged .bar { grid-template-columns: minmax(0, 3.4rem) minmax(1rem, 1fr) 3rem; min-height: 1.7rem; padding-inline: 0; gap: .3rem; }
.tagged .card { padding: .6rem .8rem; }
.tagged strong { overflow-wrap: anywhere; }`;

function mount(place, context) {
  const ask = context.api.latest();
  const failed = errors();
  const text = el("textarea", { rows: 2, maxlength: MOST_TYPED, spellcheck: "false" });
  text.value = context.get("text", SENTENCES[0]);
  const pick = taskChoice("Tagger", context.get("model"), () => request());
  const another = el("button", { type: "button", class: "main", onclick: () => {
    text.value = SENTENCES[(SENTENCES.indexOf(text.value) + 1) % SENTENCES.length];
    request();
  } }, "Another sentence");
  const words = el("ol", { class: "tagged", "aria-label": "Words with their tags" });
  const note = el("p", { class: "note" });
  const body = el("div", { hidden: true }, field("The sentence, its words apart from each other", text),
    el("div", { class: "row", style: "margin-top:.6rem" }, another, pick.node), failed.node, words, note);
  const models = taskModels(context, { task: "tag", offer: "Train the tagger (some seconds)", about: ABOUT, changed: found });
  place.append(el("style", {}, STYLE), models.node, body);
  const later = calm(request);
  text.addEventListener("input", later);

  function found(all) {
    pick.fill(all);
    body.hidden = false;
    request();
  }

  async function request() {
    later.cancel();
    if (!text.value.trim()) {
      failed.say("Type a sentence to be tagged.");
      return;
    }
    context.set({ text: text.value, model: pick.value.startsWith("ready:") ? null : pick.value });
    try {
      const answer = await ask("/api/tasks/tag", { model: pick.value, text: text.value });
      if (!place.isConnected) return;
      failed.say("");
      words.replaceChildren(...answer.words.map(card));
      const strange = answer.words.filter((one) => !one.known).length;
      note.textContent = `${strange ? "A word with a ? was never met in training, so its letters and its neighbours alone speak. " : ""}`
        + (pick.value.startsWith("ready:") ? "The ready tagger has learned from generated sentences only." : "");
      context.announce(answer.words.map((one) => `${one.word} ${one.tag}`).join(", "));
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  return () => { later.cancel(); models.leave(); };
}

function card(one) {
  return el("li", { class: "card", "data-word": one.word, "data-tag": one.tag, "data-known": String(one.known) },
    el("div", {}, el("strong", { class: "mono" }, one.word), one.known ? "" : " ?", ` · ${one.tag}`),
    bars(one.likeliest.map(({ tag, p }) => ({ text: tag, p })), { label: `tags of ${one.word}`, scale: 1 }));
}
