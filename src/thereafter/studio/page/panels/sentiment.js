// Sentiment: the label of a review, and which of its words spoke for it and which against it.
import { answers } from "../parts/answers.js";
import { bars } from "../parts/bars.js";
import { el } from "../parts/dom.js";
import { percent } from "../parts/numbers.js";

export const panel = {
  id: "sentiment",
  title: "Sentiment",
  see: "Words speak for a label or against it, and a “not” reverses what comes after it.",
  about:
    "A classifier reads a review and gives it a label; " +
    "the number under each word says how much that word spoke for the label (+) or against it (−). " +
    "Click a word to leave it out, put a “not” before another, and see whether the label flips.",
  mount,
};

const TEXTS = [
  "the film was not good .",
  "the music was great , but the plot was very dull .",
  "the hero was never boring and the ending was moving .",
  "the dialogue was clumsy , but the story was gripping .",
];
const WORDS = {
  label: "The review",
  model: "Classifier",
  another: "Another review",
  empty: "Type a review.",
  offer: "Train the classifier (a few seconds)",
  about:
    "A classifier of reviews is trained here. Its reviews are generated: praise and blame from about 50 words, " +
    "reversed by “not” and “never”, and after “but” it is the second half that counts. " +
    "It is kept for next time.",
};
const STYLE = `
.evidence { display: flex; flex-wrap: wrap; gap: .35rem; list-style: none; padding: 0; margin: 0 0 1rem; }
.evidence button { display: grid; justify-items: center; padding: .3rem .55rem; line-height: 1.3; }
.evidence button .value { font-size: .85rem; font-variant-numeric: tabular-nums; }`;

function mount(place, context) {
  const verdict = el("p", { id: "verdict", role: "status" });
  const words = el("ol", { class: "evidence", "aria-label": "Words with their evidence" });
  const labels = el("div");
  const note = el("p", { class: "note" });
  const card = el("section", { class: "card", style: "max-width:34rem" }, el("h3", {}, "All labels"), labels);
  place.append(el("style", {}, STYLE));
  const { write, leave } = answers(place, context, {
    task: "classify",
    texts: TEXTS,
    words: WORDS,
    shown: [verdict, words, card, note],
    draw,
  });

  function draw(answer, ready) {
    verdict.replaceChildren(
      "The label is ",
      el("strong", {}, answer.label),
      `, with a probability of ${percent(answer.probabilities[0].p)}.`,
    );
    const most = Math.max(1e-9, ...answer.words.map((one) => Math.abs(one.evidence ?? 0)));
    words.replaceChildren(...answer.words.map((one, at) => el("li", {}, chip(one, at, answer, most))));
    labels.replaceChildren(
      bars(
        answer.probabilities.map(({ label, p }) => ({ text: label, p })),
        { label: "probabilities of the labels", scale: 1 },
      ),
    );
    note.textContent =
      "The numbers are the gradient of the label's score with respect to the word vector, times that vector: " +
      "a hint, no proof. " +
      `Orange and + speak for the label “${answer.label}”, blue and − against it. ` +
      (ready ? "The ready classifier has learned from generated reviews only." : "");
  }

  function chip(one, at, answer, most) {
    const value = one.evidence ?? 0;
    const sign = `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
    const rest = answer.words
      .filter((_, i) => i !== at)
      .map((each) => each.word)
      .join(" ");
    const node = el(
      "button",
      {
        type: "button",
        "data-word": one.word,
        "data-evidence": one.evidence,
        disabled: !rest,
        "aria-label": `${one.word}, ${sign}; leave it out`,
        title: "leave it out",
        onclick: () => write(rest),
      },
      el("span", { class: "mono" }, one.word),
      el("span", { class: "value" }, sign),
    );
    const share = ((45 * Math.abs(value)) / most).toFixed(1);
    node.style.background = `color-mix(in srgb, var(${value < 0 ? "--low" : "--high"}) ${share}%, var(--ground))`;
    return node;
  }

  return leave;
}
