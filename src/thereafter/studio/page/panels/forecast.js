// Forecast: a series of numbers, what each model expects to come, one step ahead and many, and the gates beside it.
import { button, choice, field, presets, slider } from "../parts/controls.js";
import { answered, calm, el, errors, show } from "../parts/dom.js";
import { drawAhead, drawErrors, drawFan, drawGates, errorTable, nameOf } from "../parts/forecasts.js";
import { short } from "../parts/numbers.js";
import { readText } from "../parts/reading.js";
import { taskModels } from "../parts/tasks.js";
import { wholeNumber } from "../parts/walk.js";

export const panel = {
  id: "forecast",
  title: "Forecast",
  see: "One step ahead every model looks good: see how soon each loses the series when it reads its own predictions.",
  about:
    "Forecasters read a series up to the dashed line and expect what comes after it, with a band. " +
    "Move the horizon and where the forecast begins, or look at all rows k steps ahead.",
  mount,
};

const OWN = "own";
const SHOWN = { fan: "the forecast from one row on", ahead: "all rows, k steps ahead" };
const BANDS = { 0.8: "80 %", 0.5: "50 %", 0.95: "95 %", 0: "none" };
const SEASONAL = "seasonal-naive";
const FIRST = [SEASONAL, "ar", "linear"];
const LONGEST = 500_000; // characters of a table
const LINKED = 2000; // characters that an address holds
const ABOUT = "Small networks of the generated series are trained here; they are kept for next time.";
const STYLE = `
.forecast .models { display: flex; flex-wrap: wrap; gap: .2rem 1rem; border: 0; padding: 0; margin: 0 0 .6rem; }
.forecast .models legend { font-size: .9rem; color: var(--soft); padding: 0; float: left; margin-right: .8rem; }
.forecast .both { display: grid; grid-template-columns: minmax(0, 1fr) minmax(14rem, 20rem); gap: 1rem; }
.forecast #window-values { min-height: 12rem; }
.forecast #window-gates { min-height: 17rem; }
@media (max-width: 1050px) { .forecast .both { grid-template-columns: minmax(0, 1fr); } }`;

/** Six years of months, for those who have no table at hand. */
function exampleTable() {
  const rows = Array.from({ length: 72 }, (_, at) => {
    const sales = 80 + at / 3 + 12 * Math.sin((2 * Math.PI * at) / 12) + 3 * Math.cos(at * at);
    const month = String(1 + (at % 12)).padStart(2, "0");
    return `${2019 + Math.floor(at / 12)}-${month}-01,${sales.toFixed(1)}`;
  });
  return `month,sales\n${rows.join("\n")}\n`;
}

