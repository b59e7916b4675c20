// Counting: a text read word by word, the table of its word pairs as it grows, and a sentence drawn from that table.
import { choice, field, slider } from "../parts/controls.js";
import { calm, el, errors } from "../parts/dom.js";
import { COUNTING_STYLE, MARKS, pairTable, shortProbability } from "../parts/pairs.js";

const LIMIT = 4000; // characters of a pasted text that a link can carry
const FIRST = 7; // tokens read at the first visit: one sentence
const ALL = 1_000_000; // more than any text has: the answer says how many there are
const PACE = 700; // milliseconds a word while it plays
const RHYME = "row row row your boat\ngently down the stream\nmerrily merrily merrily merrily\nlife is but a dream";
const CORPORA = [
  ["four", "four sentences"],
  ["sentences", "100 of the ready sentences"],
  ["text", "a text of your own"],
];
const SMOOTHINGS = [
  ["mle", "none"],
  ["add-alpha", "add α"],
  ["kneser-ney", "Kneser-Ney"],
];
const ALPHAS = [
  ["1", "1 (Laplace)"],
  ["0.1", "0.1"],
  ["0.01", "0.01"],
];

export const panel = {
  id: "counting",
  title: "Counting",
  see: "Each pair of words adds one to a cell; a row, divided by its sum, predicts the next word.",
  about:
    "Press “Next word” to read on: each word adds one to the cell of the word before it (row) and itself (column). " +
    "Switch to probabilities or another smoothing, and “Generate” draws a sentence from them.",
  mount,
};

