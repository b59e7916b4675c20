// The page: tabs, the panel that is shown, the line of progress, light and dark.
import * as api from "./api.js";
import { PANELS } from "./panels/index.js";
import { exporter } from "./parts/at_hand.js";
import { el, show } from "./parts/dom.js";
import { isOwnState, readState, takeState, writeState } from "./state.js";

const root = document.getElementById("panel");
const tabs = document.getElementById("tabs");
const status = document.getElementById("status");
const pages = exporter();
document.getElementById("theme").before(pages.node);
let shown = null; // { panel, see, about, uses, leave } of what is on the page
let models = [];
let jobs = [];
let lost = false; // whether the studio has stopped answering
const watchers = new Set(); // panels that want to know when models or trainings change

for (const panel of PANELS) tabs.append(el("a", { href: `#${panel.id}`, "data-panel": panel.id }, panel.title));

function context(turn) {
  return {
    api,
    /** The models there are: { name, label, kind, tokens, source, layers, hidden, units }. */
    get models() {
      return models;
    },
    get jobs() {
      return jobs;
    },
    /** The value the address gives for a name, else the fallback. */
    get: (name, fallback = "") => readState().values.get(name) ?? fallback,
    /** Put a value into the address, so that a link shows the same again; not once another panel is shown. */
    set: (values) => {
      if (shown === turn) writeState(turn.panel.id, values);
    },
    /** Note the models that a control of the panel has chosen: they can be exported. */
    use: (control, names) => {
      turn.uses.set(control, names);
      const all = [...new Set([...turn.uses.values()].flat())];
      if (shown === turn) pages.offer(all.map((name) => models.find((model) => model.name === name)).filter(Boolean));
    },
    /** Headline and hints: `own` for a model that did not learn the generated sentences. */
    headline: (own) => {
      const { see, about } = { ...turn.panel, ...(own ? turn.panel.own : {}) };
      show(turn.see, see);
      show(turn.about, about);
    },
    /** Call back whenever models or trainings have changed; ends with the panel. */
    watch: (call) => watchers.add(call),
    /** Say something to screen readers. */
    announce: (text) => show(document.getElementById("announced"), text),
  };
}

async function open() {
  takeState();
  const wanted = readState().panel;
  const panel = PANELS.find((one) => one.id === wanted) ?? PANELS[0];
  const before = shown;
  const turn = { panel, uses: new Map(), see: el("p", { class: "see" }), about: el("p", { class: "about" }) };
  shown = turn; // before the old panel leaves: what it sets then is not for this address
  if (before?.leave) before.leave();
  watchers.clear();
  pages.offer([]);
  for (const tab of tabs.children) {
    if (tab.dataset.panel === panel.id) {
      tab.setAttribute("aria-current", "page");
      // on a narrow screen not all tabs fit
      tabs.scrollLeft = tab.offsetLeft + tab.offsetWidth / 2 - tabs.clientWidth / 2;
    } else tab.removeAttribute("aria-current");
  }
  document.title = `${panel.title} · thereafter studio`;
  const place = el("div", { class: "place", "data-panel": panel.id });
  root.replaceChildren(
    el("div", { class: "top" }, el("h2", {}, panel.title), turn.see),
    turn.about,
    place,
    el("p", { id: "announced", class: "hidden", "aria-live": "polite" }),
  );
  try {
    const its = context(turn);
    its.headline(false);
    turn.leave = await panel.mount(place, its);
    if (shown !== turn && turn.leave) turn.leave(); // another panel was opened meanwhile
  } catch (error) {
    place.replaceChildren(el("p", { class: "error", role: "alert" }, api.sentence(error)));
  }
}

async function hear(snapshot) {
  sayStage(snapshot.stage);
  jobs = snapshot.jobs;
  const names = models.map((model) => model.name).join();
  try {
    if (snapshot.stage.loaded && snapshot.models.join() !== names) models = await api.get("/api/models");
  } catch (error) {
    status.textContent = api.sentence(error);
  }
  const isBack = lost && snapshot.stage.loaded;
  if (isBack) lost = false;
  // requests that failed meanwhile are made again
  if (isBack && root.querySelector(".error:not(:empty)")) open();
  else for (const call of watchers) call();
}

function sayStage(stage) {
  if (!stage.making) status.textContent = stage.note || (stage.loaded ? "" : "loading");
  else {
    const bar = el("progress", { max: 1, value: stage.share, "aria-label": "Training the ready models" });
    status.replaceChildren(bar, `training the ready model ${stage.making} (${stage.note})`);
  }
}

const saved = localStorage.getItem("theme");
const dark = saved ? saved === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = dark ? "dark" : "light";
document.getElementById("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = now;
  localStorage.setItem("theme", now);
  open(); // charts take their colours when they are drawn
});
addEventListener("hashchange", () => {
  if (!isOwnState()) open();
});
api.listen("/api/events", hear, (text) => {
  lost = true;
  status.textContent = text;
});
open();
