// Tagging: the word class of every word of a sentence, and how sure the tagger is of it.
import { answers } from "../parts/answers.js";
import { bars } from "../parts/bars.js";
import { el } from "../parts/dom.js";

export const panel = {
  id: "tagging",
  title: "Tagging",
  see: "The same word is a verb in one place and a noun in another: its neighbours decide.",
  about:
    "Every word gets a tag, and below it stand the likeliest tags with their probabilities. " +
    "Change the sentence, or a single word of it, and see which tags follow.",
  mount,
};

const SENTENCES = [
  "they fish near the old fish .",
  "the cook can often watch this play .",
  "we answer every answer with my plan .",
  "they dance zinkly behind the blorp .",
];
const WORDS = {
  label: "The sentence, with spaces between its words",
  model: "Tagger",
  another: "Another sentence",
  empty: "Type a sentence to tag.",
  offer: "Train the tagger (a few seconds)",
  about:
    "A tagger is trained here that reads each word and its characters. Its sentences are generated " +
    "from about 60 words, many of them nouns in one place and verbs in another. It is kept for next time.",
};
const STYLE = `
@media (min-width: 701px) { .tagged { --least: 13rem; } }
.tagged { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, var(--least, 10rem)), 1fr));
  gap: .7rem; list-style: none; padding: 0; }
.tagged .bar { grid-template-columns: minmax(0, 3.4rem) minmax(1rem, 1fr) 3rem; min-height: 1.7rem; padding-inline: 0;
  gap: .3rem; }
.tagged .card { padding: .6rem .8rem; }
.tagged strong { overflow-wrap: anywhere; }`;

function mount(place, context) {
  const words = el("ol", { class: "tagged", "aria-label": "Words with their tags" });
  const note = el("p", { class: "note" });
  place.append(el("style", {}, STYLE));

  function draw(answer, ready) {
    words.replaceChildren(...answer.words.map(card));
    const strange = answer.words.filter((one) => !one.known).length;
    note.textContent =
      (strange ? "A word with a ? did not occur in training: only its characters and its neighbours can tell. " : "") +
      (ready ? "The ready tagger has learned from generated sentences only." : "");
    context.announce(answer.words.map((one) => `${one.word} ${one.tag}`).join(", "));
  }

  return answers(place, context, { task: "tag", texts: SENTENCES, words: WORDS, shown: [words, note], draw }).leave;
}

function card(one) {
  return el(
    "li",
    { class: "card", "data-word": one.word, "data-tag": one.tag, "data-known": String(one.known) },
    el("div", {}, el("strong", { class: "mono" }, one.word), one.known ? "" : " ?", ` · ${one.tag}`),
    bars(
      one.likeliest.map(({ tag, p }) => ({ text: tag, p })),
      { label: `tags of ${one.word}`, scale: 1 },
    ),
  );
}
