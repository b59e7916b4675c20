// Compare: the ladder of models in one table, their curves, and agreement by distance.
import { KINDS } from "/kinds.js";
import { agreementByDistance, styleOf } from "../parts/agreement.js";
import { chart } from "../parts/chart.js";
import { choice, modelBox } from "../parts/controls.js";
import { el, errors } from "../parts/dom.js";
import { fixed, LADDER, TRAININGS } from "../parts/ladder.js";
import { sortable } from "../parts/table.js";

const MODELS = "models",
  CURVES = "curves",
  KEPT = "kept:";

const MEASURES = { perplexity: "validation perplexity", bits: "validation bits per byte" };
const GENERATIONS = KINDS.map((one) => one.name);
const PATIENCE = 300; // milliseconds between two drawings of the charts while models are measured

const ACROSS = { tokens: "tokens trained on", seconds: "seconds of training" };

export const panel = {
  id: "compare",
  title: "Compare",
  see: "The farther the verb from its subject, the more must be remembered: see whose line falls first.",
  about:
    "Every model reads the same new sentences: the table shows how well, how fast and how large each is, " +
    "the charts how it learned and how far back it remembers. " +
    "Click a heading to sort, tick the models, or choose another comparison.",
  own: {
    see: "Bits per byte compare all models, whatever their tokens: see which needs the fewest for the same text.",
    about:
      "Every model reads the same text: the table shows how well, how fast and how large each is, " +
      "the chart how it learned. Click a heading to sort, tick the models, or choose another comparison.",
  },
  mount,
};

