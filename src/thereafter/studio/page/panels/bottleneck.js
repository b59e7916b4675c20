// Bottleneck: the quality of two translators by the length of the sentence, one with attention and one without.
import { chart, colourOf } from "../parts/chart.js";
import { choice, slider } from "../parts/controls.js";
import { answered, calm, el, errors, pageColour, show } from "../parts/dom.js";
import { percent } from "../parts/numbers.js";
import { taskChoice, taskModels } from "../parts/tasks.js";
import { wholeNumber } from "../parts/walk.js";

export const panel = {
  id: "bottleneck",
  title: "Bottleneck",
  see: "A long sentence does not fit through one vector: see where the line without attention falls.",
  about:
    "A translator without attention has to carry the whole sentence in one vector: " +
    "the longer the sentence, the more it loses. " +
    "Move the length, switch attention off and on, and read what both translators make of the same sentence.",
  mount,
};

const MEASURES = { words: "words in their places", exact: "sentences without a mistake" };
const SHOWN = { both: "off and on, side by side", off: "off", on: "on" };
const ABOUT =
  "Two translators from English to French are trained here, identical except for attention. " +
  "Their sentences are generated from about 50 words, and the models are kept for next time.";
const FIRST_LENGTH = 14,
  MOST_LENGTH = 60;

