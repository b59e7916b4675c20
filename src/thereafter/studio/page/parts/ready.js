// The built-in models: what each learned from and reaches, and a button that trains it anew on this machine.
import { asker } from "./asking.js";
import { el, errors } from "./dom.js";

const EVERY = 700; // milliseconds between two looks at a training

/** { node, leave }: a table of them, filled as soon as the studio has loaded. */
export function readyModels(context) {
  let made = "";
  const failed = errors();
  const bar = el("progress", { max: 1, value: 0, "aria-label": "Retraining" });
  const status = el("span", { class: "note", role: "status" });
  const line = el("div", { class: "row middle", hidden: true }, bar, status);
  const body = el("tbody");
  const head = el(
    "tr",
    {},
    ...["model", "learned from", "as shipped, on unseen data", ""].map((name) => el("th", { scope: "col" }, name)),
  );
  const node = el(
    "section",
    { class: "card", id: "ready-models", hidden: true },
    el("h3", {}, "The built-in models"),
    el(
      "p",
      { class: "note" },
      "They came with the package; the n-gram model is counted at the first start. " +
        "A model that is retrained by the same recipe replaces the one that is there.",
    ),
    line,
    failed.node,
    el(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": "The built-in models" },
      el("table", {}, el("thead", {}, head), body),
    ),
  );

  const ask = asker(context, failed, show);

  async function tell(request) {
    // after an error it is asked again, later
    if (!(await ask.tell(request)) && made) ask.later("/api/ready", 5 * EVERY);
  }

  function show({ models, making }) {
    const busy = making.task === "anew";
    node.hidden = false;
    failed.say(making.error);
    line.hidden = !busy;
    bar.value = making.share;
    status.textContent = busy ? `training ${making.model}: ${making.status}` : "";
    if (made && !busy && !making.error) context.announce(`the model ${made} has been retrained`);
    made = busy ? making.model : "";
    if (body.childElementCount !== models.length) body.replaceChildren(...models.map(row));
    for (const button of body.querySelectorAll("button")) button.disabled = making.task !== "";
    if (making.task) ask.later("/api/ready", EVERY);
  }

  function row(model) {
    const begin = () => tell(context.api.post("/api/ready/anew", { name: model.name }));
    const button = el(
      "button",
      { type: "button", onclick: begin, "aria-label": `Retrain ${model.name}` },
      `Retrain (${time(model.minutes)})`,
    );
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, model.name),
      el("td", {}, model.learns),
      el("td", {}, model.score),
      el("td", {}, button),
    );
  }

  function look() {
    if (!ask.asking && !body.childElementCount) tell(context.api.get("/api/ready"));
  }

  context.watch(look);
  look();
  return { node, leave: ask.leave };
}

/** About how long a training takes on one core. */
function time(minutes) {
  return minutes < 1 ? `about ${Math.max(5, Math.round(minutes * 12) * 5)} s` : `about ${Math.round(minutes)} min`;
}
