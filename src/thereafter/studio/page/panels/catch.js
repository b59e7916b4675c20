// Catch: a game step by step, what the network saw of it and what it chose by; and the same game played by hand.
import { BELIEF_STYLE, beliefCard } from "../parts/beliefs.js";
import { button, slider } from "../parts/controls.js";
import { el, errors } from "../parts/dom.js";
import { another, percent } from "../parts/numbers.js";
import { shown, unpack } from "../parts/pixels.js";
import { BEFORE, LOOK, mark, outline } from "../parts/squares.js";
import { taskChoice, taskModels } from "../parts/tasks.js";
import { player, wholeNumber } from "../parts/walk.js";

export const panel = {
  id: "catch",
  title: "Catch",
  see: "The network sees the squares and nothing else: watch it look for the ball and steer the paddle under it.",
  about:
    "A ball falls and bounces off the walls; the network moves the paddle, and learned it from winning and losing. " +
    "Press Next step, or the right arrow key; ask for another game, or play it yourself with the keys A, S and D.",
  mount,
};

const SIDE = 560,
  PATCH = 144; // pixels of the canvases, twice what is seen
const FIRST = 4;
const MOST = 1000; // games that can be picked
const KEYS = { a: 0, s: 1, d: 2 };
const HAND = "#56B4E9",
  TRAIL = "#5a5a5a";
const ABOUT = "A small network is trained to play catch; it is kept for next time.";
const HINT = "A player of your own appears here once it is trained: thereafter train catch --task act --out runs/catch";
const STYLE = `${BELIEF_STYLE}
.catch canvas { image-rendering: pixelated; }
.catch .three { display: grid; grid-template-columns: 17.5rem minmax(0, 1fr) 13rem; gap: 1rem; align-items: start; }
.catch .screen { width: 100%; height: auto; border-radius: .4rem; display: block; border: 1px solid var(--line); }
.catch .patches { display: flex; flex-direction: column; gap: .5rem; margin: 0; padding: 0; list-style: none; }
.catch .patches li { display: flex; gap: .6rem; align-items: center; }
.catch .patches canvas { width: 4.5rem; height: 4.5rem; border-radius: .2rem; border: 1px solid var(--line); }
.catch .legend { margin: .5rem 0 0; padding: 0; list-style: none; font-size: .9rem; color: var(--soft); }
.catch .legend li { display: flex; gap: .5rem; align-items: center; }
.catch .legend i { flex: none; width: 1rem; height: 1rem; box-sizing: border-box; background: #000;
  outline: 1px solid var(--line); }
@media (max-width: 1050px) { .catch .three { grid-template-columns: minmax(0, 1fr); }
  .catch .screen { max-width: 20rem; } .catch .patches { flex-direction: row; flex-wrap: wrap; } }`;

/** A line of the legend. */
function key(look, text) {
  const swatch = el("i", { "aria-hidden": "true" });
  Object.assign(swatch.style, look);
  return el("li", {}, swatch, el("span", {}, text));
}

