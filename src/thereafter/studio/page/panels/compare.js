// Compare: the ladder of models in one table, their curves, and agreement by distance.
import { KINDS } from "/kinds.js";
import { chart, colourOf, DASHES, plain } from "../parts/chart.js";
import { choice, describe } from "../parts/controls.js";
import { el, errors } from "../parts/dom.js";
import { percent } from "../parts/numbers.js";
import { sortable } from "../parts/table.js";

const MODELS = "models",
  CURVES = "curves",
  KEPT = "kept:";
const SYMBOLS = ["circle", "square", "diamond", "cross", "triangle-up", "x", "star", "pentagon"];
const MEASURES = { perplexity: "validation perplexity", bits: "validation bits per byte" };
const GENERATIONS = KINDS.map((one) => one.name);
const PATIENCE = 300; // milliseconds after a drawing in which models may come before the charts are drawn again
const SHARES = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
const ACROSS = { tokens: "tokens trained on", seconds: "seconds of training" };

const LADDER = [
  { key: "name", title: "model", show: (row) => row.name },
  { key: "tokens", title: "tokens", show: (row) => row.tokens },
  { key: "bits_per_byte", title: "bits/byte", show: (row) => spread(row.bits_per_byte, row.bits_per_byte_spread, 4) },
  { key: "perplexity", title: "perplexity", show: (row) => spread(row.perplexity, row.perplexity_spread, 2) },
  { key: "parameters", title: "parameters", show: (row) => amount(row.parameters) },
  { key: "seconds", title: "train s", show: (row) => fixed(row.seconds, 1) },
  { key: "tokens_per_second", title: "tokens/s", show: (row) => amount(row.tokens_per_second) },
  { key: "next_ms", title: "next ms", show: (row) => fixed(row.next_ms, 2) },
  { key: "megabytes", title: "size MB", show: (row) => fixed(row.megabytes, 2) },
];
const TRAININGS = [
  { key: "name", title: "model", show: (row) => row.name },
  { key: "kind", title: "kind", show: (row) => row.kind },
  { key: "perplexity", title: "best validation perplexity", show: (row) => fixed(row.perplexity, 2) },
  { key: "tokens", title: "tokens trained on", show: (row) => amount(row.tokens) },
  { key: "seconds", title: "seconds", show: (row) => fixed(row.seconds, 1) },
];

