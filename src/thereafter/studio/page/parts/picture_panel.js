// What the panels over one picture share: which network is asked about which picture, and what is shown of the answer.
import { chosenPicture } from "./chosen.js";
import { el } from "./dom.js";
import { taskChoice, taskModels } from "./tasks.js";

/**
 * Fills the place of a panel; returns what is called when the panel goes. `name`: the class of its parts; `style`: its
 * rules; `body`: what is shown of an answer; `walk`: its player; `failed`: a place for errors; `picture`: the sources,
 * as of `chosenPicture`; `models`: the task and what offers its training, as of `taskModels`; `hint`: how a network of
 * the visitor's joins. `ask(model, asked)` is a promise of the answer, which `draw(answer)` shows.
 */
export function picturePanel(
  place,
  context,
  { name, style, body, walk, failed, picture, models: { task, offer, about }, hint, ask, draw },
) {
  let models = [],
    answered = false;
  const pick = taskChoice("Network", context.get("model"), changeModel);
  const chosen = chosenPicture(place, context, { ...picture, other: "Another picture", failed, changed: request });
  const whole = el(
    "div",
    { class: name, hidden: true },
    el("div", { class: "row", style: "margin-bottom:.7rem" }, ...chosen.controls, pick.node),
    chosen.node,
    failed.node,
    body,
  );
  const making = taskModels(context, { task, offer, about, changed: show });
  const note = el("p", { class: "note", style: "margin-top:1rem" }, hint);
  place.append(el("style", {}, style), making.node, whole, note);

  function show(all) {
    models = all;
    pick.fill(all);
    note.hidden = true;
    whole.hidden = false;
    changeModel();
  }

  function changeModel() {
    chosen.settle(models.find((each) => each.name === pick.value));
    request();
  }

  async function request() {
    if (!pick.value) return;
    walk.stop();
    context.set({ model: pick.value.startsWith("ready:") ? null : pick.value, ...chosen.state() });
    const asked = chosen.asked();
    body.hidden = !asked;
    failed.say("");
    if (!asked) return;
    try {
      const now = await ask(pick.value, asked);
      if (!place.isConnected) return;
      answered = true;
      chosen.count = now.count;
      draw(now);
    } catch (error) {
      body.hidden = !answered || chosen.value === "own";
      failed.say(context.api.sentence(error));
    }
  }

  return () => {
    walk.leave();
    making.leave();
  };
}