function mount(place, context) {
  let chosen = context.get("models").split(",").filter(Boolean);
  let touched = chosen.length > 0;
  let turn = 0; // of several refreshes only the last one shows anything
  let keptAsked = false;
  let drawn = 0; // when the last drawing of the charts ended
  let shown = null; // the last answer, for when only a chart changes
  const of = choice(
    "What is compared",
    [
      [MODELS, "models, on the same sentences"],
      [CURVES, "training curves of any models"],
    ],
    context.get("of", MODELS),
    refresh,
  );
  if (context.get("of").startsWith(KEPT))
    of.select.append(el("option", { value: context.get("of"), selected: true }, context.get("of").slice(KEPT.length)));
  const across = choice("Along", Object.entries(ACROSS), context.get("x", "tokens"), redraw);
  let wish = context.get("y", "perplexity"); // the measure that was asked for; another is shown where it is not known
  const measure = choice("Shown", Object.entries(MEASURES), wish, (now) => {
    wish = now;
    redraw();
  });
  const failed = errors();
  const status = el("p", { class: "note", role: "status", id: "measuring" });
  const picks = el("div", { class: "row middle", style: "gap:0 .8rem", role: "group", "aria-label": "Models" });
  const advice = el("ul", { id: "advice" });
  const heading = el("h3", {});
  const table = sortable({
    label: "models compared",
    sort: context.get("sort", "bits_per_byte"),
    down: context.get("down") === "1",
    changed: (sort, down) => context.set({ sort, down: down ? "1" : "" }),
  });
  const legend = el("p", { class: "note" });
  const learning = el("div", { id: "learning" }),
    learned = el("p", { class: "note" });
  const distance = el("div", { id: "distance" }),
    seen = el("p", { class: "note", id: "seen" });
  const agreement = el(
    "section",
    { class: "card" },
    el("h3", {}, "The right verb, by its distance from the subject"),
    distance,
    seen,
  );
  place.append(
    el("div", { class: "row" }, of.node),
    picks,
    failed.node,
    status,
    el(
      "div",
      {
        class: "columns",
        style: "grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));margin-bottom:1rem",
      },
      agreement,
      el(
        "section",
        { class: "card" },
        el("h3", {}, "Learning"),
        el("div", { class: "row" }, measure.node, across.node),
        learning,
        learned,
      ),
    ),
    heading,
    table.node,
    legend,
    advice,
  );

  function wantedNames() {
    if (touched) return chosen;
    const ready = context.models.filter((model) => model.name.startsWith("ready:"));
    return ready.sort((a, b) => rung(a) - rung(b)).map((model) => model.name);
  }

  function offer() {
    const names = wantedNames();
    const key = context.models.map((model) => model.name).join() + names.join();
    if (picks.dataset.key === key) return;
    picks.dataset.key = key;
    picks.replaceChildren(
      el("span", { class: "note" }, "Models:"),
      ...context.models.map((model) =>
        modelBox(model, names.includes(model.name), (ticked) => choose(model.name, ticked), "padding:.4rem 0"),
      ),
    );
    refresh();
  }

  function choose(name, ticked) {
    chosen = ticked ? [...wantedNames(), name].slice(-16) : wantedNames().filter((other) => other !== name);
    touched = true;
    offer();
  }

  async function offerKept() {
    if (keptAsked) return;
    keptAsked = true;
    try {
      for (const one of await context.api.get("/api/comparisons")) {
        const value = KEPT + one.name,
          text = `${one.name}: ${one.models.length} models on ${one.source}`;
        const known = [...of.select.options].find((option) => option.value === value); // the one a link asked for
        if (known) known.textContent = text;
        else of.select.append(el("option", { value }, text));
      }
    } catch (error) {
      if (error.status === 503)
        keptAsked = false; // the studio is still loading: it is asked again with the next change
      else failed.say(context.api.sentence(error));
    }
  }

  async function refresh() {
    const mine = ++turn;
    context.set({ of: of.value === MODELS ? "" : of.value, models: touched ? chosen.join(",") : "" });
    picks.style.display = of.value.startsWith(KEPT) ? "none" : "";
    failed.say("");
    const names = wantedNames().filter((name) => context.models.some((model) => model.name === name));
    context.use("Models", names);
    if (!of.value.startsWith(KEPT) && !names.length) {
      status.textContent = context.models.length
        ? "Choose at least one model."
        : "The first model is ready in a few seconds.";
      return;
    }
    try {
      if (of.value === CURVES) await showCurves(names, mine);
      else if (of.value.startsWith(KEPT)) await showKept(of.value.slice(KEPT.length), mine);
      else await showModels(names, mine);
      if (mine === turn) context.headline(!shown?.rows.some((row) => row.agreement.length));
    } catch (error) {
      if (mine === turn) {
        failed.say(context.api.sentence(error));
        status.textContent = "";
      }
    }
  }

  /** What is known is shown at once; the rest is measured one model after the other, and shown with every answer. */
  async function showModels(names, mine) {
    const there = [];
    let pictures = null;
    const known = await context.api.post("/api/compare", { models: names, measure: [] });
    if (mine !== turn) return;
    if (known.rows.length) pictures = show(known);
    for (const [at, name] of names.entries()) {
      const measure = [...there, name];
      status.textContent = `Measuring ${name.split(":")[1]} on the test sentences (${at + 1} of ${names.length}) …`;
      try {
        const answer = await context.api.post("/api/compare", {
          models: [...measure, ...names.slice(at + 1)],
          measure,
        });
        if (mine !== turn) return;
        there.push(name);
        pictures = show(answer, at === names.length - 1 || performance.now() > drawn + PATIENCE);
      } catch (error) {
        if (mine !== turn) return;
        failed.say(`${name.split(":")[1]}: ${context.api.sentence(error)}`);
        pictures = redraw();
      }
    }
    await pictures; // finished when the last chart can be seen
    if (mine !== turn) return;
    status.textContent = "";
    context.announce(shown?.advice[0] ?? "");
  }

  async function showKept(name, mine) {
    status.textContent = "Reading the comparison …";
    const answer = await context.api.get(`/api/comparisons/${encodeURIComponent(name)}`);
    if (mine !== turn) return;
    show(answer);
    status.textContent = answer.notes.join("; ");
  }

  async function showCurves(names, mine) {
    const answer = await context.api.post("/api/curves", { models: names });
    if (mine !== turn) return;
    const stepped = answer.filter((one) => one.valid_step.length);
    const without = answer.filter((one) => !one.valid_step.length).map((one) => one.label);
    shown = {
      advice: [],
      rows: stepped.map((one) => ({
        name: one.label,
        kind: one.kind,
        perplexity: Math.min(...numbers(one.valid_perplexity)),
        tokens: one.valid_seen.at(-1),
        seconds: one.valid_seconds.at(-1),
        agreement: [],
        level: null,
        curves: [{ tokens: one.valid_seen, seconds: one.valid_seconds, perplexity: one.valid_perplexity, bits: [] }],
      })),
    };
    heading.textContent = "How each training went, by its own validation text";
    table.draw(TRAININGS, [{ rows: shown.rows }], "perplexity");
    legend.textContent = "Perplexities compare only where text and tokens are the same.";
    status.textContent = without.length
      ? `${without.join(", ")}: counted, not trained in steps, so without a curve.`
      : "";
    advice.replaceChildren();
    redraw();
  }

  function show(answer, whole = true) {
    shown = answer;
    heading.textContent = `Scores on ${answer.source}`;
    const compared = answer.rows.filter((row) => row.normalised);
    const [together, apart] = [compared.filter((row) => !row.apart), compared.filter((row) => row.apart)];
    table.draw(
      LADDER,
      [
        { rows: together },
        { title: "Other tokens: only bits per byte compares with the rows above", rows: apart },
        {
          title: "No probabilities: these scores compare with none of the rows above",
          rows: answer.rows.filter((row) => !row.normalised),
        },
      ],
      "bits_per_byte",
    );
    legend.textContent = answer.legend.join(" ");
    advice.replaceChildren(...answer.advice.map((sentence) => el("li", {}, sentence)));
    return whole ? redraw() : null;
  }

  function redraw() {
    context.set({ x: across.value === "tokens" ? "" : across.value, y: wish === "perplexity" ? "" : wish });
    if (!shown) return null;
    drawn = Infinity; // no other drawing begins before this one ends
    return Promise.all([drawLearning(), drawDistance()]).finally(() => {
      drawn = performance.now();
    });
  }

  function drawLearning() {
    const rows = shown.rows.filter((row) => !row.apart && (row.curves.length || row.level));
    const known = Object.keys(MEASURES).filter((name) =>
      rows.some((row) => row.level?.[name] != null || row.curves.some((curve) => curve[name].length)),
    );
    const y = known.includes(wish) ? wish : (known[0] ?? wish);
    for (const option of measure.select.options) option.disabled = known.length > 0 && !known.includes(option.value);
    measure.select.value = y;
    const ends = rows.flatMap((row) => row.curves.flatMap((curve) => numbers(curve[across.value])));
    const traces = rows.flatMap((row) => {
      const look = styleOf(row, shown.rows);
      if (row.level) return row.level[y] == null ? [] : [level(row, look, row.level[y], ends)];
      return row.curves.map((curve, seed) => ({
        ...look,
        x: curve[across.value],
        y: curve[y],
        name: row.name,
        legendgroup: row.name,
        showlegend: seed === 0,
        mode: "lines+markers",
      }));
    });
    learned.textContent = rows.some((row) => row.level)
      ? "A horizontal line is a model that is counted, not trained in steps."
      : "";
    if (rows.some((row) => row.curves.length > 1)) learned.textContent += " One line per seed.";
    if (!traces.length) {
      learning.replaceChildren();
      learned.textContent = "No curve to show.";
      return null;
    }
    return draw(
      learning,
      traces,
      { x: ACROSS[across.value], y: MEASURES[y], log: y === "perplexity", height: 380 },
      traces.map((trace) => `${trace.name} ${fixed(trace.y.at(-1), 2)} at the end`),
    );
  }

  function drawDistance() {
    const rows = shown.rows.filter((row) => !row.apart && row.agreement.length);
    agreement.hidden = !rows.length;
    if (!rows.length) return null;
    const { traces, options, summaries, note } = agreementByDistance(rows, shown.rows);
    seen.textContent = note;
    return draw(distance, traces, options, summaries);
  }

  async function draw(element, traces, options, summaries) {
    try {
      await chart(element, traces, options);
      element.setAttribute("aria-label", `${options.y} by ${options.x}: ${summaries.join("; ")}`);
    } catch (error) {
      failed.say(context.api.sentence(error));
    }
  }

  context.watch(() => {
    offer();
    offerKept();
  });
  offer();
  offerKept();
  return () => {
    turn += 1;
  };
}

/** The place of a model on the ladder, oldest first; those over characters last. */
function rung(model) {
  return GENERATIONS.indexOf(model.kind) + (model.tokens === "char" ? GENERATIONS.length : 0);
}

function level(row, look, value, ends) {
  const [low, high] = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
  return {
    ...look,
    x: [low, high],
    y: [value, value],
    name: row.name,
    mode: "lines",
    line: { ...look.line, dash: "dot" },
  };
}

function numbers(values) {
  return values.filter((value) => value != null);
}
