// Generator: a model writes on from a seed text. One watches its state and what it expects, and changes how it samples.
import { examples } from "../parts/at_hand.js";
import { bars } from "../parts/bars.js";
import { field, modelChoice, slider } from "../parts/controls.js";
import { calm, el, errors, show } from "../parts/dom.js";
import { strip } from "../parts/strip.js";

const LONGEST = 20000; // characters of a seed text, and of the text that is kept on the page
// characters without a line end after which another block begins: a browser lays out whole blocks at each change
const LINE = 2000;
const LOOK = 50; // milliseconds between two drawings of state and bars: more often nobody can follow
const ALL = 51; // the right end of top-k: nothing is left out
const STYLE = `
.row.prompt { align-items: start; margin: 0 0 .6rem; } .row.prompt .field + .field { flex: 1 1 18rem; }
.writing { display: grid; grid-template: minmax(16rem, 1fr) auto / minmax(0, 5fr) minmax(17rem, 3fr); gap: 1rem;
  grid-template-areas: "text expected" "state expected"; }
.writing #text { grid-area: text; height: 16rem; min-height: 100%; overflow-y: auto; }
.writing .state { grid-area: state; } .writing .expected { grid-area: expected; }
.writing .bar { grid-template-columns: minmax(0, 6rem) 1fr 3.2rem; }
@media (max-width: 900px) {
  .writing { grid-template: 16rem auto auto / minmax(0, 1fr); grid-template-areas: "text" "state" "expected"; }
}`;
const SEEDS = ["def ", "import ", "class ", "the teacher near the "].map((one) => [one, one.trim()]);

export const panel = {
  id: "generator",
  title: "Generator",
  see: "A low temperature repeats what is likely, a high one invents: watch the bars sharpen and flatten.",
  about:
    "A model continues your seed text, token by token; " +
    "the strip shows its hidden state, the bars what it expects next. " +
    "Press Generate, then change temperature and top‑k while it writes, or pause it to look.",
  mount,
};

