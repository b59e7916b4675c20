// The list of trainings: a card each, with its progress, its live curve, and what can be done with it.
import { chart } from "./chart.js";
import { button } from "./controls.js";
import { el, pageColour, show } from "./dom.js";

const EVERY = 1000; // milliseconds between two looks at a curve that grows
const STATES = {
  running: "training",
  elsewhere: "running elsewhere",
  pausing: "saving its state, then it pauses",
  paused: "paused",
  stopping: "saving what it has, then it stops",
  stopped: "stopped",
  finished: "finished",
  failed: "failed",
};
const ACTIVE = ["running", "pausing", "stopping"]; // of this studio
const GROWING = [...ACTIVE, "elsewhere"];

/** Losses of a training, while it learns and on the validation text. */
export async function curveChart(element, curve) {
  const [cool, warm] = ["--accent", "--warm"].map(pageColour);
  const traces = [
    { name: "training", x: curve.step, y: curve.loss, mode: "lines", line: { color: cool, width: 1.5 } },
    {
      name: "validation",
      x: curve.valid_step,
      y: curve.valid_loss,
      mode: "lines+markers",
      line: { color: warm, width: 2 },
      marker: { size: 7, symbol: "diamond" },
    },
  ];
  await chart(element, traces, { x: "step", y: "loss (nats per token)", height: 320 });
  const [loss, valid] = [curve.loss.at(-1), curve.valid_loss.at(-1)].map(
    (value) => value?.toFixed(3) ?? "not known yet",
  );
  element.setAttribute(
    "aria-label",
    `loss by step, up to step ${curve.step.at(-1) ?? 0}: training ${loss}, validation ${valid}`,
  );
}

/** { node, update(jobs), reveal(job), leave() }: `reveal` shows a training that has just begun. */
export function trainings(context, failed) {
  const node = el("div", { id: "trainings", style: "display:flex;flex-direction:column;gap:1rem" });
  const none = el("p", { class: "note" }, "No training runs yet. Start one above to watch it learn here.");
  const cards = new Map();
  const timer = setInterval(() => {
    for (const card of cards.values()) card.look();
  }, EVERY);

  function update(jobs) {
    for (const name of [...cards.keys()]) {
      if (jobs.some((job) => job.name === name)) continue;
      cards.get(name).node.remove();
      cards.delete(name);
    }
    const ordered = [
      ...jobs.filter((job) => job.state !== "paused").reverse(),
      ...jobs.filter((job) => job.state === "paused").reverse(),
    ];
    ordered.sort((a, b) => GROWING.includes(b.state) - GROWING.includes(a.state));
    ordered.forEach((job, at) => {
      if (!cards.has(job.name))
        cards.set(job.name, card(context, job, at === 0 || GROWING.includes(job.state), failed));
      const one = cards.get(job.name);
      one.update(job);
      if (node.children[at] !== one.node) node.insertBefore(one.node, node.children[at] ?? null);
    });
    if (jobs.length) none.remove();
    else node.append(none);
  }

  function reveal(job) {
    update([...context.jobs.filter((one) => one.name !== job.name), job]);
    cards.get(job.name).node.scrollIntoView({ block: "nearest" });
  }

  return { node, update, reveal, leave: () => clearInterval(timer) };
}

function card(context, first, open, failed) {
  let job = first,
    stale = true,
    asking = false,
    asked = -EVERY;
  const state = el("span", { class: "note state" });
  const bar = el("progress", {
    max: 1,
    "aria-label": `progress of the training ${first.name}`,
    style: "width:100%;accent-color:var(--accent)",
  });
  const status = el("p", { class: "note status", style: "margin:.2rem 0" });
  const note = el("p", { class: "note", style: "margin:.2rem 0;overflow-wrap:anywhere" });
  const error = el("p", { class: "error", role: "alert" });
  const pause = button("Pause", () => change("pause"));
  const resume = button("Resume", () => change("resume"));
  const stop = button("Stop", () => change("stop"));
  const run = encodeURIComponent(first.run);
  const keyboard = button("Try it in the keyboard", () => {
    location.hash = `#keyboard?models=${run}`;
  });
  const generator = button("Try it in the generator", () => {
    location.hash = `#generator?model=${run}`;
  });
  const compare = button("Compare its curve", () => {
    location.hash = `#compare?of=curves&models=${run}`;
  });
  const picture = el("div"),
    without = el("p", { class: "note" });
  const curve = el(
    "details",
    { ontoggle: look },
    el("summary", { style: "padding:.4rem 0;cursor:pointer" }, "Curve"),
    without,
    picture,
  );
  curve.open = open;
  const node = el(
    "section",
    { class: "card", "data-job": first.name, "aria-label": `training ${first.name}` },
    el("h3", { style: "overflow-wrap:anywhere" }, first.name, " ", state),
    bar,
    status,
    note,
    error,
    el("div", { class: "row middle", style: "margin:.6rem 0 0" }, pause, resume, stop, keyboard, generator, compare),
    curve,
  );

  async function change(what) {
    failed("");
    for (const one of [pause, resume, stop]) one.disabled = true;
    try {
      update(await context.api.post(`/api/jobs/${encodeURIComponent(job.name)}/${what}`));
    } catch (fault) {
      failed(context.api.sentence(fault));
      update(job);
    }
  }

  function update(now) {
    if (now.state !== job.state) {
      stale = true;
      context.announce(`${now.name} is ${STATES[now.state]}`);
    }
    job = now;
    node.dataset.state = job.state;
    show(state, `${job.model} · ${STATES[job.state]}`);
    bar.value = job.share;
    show(
      status,
      [`${Math.round(100 * job.share)} %`, ACTIVE.includes(job.state) ? job.status : ""].filter(Boolean).join(" · "),
    );
    show(note, job.owner ? `It is trained by ${job.owner}, and can be paused only there.` : job.note);
    show(error, job.error);
    pause.hidden = stop.hidden = !ACTIVE.includes(job.state);
    pause.disabled = stop.disabled = job.state !== "running";
    resume.hidden = !job.resumable;
    resume.disabled = false;
    const there = context.models.some((model) => model.name === job.run);
    keyboard.hidden = generator.hidden = compare.hidden = !there;
    if (stale) look();
  }

  /** Ask for the curve if it is open and may have grown; one request at a time. */
  async function look() {
    if (!curve.open || asking || !(stale || GROWING.includes(job.state)) || !node.isConnected) return;
    if (performance.now() - asked < 0.9 * EVERY) return; // the next tick will ask
    asked = performance.now();
    asking = true;
    stale = false;
    try {
      const points = await context.api.get(`/api/jobs/${encodeURIComponent(job.name)}/curve`);
      const some = points.step.length > 0 || points.valid_step.length > 0;
      show(
        without,
        some
          ? ""
          : job.model === "ngram"
            ? "An n-gram is counted in one pass: it has no curve."
            : "The curve begins with the first steps.",
      );
      picture.hidden = !some;
      if (some) await curveChart(picture, points);
    } catch (fault) {
      // a training that is gone leaves the list by itself
      if (fault.status !== 404) show(without, context.api.sentence(fault));
    } finally {
      asking = false;
    }
  }

  return { node, update, look };
}