export const panel = {
  id: "compare",
  title: "Compare",
  see: "The farther the verb from its subject, the more must be remembered: see whose line falls first.",
  about:
    "Every model reads the same new sentences. The table shows how well, how fast and how large each is, " +
    "the charts how it learned and how far back it remembers. " +
    "Click a heading to sort, tick the models, or choose another comparison.",
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
  let wish = context.get("y", "perplexity"); // shown wherever it is known
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
      ...context.models.map((model) => {
        const box = el("input", {
          type: "checkbox",
          value: model.name,
          onchange: () => {
            chosen = box.checked
              ? [...wantedNames(), model.name].slice(-16)
              : wantedNames().filter((name) => name !== model.name);
            touched = true;
            offer();
          },
        });
        box.checked = names.includes(model.name);
        return el("label", { style: "padding:.4rem 0" }, box, ` ${describe(model)}`);
      }),
    );
    refresh();
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
        keptAsked = false; // it is still starting: asked again with the next change
      else failed.say(context.api.sentence(error));
    }
  }

  async function refresh() {
    const mine = ++turn;
    context.set({ of: of.value === MODELS ? "" : of.value, models: touched ? chosen.join(",") : "" });
    picks.style.display = of.value.startsWith(KEPT) ? "none" : "";
    failed.say("");
    const names = wantedNames().filter((name) => context.models.some((model) => model.name === name));
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
    await pictures; // it is over when the last of them can be seen
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
    drawn = Infinity; // while they are drawn, none is begun
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
      ? "A level across is a model that is counted, not trained in steps."
      : "";
    if (rows.some((row) => row.curves.length > 1)) learned.textContent += " One line a seed.";
    if (!traces.length) {
      learning.replaceChildren();
      learned.textContent = "There is no curve to show.";
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
    const words = rows[0].agreement.map((point) => point.words);
    const traces = rows.map((row) => {
      const points = row.agreement;
      return {
        ...styleOf(row, shown.rows),
        name: row.name,
        mode: "lines+markers",
        x: words.map((_, at) => at),
        y: points.map((point) => point.mean),
        text: points.map((point) => `${point.words} words between, ${point.sentences} sentences`),
        hovertemplate: "%{y:.1%}<br>%{text}",
        error_y: {
          type: "data",
          symmetric: false,
          thickness: 1,
          width: 3,
          array: points.map((point) => point.most - point.mean),
          arrayminus: points.map((point) => point.mean - point.least),
        },
      };
    });
    const soft = colour("--soft"),
      line = colour("--line");
    const blind = sight(rows, words);
    const shapes = [
      { type: "line", xref: "paper", x0: 0, x1: 1, y0: 0.5, y1: 0.5, line: { color: soft, dash: "dot", width: 2 } },
    ];
    if (blind && blind.at < words.length) {
      shapes.push({
        type: "line",
        x0: blind.at - 0.5,
        x1: blind.at - 0.5,
        yref: "paper",
        y0: 0,
        y1: 1,
        line: { color: soft, dash: "dash", width: 1 },
      });
    }
    seen.textContent = blind
      ? `${blind.row.name} sees ${blind.row.sees} word${blind.row.sees === 1 ? "" : "s"} back, so with ` +
        `${blind.row.sees} or more words between it cannot see the subject and can only guess ` +
        "(right of the dashed line). "
      : "";
    seen.textContent +=
      rows[0].seeds > 1 || rows.some((row) => row.seeds > 1)
        ? "The bars at each point reach from the least to the most of the seeds."
        : "The bars at each point are 95 % intervals.";
    const axis = {
      title: { text: "words between subject and verb" },
      tickvals: words.map((_, at) => at),
      ticktext: plain(words),
      gridcolor: line,
      zeroline: false,
      automargin: true,
    };
    return draw(
      distance,
      traces,
      {
        x: "words between subject and verb",
        y: "verbs in the right number",
        height: 420,
        layout: {
          xaxis: axis,
          yaxis: {
            title: { text: "verbs in the right number", standoff: 14 },
            tickvals: SHARES,
            ticktext: SHARES.map(shareName),
            range: [0.36, 1.03],
            gridcolor: line,
            zeroline: false,
            automargin: true,
          },
          shapes,
        },
      },
      rows.map(({ name, agreement: points }) => {
        const [near, far] = [points[0], points.at(-1)].map((point) => percent(point.mean));
        return `${name} ${near} at ${words[0]}, ${far} at ${words.at(-1)}`;
      }),
    );
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

/** Colour by kind of model; dash and mark by place, since colour alone says nothing to everybody. */
function styleOf(row, rows) {
  const place = rows.indexOf(row);
  const twin = rows.slice(0, place).filter((other) => other.kind === row.kind).length;
  return {
    line: { color: colourOf(row.kind, place), width: 2, dash: DASHES[twin % DASHES.length] },
    marker: { symbol: SYMBOLS[place % SYMBOLS.length], size: 8 },
  };
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

/** From which bin on the n-gram that sees farthest cannot see the subject. */
function sight(rows, words) {
  const counted = rows.filter((row) => row.kind === "ngram" && row.sees > 0).sort((a, b) => b.sees - a.sees)[0];
  if (!counted) return null;
  const at = words.findIndex((bin) => Number(bin.split("-")[0]) >= counted.sees);
  return { row: counted, at: at < 0 ? words.length : at };
}

function shareName(share) {
  return share === 0.5 ? "chance<br>50 %" : `${Math.round(100 * share)} %`;
}
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
function numbers(values) {
  return values.filter((value) => value != null);
}
function fixed(value, digits) {
  return value == null || !Number.isFinite(value) ? "–" : value.toFixed(digits);
}
function spread(mean, between, digits) {
  return between == null ? fixed(mean, digits) : `${fixed(mean, digits)} ±${fixed(between, digits)}`;
}

/** Three digits of a number: 123, 12.3k, 1.23M. */
function amount(value) {
  if (value == null || !Number.isFinite(value)) return "–";
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (value >= 0.9995 * size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}