function mount(place, context) {
  let points = [],
    at = Math.max(0, wholeNumber(context.get("sentence"), 0));
  const ask = context.api.latest(),
    measure = context.api.latest();
  const failed = errors();
  const without = taskChoice("Without attention", context.get("off"), refresh);
  const attending = taskChoice("With attention", context.get("on"), refresh);
  const shown = choice("Attention", Object.entries(SHOWN), context.get("shown", "both"), draw);
  const quality = choice("Quality", Object.entries(MEASURES), context.get("quality", "words"), draw);
  const length = slider(
    "Words of the sentence",
    { min: 1, max: MOST_LENGTH, step: 1, value: wholeNumber(context.get("length"), FIRST_LENGTH) },
    changeLength,
  );
  const another = el(
    "button",
    {
      type: "button",
      class: "main",
      onclick: () => {
        at += 1;
        example();
      },
    },
    "Another sentence",
  );
  const picture = el("div");
  const status = el("p", { class: "note", role: "status" });
  const numbers = el(
    "details",
    {},
    el("summary", { style: "padding:.4rem 0;cursor:pointer" }, "The numbers"),
    el("div", { class: "wide" }),
  );
  const sentences = el("div");
  const body = el(
    "div",
    { hidden: true },
    el("div", { class: "row" }, shown.node, quality.node, without.node, attending.node),
    picture,
    status,
    numbers,
    el("div", { class: "row", style: "margin-top:1rem" }, length.node, another),
    sentences,
  );
  const models = taskModels(context, {
    task: "translate",
    offer: "Train the two translators (about half a minute)",
    about: ABOUT,
    changed: offer,
  });
  place.append(models.node, failed.node, body);
  const later = calm(example);

  function offer(all) {
    const looking = all.filter((model) => model.attention !== "none");
    without.fill(all.filter((model) => model.attention === "none"));
    attending.fill(looking);
    body.hidden = false;
    refresh();
  }

  const names = () => [without.value, attending.value].filter(Boolean);
  const titles = () =>
    new Map([
      [without.value, "attention off"],
      [attending.value, "attention on"],
    ]);
  const visibleNames = () =>
    [shown.value !== "on" && without.value, shown.value !== "off" && attending.value].filter(Boolean);

  async function refresh() {
    status.textContent = "Translating held-out sentences of every length.";
    try {
      const answer = await measure("/api/tasks/quality", { models: names() });
      if (!place.isConnected) return;
      points = answered(answer, failed, (name) => titles().get(name));
      const lengths = points.flatMap((one) => one.points.map((point) => point.length));
      length.input.min = Math.min(...lengths);
      length.input.max = Math.max(...lengths);
      length.set(length.value); // within the lengths that were measured
      draw();
    } catch (error) {
      failed.say(context.api.sentence(error));
      status.textContent = "";
    }
  }

  function changeLength() {
    at = 0;
    mark();
    later();
  }

  function draw() {
    mark();
    table();
    example();
  }

  /** The chart, with a line at the chosen length. */
  function mark() {
    const seen = points.filter((one) => visibleNames().includes(one.model));
    const key = quality.value;
    const traces = seen.map((one) => {
      const off = one.model === without.value;
      const colour = colourOf(off ? "rnn" : "lstm");
      return {
        name: titles().get(one.model),
        x: one.points.map((point) => point.length),
        y: one.points.map((point) => 100 * point[key]),
        mode: "lines+markers",
        line: { color: colour, width: 2.5, dash: off ? "dash" : "solid" },
        marker: { symbol: off ? "square" : "circle", size: 8, color: colour },
        hovertemplate: "%{x} words: %{y:.1f} %",
      };
    });
    const line = {
      type: "line",
      x0: length.value,
      x1: length.value,
      y0: 0,
      y1: 1,
      yref: "paper",
      line: { color: colourOf("ngram"), width: 2, dash: "dot" },
    };
    const axis = pageColour("--line");
    chart(picture, traces, {
      x: "words of the source sentence",
      y: `${MEASURES[key]}, %`,
      legend: true,
      height: 340,
      layout: {
        shapes: [line],
        yaxis: {
          range: [-2, 104],
          title: { text: `${MEASURES[key]}, %` },
          gridcolor: axis,
          zerolinecolor: axis,
          automargin: true,
        },
        showlegend: true,
      },
    }).catch((error) => failed.say(context.api.sentence(error)));
    const here = seen
      .map((one) => {
        const point = one.points.find((each) => each.length === length.value);
        return point ? `${titles().get(one.model)} ${percent(point[key])}` : "";
      })
      .filter(Boolean);
    show(
      status,
      `With ${length.value} words, ${MEASURES[key]}: ${here.join(", ")}. ` +
        "Every point is the mean over up to 20 held-out sentences. Those of the ready translators are generated; " +
        "there are so few short ones that training has seen them too.",
    );
  }

  function table() {
    const lengths = [...new Set(points.flatMap((one) => one.points.map((point) => point.length)))].sort(
      (a, b) => a - b,
    );
    const cell = (one, words) => {
      const point = one.points.find((each) => each.length === words);
      return el("td", { "data-model": one.model, "data-length": words }, point ? percent(point[quality.value]) : "–");
    };
    numbers.lastChild.replaceChildren(
      el(
        "table",
        { "aria-label": `${MEASURES[quality.value]} by length` },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "words"),
            points.map((one) => el("th", { scope: "col" }, titles().get(one.model))),
          ),
        ),
        el(
          "tbody",
          {},
          lengths.map((words) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, String(words)),
              points.map((one) => cell(one, words)),
            ),
          ),
        ),
      ),
    );
  }

  async function example() {
    later.cancel();
    context.set({
      length: length.value,
      sentence: at || null,
      shown: shown.value === "both" ? null : shown.value,
      quality: quality.value === "words" ? null : quality.value,
      off: nameInAddress(without),
      on: nameInAddress(attending),
    });
    try {
      const answer = await ask("/api/tasks/example", { models: names(), length: length.value, at });
      if (!place.isConnected) return;
      answered(answer.failed, failed, (name) => titles().get(name));
      sentences.replaceChildren(
        el("h3", {}, `A sentence of ${answer.length} words`),
        el("p", { class: "mono", id: "source" }, answer.source),
        el("h3", {}, "Its translation"),
        el("p", { class: "mono", id: "target" }, answer.target),
        el("div", { class: "columns" }, answer.answers.filter((one) => visibleNames().includes(one.model)).map(card)),
      );
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  function card(one) {
    const wrong = one.right.filter((right) => !right).length + one.missing;
    const words = one.words.map((word, i) =>
      one.right[i]
        ? el("span", {}, word)
        : el("s", { title: "not the word of the translation above at this place" }, `✗${word}`),
    );
    return el(
      "section",
      { class: "card", "data-model": one.model },
      el("h3", {}, titles().get(one.model)),
      el(
        "p",
        { class: "mono translation" },
        words.flatMap((word) => [word, " "]),
      ),
      el(
        "p",
        { class: "note" },
        wrong
          ? `${wrong} of ${one.words.length + one.missing} words wrong or missing; ` +
              "wrong ones are struck through and have a ✗."
          : "Every word is in its place.",
      ),
    );
  }

  return () => {
    later.cancel();
    models.leave();
  };
}

/** The name of a chosen model in the address; the ready ones need no mention. */
function nameInAddress(pick) {
  return pick.value.startsWith("ready:") ? null : pick.value;
}
