// What follows the model at hand: the example texts of a panel, and the button that exports the model as a page.
import { download, get, post, sentence } from "../api.js";
import { button, presets } from "./controls.js";
import { el } from "./dom.js";

const SHORT = 16; // characters of a text on its button
const EVERY = 400; // milliseconds between two looks at an export
const asked = new Map(); // the promises of example texts, by model

const readsWords = (model) => model.tokens === "word";

/**
 * Example texts of a panel: { node, follow(name) }. For models of the generated sentences they are `texts`, as
 * `presets` has them; for any other model they are of its own text, and so is the text in `box`, unless somebody typed
 * or linked another. `follow` before a model is asked; headline and hints change with it. `fits(model)`: the ready
 * models that `texts` are for.
 */
export function examples(context, label, texts, box, take, fits = readsWords) {
  const node = el("div", {});
  let offered = [],
    free = !context.get("text") && !context.get("empty"),
    last = "";
  offer(texts);

  function offer(now) {
    offered = now;
    node.replaceChildren(...(now.length > 1 ? [presets(label, now, take)] : []));
  }

  async function follow(name) {
    last = name;
    const model = context.models.find((one) => one.name === name);
    if (!model) return;
    const isReady = name.startsWith("ready:") && fits(model); // no need to ask
    if (!isReady && !asked.has(name)) asked.set(name, post("/api/examples", { model: name }));
    let own = null;
    try {
      own = isReady ? { generated: true } : await asked.get(name);
    } catch {
      asked.delete(name); // the request of the panel says what is wrong with the model
    }
    if (!own || last !== name) return;
    context.headline(!own.generated);
    const now = own.generated ? texts : own.texts.map((text) => [text, shorten(text)]);
    const isExample = offered.some(([text]) => text === box.value);
    if (now.length && now[0][0] !== offered[0]?.[0]) {
      offer(now);
      if (free || isExample) box.value = now[0][0];
      if (box.placeholder) box.placeholder = now[0][0];
    }
    free = false;
  }
  return { node, follow };
}

function shorten(text) {
  return text.length > SHORT ? `${text.slice(0, SHORT).trimEnd()}…` : text;
}

/** { node, offer(models) }: the models of the panel, one of which is written as a page and saved. */
export function exporter() {
  const choose = el("select", { "aria-label": "Which to export" });
  const press = button("Export as a page", save, { title: "One file with the model in it that needs no network" });
  const status = el("span", { class: "note", role: "status" });
  const refused = el("p", { class: "refused", role: "alert" }); // `.error` is the panel's own
  const node = el("div", { id: "export", hidden: true }, choose, press, status, refused);
  let name = ""; // the model that is being exported

  function offer(models) {
    const before = choose.value;
    choose.replaceChildren(...models.map((model) => el("option", { value: model.name }, model.label)));
    if (models.some((model) => model.name === before)) choose.value = before;
    choose.hidden = models.length < 2;
    node.hidden = !models.length && !name;
    press.disabled = !models.length || Boolean(name);
    if (name || choose.value === before) return;
    show("");
    refused.textContent = "";
  }
  const show = (text) => {
    status.textContent = text;
  };

  async function save() {
    name = choose.value;
    const file = `${name.replace(/^\w+:/, "")}.html`;
    press.disabled = true;
    refused.textContent = "";
    show("starting");
    const timer = setInterval(look, EVERY);
    try {
      await download("/api/export", { model: name }, file);
      show(`${file} is checked and saved`);
    } catch (error) {
      show("");
      refused.textContent = sentence(error);
    } finally {
      clearInterval(timer);
      name = "";
      press.disabled = !choose.value;
    }
  }

  async function look() {
    const now = await get("/api/export/progress").catch(() => null);
    if (!name || !now?.model) return; // done, or not begun
    const share = now.share === null ? "" : `, ${Math.round(100 * now.share)} %`;
    show(now.model === name ? `${now.task}${share}` : `waiting for the export of ${now.model}`);
  }
  return { node, offer };
}