function mount(place, context) {
  let offered = { series: [], solved: [] };
  let networks = []; // task models that forecast
  let mostBack = 0;
  let back = Math.max(0, wholeNumber(context.get("back"), 48));
  let left = false;
  const ticked = new Set(context.get("models", "").split(",").filter(Boolean));
  const untouched = !ticked.size;
  const ask = context.api.latest();
  const askGates = context.api.latest();
  const failed = errors();
  const later = calm(refresh, 120);

  const series = choice("Series", [], "", changeSeries);
  const shown = choice("Show", Object.entries(SHOWN), context.get("shown", "fan"), changeMode);
  const horizon = slider(
    "Horizon",
    { min: 1, max: 96, step: 1, value: wholeNumber(context.get("horizon"), 48), say: (steps) => `${steps} steps` },
    later,
  );
  const begins = slider("The forecast begins", { min: 0, max: 1, step: 1, value: 0, say: sayBegin }, (now) => {
    back = mostBack - now;
    later();
  });
  const steps = slider("k", { min: 1, max: 64, step: 1, value: wholeNumber(context.get("k"), 16) }, later);
  const band = choice("Band", Object.entries(BANDS), context.get("band", "0.8"), refresh);
  const next = button("Move on by one horizon", goOn, { class: "main" });
  const one = button("One step more", () => moveSteps(steps.value === 64 ? 1 : steps.value + 1), { class: "main" });
  const some = presets("k", ["1", "4", "16", "64"], moveSteps);
  const boxes = el("fieldset", { class: "models" }, el("legend", {}, "Forecasters"));
  const text = el("textarea", { rows: 6, spellcheck: "false", maxlength: LONGEST, oninput: later });
  text.value = context.get("text");
  const target = el("input", {
    type: "text",
    maxlength: 200,
    oninput: later,
    placeholder: "chosen automatically",
  });
  target.value = context.get("target");
  const file = el("input", { type: "file", accept: ".csv,.tsv,.txt,text/*", onchange: () => openFile(file.files[0]) });
  const own = el(
    "div",
    { hidden: true },
    field("Your table: one row per time step, or series, time and value", text),
    el(
      "div",
      { class: "row", style: "margin-top:.6rem" },
      field("Open a file (CSV)", file),
      field("Column to forecast", target),
      button("An example", () => {
        text.value = exampleTable();
        refresh();
      }),
    ),
  );
  const verdict = el("p", { id: "forecast-verdict", role: "status" });
  const picture = el("div", { id: "forecast-picture" });
  const side = el("div", { id: "forecast-errors" });
  const curve = el("div", { id: "forecast-curve", hidden: true });
  const notes = el("p", { class: "note", id: "forecast-notes" });
  const gatesOf = choice("Gates of", [], context.get("gates"), refreshGates);
  const values = el("div", { id: "window-values" });
  const gates = el("div", { id: "window-gates" });
  const gatesNote = el("p", { class: "note" });
  const window = el(
    "section",
    { class: "card", hidden: true, style: "margin-top:1rem" },
    el("h3", {}, "Gates while the window is read"),
    el("div", { class: "row" }, gatesOf.node),
    values,
    gates,
    gatesNote,
  );
  const making = taskModels(context, {
    task: "forecast",
    offer: "Train the small networks (about a minute)",
    about: ABOUT,
    changed: (models) => {
      networks = models.map((model) => model.name);
      offerModels();
      refresh();
    },
  });
  const fanRow = el("div", { class: "row" }, horizon.node, begins.node, band.node, next);
  const aheadRow = el("div", { class: "row", hidden: true }, steps.node, one, some);
  place.append(
    el("style", {}, STYLE),
    el(
      "div",
      { class: "forecast" },
      el("div", { class: "row" }, series.node, shown.node),
      own,
      fanRow,
      aheadRow,
      boxes,
      failed.node,
      verdict,
      el("div", { class: "both" }, picture, side),
      curve,
      notes,
      window,
      making.node,
    ),
  );

  async function load() {
    if (offered.series.length || left) return;
    try {
      offered = await context.api.get("/api/tasks/forecast/series");
    } catch (error) {
      if (error.status !== 503) failed.say(context.api.sentence(error));
      return;
    }
    const options = [...offered.series.map((each) => [each.name, each.title]), [OWN, "your own table"]];
    series.select.replaceChildren(...options.map(([value, name]) => el("option", { value }, name)));
    const wanted = context.get("series", "seasonal");
    series.select.value = options.some(([value]) => value === wanted) ? wanted : options[0][0];
    changeMode();
    changeSeries();
  }

  /** The forecasters for this series: those that are fitted on the spot, its ready networks, and the user's own. */
  function offerModels() {
    if (!offered.series.length) return;
    const named = offered.series.find((each) => each.name === series.value);
    const known = named?.networks ?? [];
    const solved = offered.solved.filter((name) => name !== SEASONAL || (named?.seasonal ?? true));
    const fitting = [
      ...known.filter((name) => networks.includes(name)),
      ...networks.filter((name) => name.startsWith("runs:")),
    ];
    const all = [...solved, ...fitting];
    if (untouched && !ticked.size) for (const name of FIRST) ticked.add(name);
    if (untouched && !solved.includes(SEASONAL)) ticked.add("naive"); // where there is no season to repeat
    if (untouched && fitting.length && ![...ticked].some((name) => name.startsWith("ready:"))) ticked.add(fitting[0]);
    const legend = boxes.firstChild;
    boxes.replaceChildren(legend, ...all.map(modelBox));
    gatesOf.select.replaceChildren(...fitting.map((name) => el("option", { value: name }, nameOf(name))));
    const wanted = context.get("gates");
    gatesOf.select.value = fitting.includes(wanted) ? wanted : (fitting[0] ?? "");
  }

  function modelBox(name) {
    const box = el("input", {
      type: "checkbox",
      value: name,
      onchange: () => {
        if (box.checked) ticked.add(name);
        else ticked.delete(name);
        refresh();
      },
    });
    box.checked = ticked.has(name);
    return el("label", {}, box, ` ${nameOf(name)}`);
  }

  function chosen() {
    return [...boxes.querySelectorAll("input:checked")].map((box) => box.value);
  }

  function changeSeries() {
    own.hidden = series.value !== OWN;
    if (series.value === OWN && !text.value) text.value = exampleTable();
    mostBack = 0;
    offerModels();
    refresh();
  }

  function changeMode() {
    const ahead = shown.value === "ahead";
    fanRow.hidden = ahead;
    aheadRow.hidden = !ahead;
    curve.hidden = !ahead;
    refresh();
  }

  function moveSteps(now) {
    steps.set(now);
    refresh();
  }

  /** The next stretch of the series; after the last one the first again. */
  function goOn() {
    back = back === 0 ? mostBack : Math.max(0, back - horizon.value);
    refresh();
  }

  function sayBegin(position) {
    const rows = mostBack - position;
    return rows ? `${rows} rows before the end` : "after the last row";
  }

  async function openFile(picked) {
    if (!picked) return;
    try {
      const content = await readText(picked);
      if (content.length > LONGEST) {
        const size = content.length.toLocaleString("en");
        throw new Error(`${picked.name} has ${size} characters; expected ${LONGEST} at most; try its last rows`);
      }
      text.value = content;
      refresh();
    } catch (error) {
      failed.say(error.message);
    }
  }

  function asked() {
    const mine = series.value === OWN;
    return mine ? { series: OWN, text: text.value, target: target.value.trim() } : { series: series.value };
  }

  function remember() {
    const mine = series.value === OWN;
    context.set({
      series: series.value,
      shown: shown.value === "fan" ? null : shown.value,
      models: chosen().join(","),
      horizon: horizon.value,
      back,
      k: shown.value === "ahead" ? steps.value : null,
      band: band.value === "0.8" ? null : band.value,
      gates: gatesOf.value || context.get("gates"), // of a link, until the networks are listed
      text: mine ? text.value.slice(0, LINKED) : null,
      target: mine ? target.value : null,
    });
  }

  async function refresh() {
    later.cancel();
    if (!series.value || left) return;
    const models = chosen();
    if (!models.length) {
      failed.say("Tick a forecaster.");
      return;
    }
    remember();
    try {
      if (shown.value === "ahead") await refreshAhead(models);
      else await refreshFan(models);
    } catch (error) {
      if (!left) failed.say(context.api.sentence(error));
    }
  }

  async function refreshFan(models) {
    const answer = await ask("/api/tasks/forecast", { ...asked(), models, horizon: horizon.value, back });
    if (left || shown.value !== "fan") return;
    answered(answer.failed, failed, nameOf);
    mostBack = answer.most_back;
    back = answer.back;
    begins.input.max = mostBack;
    begins.set(mostBack - back);
    remember();
    await drawFan(picture, answer, Number(band.value));
    const known = answer.forecasts.filter((each) => each.rmse != null).sort((one, other) => one.rmse - other.rmse);
    const best = known[0];
    const came = Math.min(answer.forecasts[0].mean.length, answer.back);
    const from = answer.times[answer.before];
    show(
      verdict,
      best
        ? `From ${from} on: over the ${came} observed steps, ${nameOf(best.model)} is nearest, ` +
            `off by ${short(best.rmse)} (root mean squared error).`
        : `From ${from} on: nothing has been observed yet to compare with.`,
    );
    const rows = answer.forecasts.map((each) => ({ model: each.model, error: each.rmse }));
    side.replaceChildren(...(best ? [errorTable(rows, "Error (RMSE)")] : []));
    notes.textContent =
      `${answer.notes.join("; ")}. The first ${answer.learned} of ${answer.rows} rows were fitted to, the next tenth ` +
      "calibrates the bands.";
    context.announce(verdict.textContent);
    await refreshGates();
  }

  async function refreshAhead(models) {
    const answer = await ask("/api/tasks/forecast/ahead", { ...asked(), models, k: steps.value });
    if (left || shown.value !== "ahead") return;
    answered(answer.failed, failed, nameOf);
    window.hidden = true;
    await drawAhead(picture, answer);
    await drawErrors(curve, answer);
    const rows = answer.models.map((each) => ({ model: each.model, error: each.rmse[answer.k - 1] }));
    side.replaceChildren(errorTable(rows, `Error at k = ${answer.k}`));
    const far = answer.steps.length;
    const grown = answer.models.map((each) => `${nameOf(each.model)} ${short(each.rmse[far - 1] / each.rmse[0], 2)}`);
    show(verdict, `From 1 to ${far} steps ahead the error grows by these factors: ${grown.join(", ")}.`);
    notes.textContent =
      `Every row is forecast from the rows up to k before it; beyond what a model gives at once it reads its own ` +
      `predictions. Errors are over the same ${answer.compared} rows for every k.`;
    context.announce(verdict.textContent);
  }

  async function refreshGates() {
    const model = gatesOf.value;
    window.hidden = !model || shown.value !== "fan";
    if (window.hidden) return;
    remember();
    try {
      const answer = await askGates("/api/tasks/forecast/gates", { ...asked(), model, back });
      if (left) return;
      await drawGates(values, gates, answer, "value");
      const read = answer.rows === 1 ? "one row at a time" : `${answer.rows} rows at a time, whose mean is drawn`;
      gatesNote.textContent =
        `${nameOf(model)} reads ${answer.times.length * answer.rows} rows, ${read}. ` +
        "A gate near 1 lets everything through, one near 0 nothing.";
    } catch (error) {
      if (!left) gatesNote.textContent = context.api.sentence(error);
    }
  }

  context.watch(load);
  load();
  return () => {
    left = true;
    later.cancel();
    making.leave();
  };
}
