// Labelled controls: every one has a name that is seen and that a screen reader says.
import { el } from "./dom.js";

/** A labelled control; `control` is any input. */
export function field(label, control) {
  return el("label", { class: "field" }, label, control);
}

/** A button; `attributes` are those it has besides. */
export function button(text, press, attributes = {}) {
  return el("button", { type: "button", onclick: press, ...attributes }, text);
}

/** A labelled choice: options are [value, text]. */
export function choice(label, options, value, changed) {
  const select = el("select", { onchange: () => changed(select.value) });
  for (const [key, text] of options) select.append(el("option", { value: key, selected: key === value }, text));
  return {
    node: field(label, select),
    get value() {
      return select.value;
    },
    select,
  };
}

/** A labelled slider that says its value; `moved` is called while it moves. */
export function slider(label, { min, max, step, value, say = String }, moved) {
  const output = el("output", {}, say(Number(value)));
  const input = el("input", { type: "range", min, max, step, "aria-label": label });
  input.value = value;
  input.addEventListener("input", () => {
    output.textContent = say(Number(input.value));
    moved(Number(input.value));
  });
  const node = el("label", { class: "field" }, el("span", {}, `${label}: `, output), input);
  const set = (now) => {
    input.value = now;
    output.textContent = say(Number(now));
  };
  return {
    node,
    input,
    set,
    get value() {
      return Number(input.value);
    },
  };
}

/**
 * A labelled choice of a model that grows as models become ready. `fits(model)` says which are offered.
 * The wanted one is chosen as soon as it is there; until then `value` is "" and `changed` is not called.
 */
export function modelChoice(label, context, { fits = () => true, wanted = "", changed }) {
  const select = el("select", {
    onchange: () => {
      wanted = select.value;
      take(select.value);
    },
  });
  const take = (now) => {
    context.use(label, [now]);
    changed(now);
  };
  let known = "";
  const fill = () => {
    const fitting = context.models.filter(fits);
    const names = fitting.map((model) => model.name).join();
    if (names === known) return;
    known = names;
    const before = select.value;
    select.replaceChildren(...fitting.map((model) => el("option", { value: model.name }, describe(model))));
    const now = [wanted, before].find((name) => fitting.some((model) => model.name === name)) ?? fitting[0]?.name ?? "";
    select.value = now;
    if (now && now !== before) take(now);
  };
  context.watch(fill);
  queueMicrotask(fill); // after the panel has put itself together
  return {
    node: field(label, select),
    select,
    get value() {
      return select.value;
    },
  };
}

/** What a list says of a model: "lstm (sentences)", "book-lstm: lstm, char". */
export function describe(model) {
  const about = model.name.startsWith("ready:")
    ? model.tokens === "char"
      ? "characters of Python code"
      : "ready"
    : model.kind;
  return `${model.label} (${about}${model.hidden ? `, ${model.hidden} units` : ""})`;
}

/** A box to tick for a model; `changed(ticked)` is called when it is. */
export function modelBox(model, ticked, changed, style = null) {
  const box = el("input", { type: "checkbox", value: model.name, onchange: () => changed(box.checked) });
  box.checked = ticked;
  return el("label", { style }, box, ` ${describe(model)}`);
}

/** Buttons that put a ready-made text into a panel: presets are texts, or [text, name] pairs. */
export function presets(label, texts, chosen) {
  const buttons = texts.map((one) => (Array.isArray(one) ? one : [one, one]));
  return el(
    "div",
    { class: "row middle", role: "group", "aria-label": label },
    el("span", { class: "note" }, `${label}:`),
    buttons.map(([text, name]) => button(name, () => chosen(text))),
  );
}

/**
 * Sentences that every word model of the studio knows, with names: between subject and verb stand nouns of the other
 * number.
 */
export const SENTENCES = [
  ["the teachers near the farmer are old .", "teachers … are"],
  ["the teacher near the farmers is old .", "teacher … is"],
  ["the cats behind the doctor near the farmer were happy .", "two nouns between"],
];
