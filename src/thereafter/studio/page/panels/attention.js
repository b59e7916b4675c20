// Attention: a translation written word by word, and where the translator looks while it writes each of them.
import { bars } from "../parts/bars.js";
import { field, presets } from "../parts/controls.js";
import { calm, el, errors, visible } from "../parts/dom.js";
import { percent } from "../parts/numbers.js";
import { MOST_TYPED, taskChoice, taskModels } from "../parts/tasks.js";
import { bringIntoView, markCurrent, player, wholeNumber } from "../parts/walk.js";

export const panel = {
  id: "attention",
  title: "Attention",
  see: "Each word the translator writes looks at its own source word, even when the order changes.",
  about:
    "Each row is a word that the translator writes; its cells say how much it looked at each word of the source; " +
    "a row sums to 1. " +
    "Press Next word, or the right arrow key, and watch where it looks when the order of the words changes.",
  mount,
};

const SENTENCES = [
  ["the red house hides the black cat", "red house … black cat"],
  ["the tired horse follows the white cow behind the green car", "a longer one"],
  ["the round table", "round table"],
];
const FIRST_STEP = 7; // the last of the first sentence: all its words are written
const ABOUT =
  "A translator from English to French is trained here, and one without attention for the panel Bottleneck. " +
  "Their sentences are generated from about 50 words, and the models are kept for next time.";
const STYLE = `
.looked { border-collapse: separate; border-spacing: 2px; }
.looked th, .looked td { border: 0; text-align: center; padding: .1rem .35rem; min-width: 3.1rem; white-space: nowrap; }
.looked thead th { font-weight: 400; }
.looked tbody th, .looked thead td { position: sticky; left: 0; text-align: right; background: var(--ground);
  z-index: 1; font-weight: 400; }
.looked thead td { outline: 0; }
.looked th { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9rem; }
.looked td { border-radius: .25rem; outline: 1px solid var(--line); outline-offset: -1px; }
.looked td.most { font-weight: 700; outline: 2px solid var(--text); outline-offset: -2px; }
.looked tr.later th > *, .looked tr.later td > * { visibility: hidden; }
.looked tr.later td { background: none !important; outline: 1px dashed var(--line); outline-offset: -1px; }
.halves { display: flex; flex-wrap: wrap; gap: 1rem; align-items: start; } /* below a wide map, beside a narrow one */
.halves .wide { max-width: 100%; } .halves .card { flex: 1 1 18rem; }
.looked tr[aria-current] th { font-weight: 700; }
.looked tr[aria-current] th button { border-color: var(--accent); border-width: 2px; }
.looked button { padding: .2rem .5rem; min-height: 2.25rem; }`;

function mount(place, context) {
  let answer = null,
    rows = [];
  const ask = context.api.latest();
  const failed = errors();
  const text = el("textarea", { rows: 1, maxlength: MOST_TYPED, spellcheck: "false" });
  text.value = context.get("text", SENTENCES[0][0]);
  const pick = taskChoice("Translator", context.get("model"), () => request());
  const walk = player(showStep);
  walk.set(wholeNumber(context.get("step"), FIRST_STEP), MOST_TYPED);
  const table = el("table", {
    class: "looked",
    "aria-label": "Attention weights: a row for each word written, a column for each word read",
  });
  const map = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Attention weights" }, table);
  const status = el("p", { role: "status", style: "margin:0 0 .5rem" });
  const row = el("div");
  walk.node.append(pick.node);
  pick.node.style.marginLeft = "auto";
  const body = el(
    "div",
    { hidden: true },
    walk.node,
    status,
    el(
      "div",
      { class: "halves", id: "picture" },
      map,
      el("section", { class: "card" }, el("h3", {}, "This step"), row),
    ),
  );
  const input = el(
    "div",
    { class: "sentence" },
    field("The sentence to translate", text),
    presets("Sentences", SENTENCES, take),
  );
  input.hidden = true;
  const models = taskModels(context, {
    task: "translate",
    offer: "Train the two translators (about half a minute)",
    about: ABOUT,
    changed: offer,
  });
  place.append(el("style", {}, STYLE), models.node, input, failed.node, body);
  const later = calm(request);
  text.addEventListener("input", later);

  function offer(all) {
    pick.fill(all.filter((model) => model.attention !== "none"));
    if (!pick.value) return;
    body.hidden = input.hidden = false;
    request();
  }

  function take(sentence) {
    text.value = sentence;
    walk.set(0, MOST_TYPED);
    request();
  }

  async function request() {
    later.cancel();
    walk.stop();
    if (!text.value.trim()) {
      failed.say("Type a sentence to translate.");
      return;
    }
    context.set({ text: text.value, model: pick.value.startsWith("ready:") ? null : pick.value });
    try {
      const now = await ask("/api/tasks/translate", { model: pick.value, text: text.value });
      if (!place.isConnected) return;
      answer = now;
      failed.say("");
      draw();
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  function draw() {
    rows = answer.target.map((word, at) => line(word, at));
    table.replaceChildren(
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("td"),
          answer.source.map((word) => el("th", { scope: "col" }, visible(word))),
        ),
      ),
      el("tbody", {}, rows),
    );
    walk.set(walk.at, rows.length);
    showStep(walk.at);
  }

  function line(word, at) {
    const weights = answer.weights[at],
      most = Math.max(...weights);
    const cells = weights.map((weight, place) => {
      const cell = el(
        "td",
        {
          class: weight === most ? "most" : "",
          "data-weight": weight,
          title: `${word} looks at ${answer.source[place]}: ${weight.toFixed(4)}`,
        },
        el("span", {}, weight.toFixed(2)),
      );
      cell.style.background = `color-mix(in srgb, var(--accent) ${(50 * weight).toFixed(1)}%, var(--ground))`;
      return cell;
    });
    return el(
      "tr",
      { "data-step": at + 1 },
      el("th", { scope: "row" }, el("button", { type: "button", onclick: () => walk.go(at + 1) }, visible(word))),
      cells,
    );
  }

  function showStep(at) {
    if (!answer) return;
    context.set({ step: at });
    rows.forEach((one, i) => {
      one.classList.toggle("later", i >= at);
      markCurrent(one, i + 1 === at);
    });
    if (!at) {
      status.textContent = "Nothing has been written yet.";
      row.replaceChildren(el("p", { class: "note" }, "Press Next word."));
      return;
    }
    const weights = answer.weights[at - 1],
      word = visible(answer.target[at - 1]);
    const listed = weights.map((p, place) => ({ text: answer.source[place], p, place })).sort((a, b) => b.p - a.p);
    const [first] = listed;
    status.textContent =
      `Step ${at} of ${rows.length}: it writes “${word}” ` +
      `and looks most at “${visible(first.text)}”, ${percent(first.p)}.`;
    const sum = weights.reduce((total, weight) => total + weight, 0);
    const written = answer.target.slice(0, at).map(visible).join(" ");
    row.replaceChildren(
      bars(listed.slice(0, 6), { label: `where “${word}” looks`, scale: 1 }),
      el(
        "p",
        { class: "note" },
        `The ${weights.length} weights of this step sum to ${sum.toFixed(3)}. So far it has written: ${written}`,
      ),
    );
    bringIntoView(map, rows[at - 1].querySelector(".most"));
    context.announce(status.textContent);
  }

  return () => {
    later.cancel();
    walk.leave();
    models.leave();
  };
}
