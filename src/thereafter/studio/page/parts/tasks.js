// Task models: the list of them, a choice among them, and the training of the ready ones where they are not there yet.
import { asker } from "./asking.js";
import { field } from "./controls.js";
import { el, errors } from "./dom.js";

/** The most characters that can be typed. */
export const MOST_TYPED = 400;
const EVERY = 400; // milliseconds between two looks at a training

/**
 * The models of a task. `changed(models)` is called when there are some, and whenever they change; until then `node`
 * offers to train the ready ones: `offer` is what the button says. `leave` when the panel goes.
 */
export function taskModels(context, { task, offer, about, changed }) {
  let known = null;
  const failed = errors();
  const bar = el("progress", { max: 1, value: 0, "aria-label": "Training" });
  const status = el("span", { class: "note", role: "status" });
  const line = el("div", { hidden: true }, el("div", { class: "row middle" }, bar, status));
  const start = el("button", { type: "button", class: "main", hidden: true, onclick: begin }, offer);
  const note = el("p", { class: "note" }, "The studio is still loading.");
  const node = el("div", { class: "making" }, failed.node, note, el("div", { class: "row" }, start), line);

  const ask = asker(context, failed, show);

  async function begin() {
    start.disabled = true;
    await ask.tell(context.api.post("/api/tasks/train", { task }));
    start.disabled = false;
  }

  function look() {
    if (!ask.asking && known === null) ask.tell(context.api.get("/api/tasks"));
  }

  function show({ models, making, missing }) {
    const mine = models.filter((model) => model.task === task);
    const busy = making.task === task;
    const absent = missing.includes(task);
    failed.say(absent ? making.error : "");
    note.textContent = absent && !mine.length ? about : "";
    start.hidden = !absent || busy;
    start.classList.toggle("main", !mine.length);
    line.hidden = !busy;
    node.hidden = !absent && !busy;
    bar.value = making.share;
    const share = making.share ? `${Math.round(100 * making.share)} %` : "starting";
    status.textContent = `training ${making.model}, ${share}`;
    const names = mine.map((model) => model.name).join();
    if (mine.length && !busy && names !== known) {
      // while models are trained the list is not complete
      known = names;
      changed(mine);
    }
    if (making.task) ask.later("/api/tasks", EVERY);
  }

  context.watch(look);
  look();
  return { node, leave: ask.leave };
}

/** A labelled choice among task models: { node, fill(models), value }. */
export function taskChoice(label, wanted, changed) {
  const select = el("select", {
    onchange: () => {
      wanted = select.value;
      changed(select.value);
    },
  });
  const fill = (models) => {
    select.replaceChildren(...models.map((model) => el("option", { value: model.name }, describe(model))));
    select.value = models.some((model) => model.name === wanted) ? wanted : (models[0]?.name ?? "");
  };
  return {
    node: field(label, select),
    fill,
    select,
    get value() {
      return select.value;
    },
  };
}

function describe(model) {
  const source = model.name.startsWith("ready:") ? "ready" : model.source;
  return `${model.label} (${source}${model.hidden ? `, ${model.hidden} units` : ""})`;
}

/** Examples that a run held out can be asked for where there is a run; one that learned from others than the made ones,
 *  whose names begin with `made`, opens on them unless something else was asked for. */
export function chooseHeldOut(select, model, made, asked) {
  const ready = model.name.startsWith("ready:");
  select.querySelector("[value=held-out]").disabled = ready;
  if (ready && select.value === "held-out") select.value = "made";
  if (!ready && !asked && !model.source.startsWith(made)) select.value = "held-out";
}
