// Units: which units of a recurrent model follow a property of the text, and a text in the colours of one of them.

import { colouredText, legend, summary } from "../parts/coloured.js";
import { choice, field, modelChoice } from "../parts/controls.js";
import { calm, el, errors, show } from "../parts/dom.js";
import { isRecurrent, knownUnit } from "../parts/walk.js";

const FIRST = "ready:letters";
const LONGEST = 20000; // characters of a text that is pasted
const LINKED = 2000; // characters of it that an address holds
const STYLE = `
.units { display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 3fr); gap: 1rem; align-items: start; }
.units .mono { max-height: 32rem; overflow-y: auto; line-height: 1.6; font-size: .9rem; margin: .5rem 0;
  padding: .4rem .6rem; }
.units .mono span { padding: .12em 0; }
.units .head { justify-content: space-between; margin-bottom: .4rem; }
.units .holds { text-decoration: underline 2px; text-underline-offset: .2em; }
.units .here { outline: 2px solid var(--text); outline-offset: 1px; }
.units .scale { display: flex; align-items: center; gap: .5rem; font-size: .85rem; color: var(--soft);
  font-variant-numeric: tabular-nums; }
.units .scale i { flex: 1; max-width: 14rem; height: .8rem; border-radius: .2rem; border: 1px solid var(--line); }
.units .bar { min-height: 2.3rem; }
.units .bar[aria-pressed="true"] { border-color: var(--accent); background: var(--raised); }
.units .control .fill { background: var(--soft); }
.units [data-unit] .track { position: relative; overflow: visible; }
.units .luck { position: absolute; top: -.2rem; bottom: -.2rem; border-left: 2px solid var(--text); }
.units summary { cursor: pointer; padding: .4rem 0; }
@media (max-width: 900px) { .units { grid-template-columns: minmax(0, 1fr); } }`;

export const panel = {
  id: "units",
  title: "Units",
  see: "Some single units follow a property of the text that nobody told the model about.",
  about:
    "Each token has the colour of one unit's state after reading it; " +
    "the ranking says how well units follow the property, and how well chance alone would. " +
    "Choose a property, then click a unit of the ranking, or show the next one, to see it in the text.",
  mount,
};