function mount(place, context) {
  const failed = errors();
  const seedText = el("textarea", { rows: 2, spellcheck: "false" });
  seedText.value = context.get("text", "def ");
  const lead = examples(context, "Try", SEEDS, seedText, write, () => true);
  const seed = el("input", { type: "number", min: 0, max: 4294967295, step: 1, style: "width:8rem" });
  seed.value = context.get("seed", "1");
  const temperature = slider(
    "Temperature",
    { min: 0, max: 2, step: 0.05, value: context.get("temperature", "0.5"), say: (t) => t.toFixed(2) },
    sendSettings,
  );
  const topK = slider(
    "Top-k",
    { min: 1, max: ALL, step: 1, value: context.get("k", ALL), say: (k) => (k < ALL ? String(k) : "all") },
    sendSettings,
  );
  const speed = slider("Tokens per second", { min: 1, max: 80, step: 1, value: context.get("speed", "60") }, keep);
  const model = modelChoice("Model", context, { wanted: context.get("model", "ready:letters"), changed: follow });
  const generate = el("button", { type: "button", class: "main", disabled: true, onclick: begin }, "Generate");
  const pause = el(
    "button",
    { type: "button", disabled: true, onclick: () => (state === "paused" ? resume() : halt()) },
    "Pause",
  );
  const stop = el("button", { type: "button", disabled: true, onclick: end }, "Stop");
  const status = el("span", { class: "note", role: "status" }, "The first model is ready in a few seconds.");
  const rate = el("span", { class: "note", id: "rate" });
  const text = textLog();
  const strips = el("div", { id: "strips" }, el("p", { class: "note" }, "Nothing has been read yet."));
  const next = el("div", { id: "next" });
  place.append(
    el("style", {}, STYLE),
    el("div", { class: "row prompt" }, model.node, field("Seed text", seedText)),
    lead.node,
    el("div", { class: "row middle" }, generate, pause, stop, status, rate),
    el("div", { class: "row" }, temperature.node, topK.node, speed.node, field("Seed number", seed)),
    failed.node,
    el(
      "div",
      { class: "writing" },
      text.node,
      el("section", { class: "card state" }, el("h3", {}, "Hidden state"), strips),
      el("section", { class: "card expected" }, el("h3", {}, "Expected next"), next),
    ),
  );

  let state = "idle"; // "idle", "running" or "paused"
  let line = null; // the socket
  let waiting = false; // a text was asked for and has not begun
  let queue = []; // pieces that came and are not shown yet
  let owed = 0; // pieces that were asked for and have not come
  let due = 0; // pieces that it is time to show
  let last = null; // the piece on the page
  let looked = 0;
  let before = 0;
  let request = 0;
  let choosing = false;
  let starts = 0;
  let picked = false; // a model was chosen by hand; before that the address keeps the model it names
  const spent = pace();
  const later = calm(look);
  seedText.addEventListener("input", () => {
    if (state === "idle") later();
    else keep();
  });
  seed.addEventListener("change", keep);
  model.select.addEventListener(
    "change",
    () => {
      picked = true;
    },
    { capture: true },
  );

  function keep() {
    context.set({
      model: picked ? model.value : context.get("model", null),
      text: seedText.value.slice(0, 2000),
      temperature: temperature.value,
      k: topK.value < ALL ? topK.value : null,
      seed: seed.value,
      speed: speed.value,
    });
  }

  function sampling() {
    return { temperature: temperature.value, top_k: topK.value < ALL ? topK.value : null };
  }

  function sendSettings() {
    keep();
    if (state !== "idle") tell({ do: "set", ...sampling() });
  }

  function write(now) {
    seedText.value = now;
    look();
  }

  async function follow(name) {
    if (choosing) return;
    const before = starts;
    await lead.follow(name);
    if (starts === before) look(); // else something was begun meanwhile
  }

  /** Show what the model expects after the seed text, without writing on. */
  function look() {
    later.cancel();
    if (!choosing) start(0);
  }

  function begin() {
    later.cancel();
    choosing = true; // to write with a model is to choose it: none that is ready later takes its place
    model.select.dispatchEvent(new Event("change"));
    choosing = false;
    start(ahead());
    if (waiting) enter("running");
  }

  function start(tokens) {
    starts += 1;
    if (!model.value) return;
    keep();
    queue = [];
    spent.reset();
    show(rate, "");
    enter("idle");
    const number = Number(seed.value || NaN);
    if (seedText.value.length > LONGEST) {
      const [length, most] = [seedText.value.length, LONGEST].map((count) => count.toLocaleString("en"));
      failed.say(`the seed text has ${length} characters; expected at most ${most}; try a shorter one`);
      return;
    }
    if (!Number.isInteger(number) || number < 0 || number > 4294967295) {
      failed.say(`the seed number is ${seed.value || "none"}; expected a whole number from 0 on; try 1`);
      return;
    }
    failed.say("");
    waiting = true;
    owed = tokens;
    due = 0;
    tell({ do: "start", model: model.value, prompt: seedText.value, seed: number, tokens, ...sampling() });
  }

  function halt() {
    tell({ do: "pause" });
    enter("paused");
    lookCloser();
    context.announce(`paused after ${text.length} characters`);
  }

  function resume() {
    tell({ do: "resume" });
    enter("running");
  }

  function end() {
    tell({ do: "stop" });
    queue = [];
    enter("idle", "Stopped. Generate starts again from the seed text.");
    lookCloser();
  }

  function enter(now, sentence = { idle: "", running: "Writing", paused: "Paused" }[now]) {
    state = now;
    cancelAnimationFrame(request);
    generate.disabled = !model.value;
    pause.disabled = stop.disabled = now === "idle";
    pause.textContent = now === "paused" ? "Resume" : "Pause";
    show(status, sentence);
    if (now === "running") {
      before = performance.now();
      request = requestAnimationFrame(frame);
    } else show(rate, "");
  }

  /** How many tokens are asked for in advance: few, so that a change of the settings is seen at once. */
  function ahead() {
    return Math.max(1, Math.min(16, Math.ceil(speed.value / 6)));
  }

  function frame(now) {
    due = Math.min(due + ((now - before) / 1000) * speed.value, Math.max(1, speed.value / 10));
    before = now;
    let added = "";
    while (due >= 1 && queue.length && state === "running") {
      due -= 1;
      const piece = queue.shift();
      if (piece.end) {
        enter("idle", piece.end);
        break;
      }
      added += piece.text;
      last = piece;
    }
    text.add(added);
    show(rate, spent.measure(added.length, now));
    if (now - looked >= LOOK || state === "idle") lookCloser(now);
    const room = ahead() - queue.length - owed;
    if (state === "running") {
      if (room >= ahead() / 2) {
        owed += room;
        tell({ do: "more", tokens: room });
      }
      request = requestAnimationFrame(frame);
    }
  }

  function lookCloser(now = performance.now()) {
    if (!last || last.drawn) return;
    last.drawn = true;
    looked = now;
    next.replaceChildren(bars(last.top, { label: "the ten likeliest next tokens" }));
    if (!last.state.length) {
      strips.replaceChildren(
        el(
          "p",
          { class: "note" },
          "This model carries no hidden state from token to token, so there is no strip; the bars still follow.",
        ),
      );
      return;
    }
    const units = strips.querySelector("canvas")?.width; // of the model before
    if (strips.children.length !== last.state.length || units !== last.state[0].length) {
      strips.replaceChildren(
        ...last.state.map((row, layer) => {
          const made = strip(`h of layer ${layer}`, { height: 1.5 });
          const legend = `layer ${layer}: ${row.length} units, blue below 0, orange above`;
          const part = el("figure", { style: "margin:0" }, made.node, el("figcaption", { class: "note" }, legend));
          return Object.assign(part, { draw: made.draw });
        }),
      );
    }
    for (const [layer, row] of last.state.entries()) strips.children[layer].draw([row]);
  }

  function receive(message) {
    if (message.error) {
      failed.say(message.error);
      waiting = false;
      queue = [];
      enter("idle");
    } else if (message.number === 0) {
      waiting = false;
      last = message;
      text.begin(seedText.value);
      lookCloser();
    } else if (!waiting && state !== "idle") {
      owed -= message.end ? 0 : 1;
      queue.push(message);
    }
  }

  function tell(message) {
    if (!line || line.readyState > WebSocket.OPEN) {
      line = context.api.socket("/api/generating");
      line.onmessage = (event) => receive(JSON.parse(event.data));
      line.onclose = reportClosed;
    }
    const mine = line;
    if (mine.readyState === WebSocket.OPEN) mine.send(JSON.stringify(message));
    else mine.addEventListener("open", () => mine.send(JSON.stringify(message)), { once: true });
  }

  function reportClosed(event) {
    if (event.target !== line || (state === "idle" && !waiting)) return;
    waiting = false;
    enter("idle");
    failed.say("the studio no longer answers this text; try: Generate again");
  }

  return () => {
    later.cancel();
    cancelAnimationFrame(request);
    const mine = line;
    line = null;
    mine?.close();
  };
}

