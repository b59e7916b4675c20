// Bars of a distribution, and of the units of a layer. Text only ever goes in as text.

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** A token as a person can see it: white space made visible. */
export function visible(text) {
  return text.replaceAll("\n", "⏎").replace(/^ | $/g, "␣").replaceAll("\t", "⇥") || "∅";
}

/** A list of { text, p } as buttons, on a scale whose end is the likeliest. */
export function bars(items, chosen, label = "Likeliest next tokens") {
  const most = Math.max(...items.map((item) => item.p), 1e-9);
  const list = el("ol", { class: "bars", "aria-label": label });
  for (const item of items) {
    const fill = el("span", { class: "fill" });
    fill.style.width = `${(100 * item.p) / most}%`;
    const percent = `${(100 * item.p).toFixed(item.p >= 0.0995 ? 0 : 1)} %`;
    const parts = [
      el("span", { class: "word" }, visible(item.text)),
      el("span", { class: "track", "aria-hidden": "true" }, fill),
      el("span", { class: "value" }, percent),
    ];
    list.append(el("li", {}, el("button", { type: "button", class: "bar", onclick: () => chosen(item) }, ...parts)));
  }
  return list;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The units of a gate or a state as bars about 0, on a scale of 1 or of the largest. */
export function units({ name, kind, values }) {
  let low = Infinity;
  let high = -Infinity;
  let sum = 0;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
    sum += value / values.length;
  }
  const most = Math.max(1, Math.abs(low), Math.abs(high));
  const words = `mean ${sum.toFixed(2)}, from ${low.toFixed(2)} to ${high.toFixed(2)}`;
  const canvas = el("canvas", { class: "units", role: "img", "aria-label": `${name}: ${words}` });
  canvas.width = Math.max(values.length, 256) * 2;
  canvas.height = 110;
  const pen = canvas.getContext("2d");
  const width = canvas.width / values.length;
  const ground = low < 0 ? 55 : 109; // where 0 is drawn
  values.forEach((value, at) => {
    pen.fillStyle = colour(value < 0 ? "--warm" : "--bar-strong");
    const size = (Math.abs(value) / most) * (low < 0 ? 54 : 108);
    pen.fillRect(
      at * width,
      value < 0 ? ground : ground - size,
      Math.max(1, width - (width > 4 ? 1 : 0)),
      Math.max(size, 0.5),
    );
  });
  const title = el("h3", {}, `${name} (${kind}, ${values.length} units)`);
  return el("div", {}, title, canvas, el("p", { class: "note" }, words));
}

/** The contexts of an n-gram: what the model has seen of the end of the text. */
export function contexts(seen, ending) {
  const table = el("table", {}, el("tr", {}, el("th", {}, "Context"), el("th", {}, "Tokens seen after it")));
  seen.forEach(({ followers }, at) => {
    const length = seen.length - at;
    const words = ending.slice(-length).map(visible).join(" ") || "<s>";
    table.append(el("tr", {}, el("td", {}, words), el("td", {}, followers.toLocaleString("en"))));
  });
  if (!seen.length) table.append(el("tr", {}, el("td", {}, "none: it counts single tokens"), el("td", {}, "")));
  return table;
}
