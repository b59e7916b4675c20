// Elements. Text only ever goes in as text: nothing on this page is parsed as markup.

/**
 * An element with attributes and children; `on...` are listeners, true sets a bare attribute, false and null leave one
 * out.
 */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "value") made.value = value;
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

export function show(place, text) {
  if (place) place.textContent = text;
}

/** A token as a person can see it: white space made visible. */
export function visible(text) {
  if (text === "\n") return "⏎";
  return text.replaceAll("\n", "⏎").replace(/^ | $/g, "␣").replaceAll("\t", "⇥") || "∅";
}

/** A place for the sentence of an error, spoken when it changes: { node, say }. */
export function errors() {
  const node = el("p", { class: "error", role: "alert" });
  return { node, say: (text) => show(node, text) };
}

/**
 * The answers of several models without those that could not answer; `failed` says why each of these could not.
 * `nameOf(model)` is what the page calls a model.
 */
export function answered(answers, failed, nameOf) {
  failed.say(
    answers
      .filter((one) => one.error)
      .map((one) => `${nameOf(one.model)}: ${one.error}`)
      .join("; "),
  );
  return answers.filter((one) => !one.error);
}

/** A colour of the page as it is now, for charts, which cannot read the variables of a style sheet. */
export function pageColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Show these nodes in this order. Those that are there already are not touched, so a click on one is not lost. */
export function arrange(place, nodes) {
  for (const old of [...place.childNodes]) if (!nodes.includes(old)) old.remove();
  nodes.forEach((node, at) => {
    if (place.childNodes[at] !== node) place.insertBefore(node, place.childNodes[at] ?? null);
  });
}

/** Call a function when nothing has come for some milliseconds. */
export function calm(call, wait = 150) {
  let timer = 0;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), wait);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