function mount(place, context) {
  const linked = { model: context.get("model", FIRST), unit: context.get("unit"), property: context.get("property") };
  let own = context.get("text"); // a text of the visitor's; "" is a sample of the model's
  let unit = "";
  let touched = false; // something was chosen by hand; before that the address keeps the model it names
  let known = []; // the properties there are
  let clock = 0;
  const failed = errors();
  const askShown = context.api.latest(),
    askRanked = context.api.latest();
  const model = modelChoice("Model", context, { wanted: linked.model, fits: isRecurrent, changed: arrive });
  place.addEventListener(
    "change",
    () => {
      touched = true;
    },
    { capture: true },
  );
  const property = choice("Property of the text", [], "", () => {
    const card = context.models.find((one) => one.name === model.value);
    unit = knownUnit(card, property.value) ? card.units[property.value] : "";
    if (unit) colour();
    rank();
  });
  const layer = choice("State", [], "", () => pick(`${layer.value}[0]`));
  const number = el("input", { type: "number", min: 0, step: 1, style: "width:7rem" });
  const later = calm(
    () => pick(`${layer.value}[${Math.trunc(Math.min(Number(number.max), Math.max(0, Number(number.value) || 0)))}]`),
    250,
  );
  number.addEventListener("input", later);
  const text = el("textarea", { rows: 4, spellcheck: "false" });
  text.value = own;
  const details = el(
    "details",
    { open: own !== "" },
    el("summary", {}, "Use a text of your own"),
    field("Text to colour", text),
    el(
      "div",
      { class: "row", style: "margin-top:.5rem" },
      el("button", { type: "button", onclick: () => paste(text.value) }, "Colour this text"),
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            text.value = "";
            paste("");
          },
        },
        "Back to the model's text",
      ),
    ),
  );
  const onward = el("button", { type: "button", class: "main", disabled: true, onclick: next }, "Show the next unit");
  const title = el("h3", { id: "unit" }),
    about = el("p", { class: "note", id: "about-text" }),
    scale = el("div", { class: "scale" });
  const readout = el(
    "p",
    { class: "note", id: "readout", role: "status" },
    "Point at a token, or move through the text with the arrow keys, to read its value.",
  );
  const coloured = colouredText(readout);
  const ranking = el(
    "div",
    { id: "ranking" },
    el("p", { class: "note" }, "The first recurrent model is ready in about half a minute."),
  );
  place.append(
    el("style", {}, STYLE),
    el("div", { class: "row" }, model.node, property.node, layer.node, field("Unit", number)),
    failed.node,
    el(
      "div",
      { class: "units" },
      el(
        "section",
        { class: "card" },
        el("div", { class: "row middle head" }, title, onward),
        scale,
        coloured.node,
        readout,
        about,
        details,
      ),
      el("section", { class: "card" }, el("h3", {}, "Units that follow it"), ranking),
    ),
  );

  function keep() {
    if (!touched && model.value !== linked.model) return;
    context.set({
      model: model.value,
      unit: unit || null,
      property: property.value || null,
      text: own.slice(0, LINKED) || null,
    });
  }

  async function arrive(name) {
    const first = name === linked.model && !touched;
    try {
      if (!known.length) known = await context.api.get("/api/units/properties");
    } catch (error) {
      failed.say(context.api.sentence(error));
      return;
    }
    const card = context.models.find((one) => one.name === name);
    const wanted = known.some((one) => one.name === linked.property) ? linked.property : usualProperty(card, known);
    const now = touched && property.value ? property.value : wanted;
    property.select.replaceChildren(
      ...known.map((one) => el("option", { value: one.name, selected: one.name === now }, one.meaning)),
    );
    unit = (first && linked.unit) || (knownUnit(card, now) ? card.units[now] : "");
    if (unit || own) colour(); // the ranking takes seconds
    rank();
  }

  async function rank() {
    wait();
    const asked = property.value;
    try {
      const answer = await askRanked("/api/units/ranked", { model: model.value, property: asked, top: 10 });
      failed.say("");
      answer.ranked.sort((one, other) => (other.held_out ?? -1) - (one.held_out ?? -1)); // by the shown figure
      ranking.replaceChildren(...listRanking(answer));
      onward.disabled = false;
      if (!unit) unit = answer.ranked[0]?.unit ?? "";
    } catch (error) {
      const sentence = context.api.sentence(error);
      if (!sentence) return; // a later question has taken its place
      ranking.replaceChildren(el("p", { class: "note" }, `No ranking: ${sentence}. Try another property.`));
    } finally {
      clearInterval(clock);
    }
    colour();
  }

  function wait() {
    clearInterval(clock);
    onward.disabled = true;
    const begun = performance.now();
    const line = el("p", { class: "note", role: "status" }, "Reading the model's text to rank its units.");
    ranking.replaceChildren(el("progress", { "aria-label": "Ranking units", style: "width:100%" }), line);
    clock = setInterval(
      () =>
        show(line, `Reading the model's text to rank its units: ${Math.round((performance.now() - begun) / 1000)} s.`),
      1000,
    );
  }

  function listRanking(answer) {
    const measure = answer.yes_no ? "AUC" : "correlation";
    const list = el("ol", { class: "bars", "aria-label": `units by ${measure}` });
    for (const one of answer.ranked) {
      const button = el(
        "button",
        { type: "button", class: "bar", "data-unit": one.unit, onclick: () => pick(one.unit) },
        row(`${one.unit} ${one.direction < 0 ? "↓" : "↑"}`, one.held_out, answer.yes_no, answer.control),
      );
      list.append(el("li", {}, button));
    }
    const control = el(
      "div",
      { class: "bar control", "data-control": answer.control ?? "" },
      row("chance", answer.control, answer.yes_no),
    );
    const half = Math.floor(answer.tokens / 2).toLocaleString("en");
    return [
      el(
        "p",
        { class: "note" },
        answer.yes_no
          ? `AUC: how reliably the unit tells where it holds; 0.5 is chance, 1 is perfect.`
          : "Correlation of the unit with it; 0 is none, 1 is perfect.",
      ),
      list,
      control,
      el(
        "p",
        { class: "note" },
        `Chosen on ${half} tokens of ${answer.source}; measured, and sorted, on ${half} others. ` +
          `↑ the unit is high where it ${answer.yes_no ? "holds" : "is high"}, ↓ low. ` +
          "Chance, and the vertical line: what the best unit reaches for the same property, " +
          "moved to other places of the text.",
      ),
    ];
  }

  function pick(now) {
    touched = true;
    unit = now;
    colour();
  }

  /** The unit below the one that is shown, in the order of the ranking. */
  function next() {
    const order = [...ranking.querySelectorAll("[data-unit]")].map((one) => one.dataset.unit);
    pick(order[(order.indexOf(unit) + 1) % order.length]);
  }

  function paste(now) {
    if (now.length > LONGEST) {
      const [length, most] = [now.length, LONGEST].map((count) => count.toLocaleString("en"));
      failed.say(`the text has ${length} characters; expected at most ${most}; try a shorter one`);
      return;
    }
    touched = true;
    own = now;
    colour();
  }

  async function colour() {
    later.cancel();
    keep();
    const asked = { unit, property: property.value };
    try {
      const answer = await askShown("/api/units/shown", {
        model: model.value,
        unit: unit || null,
        text: own || null,
        property: asked.property,
      });
      // another choice since: its own answer follows
      if (unit !== asked.unit || property.value !== asked.property) return;
      failed.say("");
      unit = answer.unit;
      keep();
      draw(answer);
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  function draw(answer) {
    const [name, at] = unit.replace("]", "").split("[");
    layer.select.replaceChildren(
      ...Object.keys(answer.fields).map((one) => el("option", { value: one, selected: one === name }, one)),
    );
    number.max = answer.fields[name] - 1;
    if (document.activeElement !== number) number.value = at;
    for (const button of ranking.querySelectorAll("[data-unit]"))
      button.setAttribute("aria-pressed", button.dataset.unit === unit);
    const yesNo = known.find((one) => one.name === property.value)?.yes_no;
    const meaning = known.find((one) => one.name === property.value)?.meaning ?? "";
    show(title, `Unit ${unit}`);
    scale.replaceChildren(...legend(answer));
    coloured.draw(answer, { yesNo, meaning });
    const length = answer.tokens.length.toLocaleString("en");
    show(
      about,
      `${length} tokens of ${answer.source}${answer.cut ? ", the first ones" : ""}. ${summary(answer, yesNo, meaning)}`,
    );
  }

  return () => {
    later.cancel();
    clearInterval(clock);
  };
}

/** The first property that a unit of the model is known for; else one that most texts of its kind have. */
function usualProperty(model, all) {
  const known = Object.keys(model.units ?? {}).find((name) => all.some((one) => one.name === name));
  if (known) return known;
  if (model.source.startsWith("python-code")) return "quotes-or-comment";
  return ["char", "byte"].includes(model.tokens) ? "boundary" : "line-position";
}

/** What a bar of the ranking shows: its length runs from a guess to perfect; a line marks what luck reaches. */
function row(name, value, yesNo, luck = null) {
  const width = (figure) => `${100 * Math.max(0, yesNo ? 2 * figure - 1 : figure)}%`;
  const fill = el("span", { class: "fill" }),
    line = luck === null ? null : el("span", { class: "luck" });
  fill.style.width = width(value);
  if (line) line.style.left = width(luck);
  return [
    el("span", { class: "word" }, name),
    el("span", { class: "track", "aria-hidden": "true" }, fill, line),
    el("span", { class: "value" }, value == null ? "–" : value.toFixed(2)),
  ];
}