/** The text so far, a block a line, of which the last characters are kept: { node, begin, add, length }. */
function textLog() {
  const node = el("div", {
    class: "card mono",
    id: "text",
    role: "log",
    "aria-live": "off",
    "aria-label": "The text so far",
    tabindex: "0",
  });
  let kept = 0;
  const api = {
    node,
    length: 0,
    begin(prompt) {
      node.replaceChildren();
      kept = 0;
      append(prompt, "color:var(--soft)");
      api.length = 0;
    },
    add(added) {
      if (!added) return;
      const follows = node.scrollTop + node.clientHeight >= node.scrollHeight - 60;
      append(added, "");
      api.length += added.length;
      while (kept > LONGEST && node.children.length > 1) {
        kept -= node.firstChild.textContent.length;
        node.firstChild.remove();
      }
      if (follows) node.scrollTop = node.scrollHeight;
    },
  };

  function append(added, look) {
    kept += added.length;
    for (const part of added.match(/[^\n]*\n|[^\n]+/g) ?? []) {
      const open = node.lastChild;
      const full = !open || open.textContent.endsWith("\n") || open.textContent.length > LINE;
      const block = full ? node.appendChild(el("div", {})) : open;
      const span = block.lastChild;
      if (span?.getAttribute("style") === look) span.firstChild.appendData(part);
      else block.append(el("span", { style: look }, part));
    }
  }

  return api;
}

/** Characters a second over the last two seconds. */
function pace() {
  let seen = [];
  return {
    reset() {
      seen = [];
    },
    measure(count, now) {
      seen.push([now, count]);
      while (seen.length > 2 && now - seen[0][0] > 2000) seen.shift();
      const seconds = (now - seen[0][0]) / 1000;
      const shown = seen.slice(1).reduce((sum, [, one]) => sum + one, 0);
      return seconds > 0.4 ? `${Math.round(shown / seconds)} characters per second` : "";
    },
  };
}