function mount(place, context) {
  const ask = context.api.latest();
  const failed = errors();
  let at = Math.min(ALL, Math.max(0, Math.floor(Number(context.get("at", FIRST)) || 0)));
  let seed = /^\d{1,9}$/.test(context.get("seed")) ? Number(context.get("seed")) : null;
  let view = context.get("view", "counts");
  let answer = null; // the last one: “Next sentence” and the choice of the view need it
  let early = false; // it was asked before the studio had loaded: then it is asked again
  let timer = 0;

  const corpus = choice("Text", CORPORA, context.get("corpus", "four"), () => {
    at = 5;
    offerText();
    restart();
  });
  const text = el("textarea", { rows: 4, maxlength: LIMIT, spellcheck: "false" });
  text.value = context.get("text", RHYME);
  const own = el("div", {});
  const play = el("button", { type: "button", onclick: () => (timer ? pause() : playOn()) }, "Play");
  const steps = el(
    "div",
    { class: "row middle", role: "group", "aria-label": "Reading" },
    el("button", { type: "button", class: "main", onclick: () => step(() => at + 1) }, "Next word"),
    el("button", { type: "button", onclick: () => step(() => answer?.next_end ?? at) }, "Next sentence"),
    el("button", { type: "button", onclick: () => step(() => ALL) }, "All"),
    play,
    el("button", { type: "button", onclick: () => step(() => 0) }, "Start again"),
  );
  const position = slider(
    "Words read, sentence ends included",
    { min: 0, max: Math.max(at, 1), step: 1, value: at, say: (now) => `${now}${answer ? ` of ${answer.length}` : ""}` },
    (now) => step(() => now),
  );
  const lines = el("div", {
    class: "lines",
    role: "group",
    "aria-label": "The text, up to the word just read",
    tabindex: "0",
  });
  const status = el("p", { id: "last-pair" });
  const smoothing = choice("Smoothing", SMOOTHINGS, context.get("smoothing", "mle"), () => {
    look("probabilities");
    offerAlpha();
    refresh();
  });
  const alpha = choice("α", ALPHAS, context.get("alpha", "1"), () => {
    look("probabilities");
    refresh();
  });
  const views = ["counts", "probabilities"].map((name) =>
    el("input", {
      type: "radio",
      name: "view",
      value: name,
      onchange: () => {
        look(name);
        remember();
        if (answer) drawTable();
      },
    }),
  );
  const options = el(
    "div",
    { class: "row" },
    el(
      "fieldset",
      { class: "switch" },
      el("legend", {}, "Cells show"),
      views.map((radio) => el("label", {}, radio, radio.value)),
    ),
    smoothing.node,
  );
  const table = pairTable();
  const rule = el("p", { class: "note", id: "rule" });
  const left = el("p", { class: "note", id: "left-out" });
  const draw = el(
    "button",
    {
      type: "button",
      onclick: () => {
        seed = seed === null ? 0 : seed + 1;
        refresh();
      },
    },
    "Generate",
  );
  const drawn = el("div", { id: "drawn", "aria-live": "polite" });
  place.append(
    el("style", {}, COUNTING_STYLE),
    el("div", { class: "row" }, corpus.node, position.node),
    own,
    steps,
    failed.node,
    lines,
    status,
    options,
    table.node,
    rule,
    left,
    el("section", { class: "card" }, el("h3", {}, "A sentence from this table"), draw, drawn),
  );

  const later = calm(() => restart());
  text.addEventListener("input", later);
  offerText();
  offerAlpha();
  look(view);
  refresh();
  context.watch(() => {
    if (early) refresh();
  });
  return () => {
    pause();
    later.cancel();
  };

  function offerText() {
    own.replaceChildren(
      ...(corpus.value === "text"
        ? [
            field("One sentence per line; words are separated by spaces", text),
            el("p", { class: "note" }, `At most ${LIMIT.toLocaleString("en")} characters are kept of a paste.`),
          ]
        : []),
    );
  }

  function offerAlpha() {
    if (smoothing.value === "add-alpha") smoothing.node.after(alpha.node);
    else alpha.node.remove();
  }

  /** Choose counts or probabilities. */
  function look(name) {
    view = name === "probabilities" ? name : "counts";
    for (const radio of views) radio.checked = radio.value === view;
  }

  /** Go to another position by hand, which ends the play. */
  function step(to) {
    pause();
    at = to();
    restart();
  }

  /** Show another position. The sentence goes: it was drawn from another table. */
  function restart() {
    seed = null;
    return refresh();
  }

  function playOn() {
    play.textContent = "Pause";
    if (answer && at >= answer.length) at = 0;
    const on = async () => {
      at += 1;
      const mine = timer;
      await restart();
      if (mine !== timer) return; // paused meanwhile
      if (answer && at >= answer.length) pause();
      else timer = setTimeout(on, PACE);
    };
    timer = setTimeout(on, 0);
  }

  function pause() {
    clearTimeout(timer);
    timer = 0;
    play.textContent = "Play";
  }

  function remember() {
    const added = smoothing.value === "add-alpha" && alpha.value !== "1";
    context.set({
      corpus: corpus.value === "four" ? null : corpus.value,
      text: corpus.value === "text" ? text.value : null,
      at,
      view: view === "counts" ? null : view,
      smoothing: smoothing.value === "mle" ? null : smoothing.value,
      alpha: added ? alpha.value : null,
      seed,
    });
  }

  async function refresh() {
    later.cancel();
    remember();
    let now;
    try {
      now = await ask("/api/count", {
        corpus: corpus.value,
        text: corpus.value === "text" ? text.value : "",
        at,
        smoothing: smoothing.value,
        alpha: Number(alpha.value),
        seed,
      });
    } catch (error) {
      if (error.name !== "AbortError") pause();
      early = error.status === 503;
      failed.say(context.api.sentence(error));
      return;
    }
    if (!now) return; // aborted while its answer came in
    answer = now;
    early = false;
    failed.say("");
    if (at !== answer.at) {
      at = answer.at;
      remember();
    }
    position.input.max = answer.length;
    position.set(at);
    drawLines();
    drawTable();
    drawSentence();
    if (!timer) context.announce(status.textContent);
  }

  function drawLines() {
    const rows = [el("p", {}, answer.first ? "… " : "")];
    answer.around.forEach((word, i) => {
      const number = answer.first + i + 1; // so many tokens are read when this one is
      const kind =
        number === at ? "read now" : number > at ? "" : number === at - 1 && word !== "</s>" ? "read before" : "read";
      rows.at(-1).append(el("span", { class: kind, title: MARKS[word] ?? null }, word), " ");
      if (word === "</s>") rows.push(el("p", {}));
    });
    if (answer.first + answer.around.length < answer.length) rows.at(-1).append("…");
    lines.replaceChildren(...rows.filter((row) => row.textContent.trim()));
    const now = lines.querySelector(".now");
    lines.scrollTop = now ? now.offsetTop - lines.offsetTop - lines.clientHeight / 2 : 0;
    status.textContent = describePair();
  }

  function describePair() {
    const { pair } = answer;
    if (!pair) return `No text has been read yet: ${answer.length} words and sentence ends are to come.`;
    const times = pair.count === 1 ? "for the first time" : `${pair.count} times by now`;
    const end = at >= answer.length ? " The whole text has been read." : "";
    return `After “${pair.before}” came “${pair.word}”, ${times}.${end}`;
  }

  function drawTable() {
    const p = view === "probabilities";
    table.draw(answer, p);
    rule.textContent = p && answer.rows.length ? formula() : "";
    left.textContent = describeLeftOut();
  }

  function formula() {
    if (smoothing.value === "mle")
      return "Without smoothing: count ÷ row sum. A pair that was never read has the probability 0.";
    if (smoothing.value === "add-alpha") {
      return (
        `Add α: (count + ${alpha.value}) ÷ (row sum + ${alpha.value} · ${answer.vocabulary}), ` +
        `the ${answer.vocabulary} being the words seen, </s> and <unk>, a word never seen.`
      );
    }
    return (
      `Kneser-Ney: ${shortProbability(answer.discount)} is taken from every count and shared out ` +
      "by how many different words each word was read after."
    );
  }

  function describeLeftOut() {
    const shown = answer.rows.length - 1; // the first row is <s>
    if (answer.rows.length === 0 || shown === answer.words) return "";
    return (
      `Of ${answer.words} words the ${shown} most frequent have a row, ` +
      `and the ${shown} that follow them most a column. ` +
      `They hold ${answer.pairs_shown} of the ${at} pairs; “others” is what follows a row in words without a column.`
    );
  }

  function drawSentence() {
    const sentence = answer.drawn;
    if (!sentence) {
      drawn.replaceChildren();
      return;
    }
    const made = sentence.steps.map(({ word, p, before }) =>
      el(
        "li",
        { "data-word": word, "data-p": p, title: `p(${word} after ${before}) = ${p}` },
        el("span", {}, word),
        el("small", {}, shortProbability(p)),
      ),
    );
    const together = sentence.p >= 0.001 ? shortProbability(sentence.p) : sentence.p.toExponential(1);
    const product = sentence.steps.length ? `Together: ${together}, the product of all steps.` : "";
    drawn.replaceChildren(
      el("ol", { class: "drawn", "aria-label": "the drawn sentence" }, made),
      el("p", { class: "note" }, `${product} ${ending(sentence)}`.trim()),
    );
  }

  function ending(sentence) {
    if (sentence.ended === "sentence") return "";
    if (sentence.ended === "length") return `It was cut after ${sentence.steps.length} words.`;
    if (!answer.rows.length) return "A dead end: nothing has been counted yet. Read some words first.";
    return (
      `A dead end: nothing was ever read after “${sentence.after}”, so without smoothing no word can follow it. ` +
      "Read on, or turn on smoothing."
    );
  }
}
