// A text to type, the models of a task to choose from, and an answer to every change of either.
import { field } from "./controls.js";
import { calm, el, errors } from "./dom.js";
import { MOST_TYPED, taskChoice, taskModels } from "./tasks.js";

/**
 * Below the controls stand the nodes `shown`, which `draw(answer, ready)` fills; `ready` is true for the built-in
 * model. `texts` are examples. `words` are the texts of the controls: `label` of the text, `model`, `another` (text),
 * `empty` (nothing was typed), `offer` and `about` of the training. Returns { write(text), leave() }.
 */
export function answers(place, context, { task, texts, words, shown, draw }) {
  const ask = context.api.latest();
  const failed = errors();
  const text = el("textarea", { rows: 2, maxlength: MOST_TYPED, spellcheck: "false" });
  text.value = context.get("text", texts[0]);
  const pick = taskChoice(words.model, context.get("model"), () => request());
  const another = el(
    "button",
    { type: "button", class: "main", onclick: () => write(texts[(texts.indexOf(text.value) + 1) % texts.length]) },
    words.another,
  );
  const body = el(
    "div",
    { hidden: true },
    field(words.label, text),
    el("div", { class: "row", style: "margin-top:.6rem" }, another, pick.node),
    failed.node,
    ...shown,
  );
  const models = taskModels(context, { task, offer: words.offer, about: words.about, changed: offer });
  place.append(models.node, body);
  const later = calm(request);
  text.addEventListener("input", later);

  function offer(all) {
    pick.fill(all);
    body.hidden = false;
    request();
  }

  function write(now) {
    text.value = now;
    request();
  }

  async function request() {
    later.cancel();
    if (!text.value.trim()) {
      failed.say(words.empty);
      return;
    }
    const ready = pick.value.startsWith("ready:");
    context.set({ text: text.value, model: ready ? null : pick.value });
    try {
      const answer = await ask(`/api/tasks/${task}`, { model: pick.value, text: text.value });
      if (!place.isConnected) return;
      failed.say("");
      draw(answer, ready);
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  return {
    write,
    leave: () => {
      later.cancel();
      models.leave();
    },
  };
}