function mount(place, context) {
  let answer = null,
    hand = null; // the paddle of who plays by hand, at every step so far; null where the network plays
  let number = Math.min(MOST - 1, Math.max(0, wholeNumber(context.get("number"), FIRST)));
  const ask = context.api.latest();
  const failed = errors();
  const pick = taskChoice("Network", context.get("model"), request);
  const dice = button("Another game", () => start(another(number, MOST - 1)), {
    class: "main",
  });
  const own = button("Play it yourself", () => (hand ? leaveHand() : takeOver()), { "aria-pressed": "false" });
  const walk = player(showStep, { first: 0, wait: 300, unit: "step", whole: "game" });
  const step = slider("Step", { min: 0, max: 1, step: 1, value: 0, say: stepName }, (at) => walk.go(at));
  walk.node.append(step.node);
  const moves = el(
    "div",
    { class: "row", hidden: true, role: "group", "aria-label": "Move the paddle", style: "margin-bottom:.5rem" },
    ...["Left (A)", "Stay (S)", "Right (D)"].map((text, action) => button(text, () => move(action))),
    button("Start again", takeOver),
  );
  const screen = el("canvas", { class: "screen", role: "img", "aria-label": "The screen", width: SIDE, height: SIDE });
  const status = el("p", { role: "status", id: "catch-status", style: "margin:0 0 .6rem" });
  const policy = beliefCard("step");
  const ball = key({ background: "#fff" }, "the ball"),
    trail = key({ background: TRAIL }, "where the ball has been");
  const keys = [
    key({ background: "#fff" }, "the ball; below, the paddle"),
    trail,
    key({ border: `3px solid ${LOOK}` }, "what the network sees sharply, + its middle"),
    key({ border: `2px solid ${BEFORE}` }, "what it sees coarsely around that"),
  ];
  const handKeys = [ball, trail, key({ background: HAND }, "your paddle")];
  const legend = el("ul", { class: "legend", "aria-label": "What the colours mean" }, ...keys);
  const sharp = el("ul", { class: "patches", "aria-label": "What this glimpse saw" });
  const parts = el("section", { class: "card" }, el("h3", {}, "What it saw"), sharp);
  const body = el(
    "div",
    {},
    walk.node,
    moves,
    status,
    el("div", { class: "three", id: "picture" }, el("div", {}, screen, legend), policy.node, parts),
  );
  const whole = el(
    "div",
    { class: "catch", hidden: true },
    el("div", { class: "row", style: "margin-bottom:.7rem" }, dice, own, pick.node),
    failed.node,
    body,
  );
  const making = taskModels(context, {
    task: "act",
    offer: "Train the network (about five minutes)",
    about: ABOUT,
    changed: offer,
  });
  const hint = el("p", { class: "note", style: "margin-top:1rem" }, HINT);
  place.append(el("style", {}, STYLE), making.node, whole, hint);
  document.addEventListener("keydown", pressKey);

  function offer(all) {
    pick.fill(all);
    hint.hidden = true;
    whole.hidden = false;
    request();
  }

  function start(next) {
    number = next;
    context.set({ step: null });
    request();
  }

  async function request() {
    if (!pick.value) return;
    walk.stop();
    context.set({ model: pick.value.startsWith("ready:") ? null : pick.value, number });
    failed.say("");
    try {
      const now = await ask("/api/tasks/act", { model: pick.value, number });
      if (!place.isConnected) return;
      answer = now;
      if (hand) return takeOver();
      const last = answer.steps.length;
      walk.set(wholeNumber(context.get("step"), 0), last);
      step.input.max = last;
      showStep(walk.at);
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  /** Steps are counted from 1; after the last comes the end. */
  function stepName(at) {
    const last = answer?.steps.length ?? 0;
    return at < last ? `${at + 1} of ${last}` : "the end";
  }

  /** The column of the ball at a step; the last one is the end. */
  const ballAt = (at) => answer.steps[at]?.ball ?? answer.ball;
  const paddleAt = (at) => answer.steps[at]?.paddle ?? answer.paddle;

  /** The screen: where the ball was and is, the paddle, and the squares that the network sees. */
  function paintScreen(at, paddle, seen) {
    const { size } = answer;
    const ink = screen.getContext("2d");
    const unit = Math.max(1, Math.round(SIDE / size)); // whole, so that pixels have no seams
    screen.width = screen.height = size * unit;
    ink.fillStyle = "#000";
    ink.fillRect(0, 0, screen.width, screen.height);
    const dot = (column, row, colour) => {
      ink.fillStyle = colour;
      ink.fillRect(column * unit, row * unit, unit, unit);
    };
    for (let row = 0; row < at; row += 1) dot(ballAt(row), row, TRAIL);
    for (let part = 0; part < answer.wide; part += 1) dot(paddle + part, size - 1, hand ? HAND : "#fff");
    dot(ballAt(at), at, "#fff");
    const picture = { width: size };
    for (const [k, { left, top, side }] of (seen?.squares ?? []).entries()) {
      outline(screen, picture, { left, top, wide: side, high: side }, { colour: k ? BEFORE : LOOK, width: k ? 1 : 3 });
    }
    if (seen) mark(screen, picture, [seen.column, seen.row], "+", LOOK);
  }

  function ended(paddle) {
    return paddle <= answer.ball && answer.ball < paddle + answer.wide ? "caught" : "missed";
  }

  function showStep(at) {
    if (!answer || hand) return;
    const last = answer.steps.length;
    context.set({ step: at || null });
    step.set(at);
    const now = answer.steps[Math.min(at, last - 1)];
    paintScreen(at, paddleAt(at), at < last ? now : null);
    const p = percent(Number(now.chances[now.action].toFixed(3)));
    status.textContent =
      at < last
        ? `Step ${at + 1} of ${last} of ${answer.name}: it looked at column ${now.column.toFixed(0)}, ` +
          `row ${now.row.toFixed(0)}, and chose ${answer.actions[now.action]}, ${p}.`
        : `${answer.name} is over: the ball was ${answer.caught ? "caught" : "missed"}.`;
    screen.setAttribute("aria-label", `The screen. ${status.textContent}`);
    const chosen = {
      column: "action",
      labels: answer.actions,
      turns: null,
      belief: answer.steps.map((one) => one.chances),
      true: null,
    };
    const counted = Math.min(at + 1, last);
    policy.draw(chosen, counted);
    policy.lines(chosen, counted).catch((error) => failed.say(context.api.sentence(error)));
    sharp.replaceChildren(
      ...unpack(now.patches).map((one, k) =>
        el(
          "li",
          {},
          shown(one, PATCH),
          el("span", { class: "note" }, `${now.squares[k].side} x ${now.squares[k].side} pixels`),
        ),
      ),
    );
    context.announce(status.textContent);
  }

  function takeOver() {
    if (!answer) return;
    walk.stop();
    hand = [paddleAt(0)];
    arrange();
    showHand();
  }

  function leaveHand() {
    hand = null;
    arrange();
    showStep(walk.at);
  }

  function arrange() {
    own.textContent = hand ? "Let the network play" : "Play it yourself";
    own.setAttribute("aria-pressed", String(Boolean(hand)));
    walk.node.hidden = Boolean(hand);
    moves.hidden = !hand;
    legend.replaceChildren(...(hand ? handKeys : keys));
    policy.node.style.visibility = parts.style.visibility = hand ? "hidden" : "visible";
  }

  function move(action) {
    const last = answer.steps.length;
    if (!hand || hand.length > last) return;
    const now = hand[hand.length - 1] + action - 1;
    hand.push(Math.max(0, Math.min(answer.size - answer.wide, now)));
    showHand();
  }

  function showHand() {
    const at = hand.length - 1,
      last = answer.steps.length;
    paintScreen(at, hand[at], null);
    status.textContent =
      at < last
        ? `Step ${at + 1} of ${last}: move the paddle with A, S and D.`
        : `You ${ended(hand[at])} the ball; the network ${answer.caught ? "caught" : "missed"} it.`;
    screen.setAttribute("aria-label", `The screen. ${status.textContent}`);
    context.announce(status.textContent);
  }

  function pressKey(event) {
    const action = KEYS[event.key.toLowerCase()];
    if (!hand || action === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.closest?.("input, textarea, select")) return;
    event.preventDefault();
    move(action);
  }

  return () => {
    document.removeEventListener("keydown", pressKey);
    walk.leave();
    making.leave();
  };
}
