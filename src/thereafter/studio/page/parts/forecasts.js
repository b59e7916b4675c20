// Pictures of forecasts: a series with what each model expects, rows k steps ahead, errors by k, gates over a window.
import { KINDS } from "/kinds.js";
import { chart, colourOf, DASHES } from "./chart.js";
import { el, pageColour } from "./dom.js";
import { short } from "./numbers.js";

const NAMES = {
  naive: "last value",
  "seasonal-naive": "seasonal naive",
  drift: "drift",
  ar: "autoregression",
  linear: "least squares",
};
const SIMPLE = { naive: "--soft", "seasonal-naive": "--neutral", ar: "--text" };
const PLAIN = { drift: "#8A8A3C", linear: "#B07A1E" };
const KIND_NAMES = KINDS.map((one) => one.name);
const BESIDE = 0.16; // how strong the area of a band is

/** What a forecaster is called: "least squares", "season-gru". */
export function nameOf(model) {
  return NAMES[model] ?? model.replace(/^(ready|runs):/, "");
}

/** The colour of a forecaster: that of its kind, as far as its name says it. */
export function colourOfForecaster(model, place) {
  if (SIMPLE[model]) return pageColour(SIMPLE[model]);
  if (PLAIN[model]) return PLAIN[model];
  const kind = nameOf(model)
    .split(/[-_ .]/)
    .find((word) => KIND_NAMES.includes(word));
  return colourOf(kind, place);
}

/** Times along an axis: numbers where rows are counted. */
export function axisOf(times) {
  return times.every((time) => /^-?\d+$/.test(time)) ? times.map(Number) : times;
}

/** A series and its forecasts; `coverage` is that of the band that is drawn, 0 for none. */
export async function drawFan(place, answer, coverage) {
  const x = axisOf(answer.times);
  const ahead = x.slice(answer.before);
  const traces = [];
  answer.forecasts.forEach((one, at) => {
    const colour = colourOfForecaster(one.model, at);
    const band = one.bands.find((each) => each.coverage === coverage);
    if (band) {
      traces.push({
        name: `${nameOf(one.model)}, band`,
        x: [...ahead, ...ahead.toReversed()],
        y: [...band.high, ...band.low.toReversed()],
        fill: "toself",
        fillcolor: colour,
        opacity: BESIDE,
        mode: "lines",
        line: { width: 0 },
        hoverinfo: "skip",
        showlegend: false,
      });
    }
  });
  traces.push({
    name: "observed",
    x,
    y: answer.values,
    mode: "lines",
    line: { color: pageColour("--text"), width: 1.4 },
  });
  answer.forecasts.forEach((one, at) => {
    const color = colourOfForecaster(one.model, at);
    traces.push({
      name: nameOf(one.model),
      x: ahead,
      y: one.mean,
      mode: ahead.length > 1 ? "lines" : "markers",
      marker: { color, size: 8 },
      line: { color, width: 2.6, dash: DASHES[(at + 1) % DASHES.length] },
    });
  });
  const edge = { color: pageColour("--soft"), width: 1, dash: "dash" };
  const border = { type: "line", xref: "x", yref: "paper", x0: ahead[0], x1: ahead[0], y0: 0, y1: 1, line: edge };
  await chart(place, traces, { x: "time", y: answer.target, height: 380, layout: { shapes: [border] } });
  const errors = answer.forecasts.map((one) => `${nameOf(one.model)} ${short(one.rmse)}`).join(", ");
  place.setAttribute("aria-label", `${answer.target} by time, and its forecasts; root mean squared errors: ${errors}`);
}

/** The last rows as they were expected k steps before. */
export async function drawAhead(place, answer) {
  const x = axisOf(answer.times);
  const came = { name: "observed", x, y: answer.actual, mode: "lines" };
  const traces = [{ ...came, line: { color: pageColour("--neutral"), width: 1.4 } }];
  answer.models.forEach((one, at) => {
    const color = colourOfForecaster(one.model, at);
    traces.push({
      name: nameOf(one.model),
      x,
      y: one.predicted,
      mode: "lines",
      line: { color, width: 2, dash: DASHES[at % DASHES.length] },
    });
  });
  await chart(place, traces, { x: "time", y: answer.target, height: 360 });
}

/** The error by the number of steps ahead; `answer.k` is marked. */
export async function drawErrors(place, answer) {
  const traces = answer.models.map((one, at) => {
    const color = colourOfForecaster(one.model, at);
    const line = { color, width: 2, dash: DASHES[at % DASHES.length] };
    return { name: nameOf(one.model), x: answer.steps, y: one.rmse, mode: "lines", line };
  });
  const dotted = { color: pageColour("--soft"), width: 1.5, dash: "dot" };
  traces.push({ name: "the value k before", x: answer.steps, y: answer.last_value, mode: "lines", line: dotted });
  const edge = { color: pageColour("--soft"), width: 1, dash: "dash" };
  const mark = { type: "line", xref: "x", yref: "paper", x0: answer.k, x1: answer.k, y0: 0, y1: 1, line: edge };
  const y = "root mean squared error";
  const axes = { template: { layout: { yaxis: { rangemode: "tozero" } } } };
  await chart(place, traces, { x: "steps ahead k", y, height: 320, layout: { ...axes, shapes: [mark] } });
}

/** The gates of a network over the window it has read, above them the values. */
export async function drawGates(values, gates, answer, target) {
  const x = axisOf(answer.times);
  const read = { name: target, x, y: answer.values, mode: "lines+markers" };
  const look = { line: { color: pageColour("--text"), width: 1.4 }, marker: { color: pageColour("--text"), size: 3 } };
  await chart(values, [{ ...read, ...look }], { x: "read at", y: target, height: 200 });
  const colours = { input: "--low", forget: "--high", output: "--good", update: "--high", reset: "--low" };
  const traces = answer.gates.map((one, at) => ({
    name: `${one.name} gate`,
    x,
    y: one.values,
    mode: "lines",
    line: { color: pageColour(colours[one.name] ?? "--text"), width: 2.2, dash: DASHES[at % DASHES.length] },
  }));
  await chart(gates, traces, { x: "read at", y: `mean over ${answer.units} units`, height: 280 });
}

/** A table of errors, the smallest first. */
export function errorTable(rows, heading) {
  const ordered = rows.filter((row) => row.error != null).sort((one, other) => one.error - other.error);
  const cells = ordered.map((row) => el("tr", {}, el("td", {}, nameOf(row.model)), el("td", {}, short(row.error))));
  const head = el("tr", {}, el("th", { scope: "col" }, "Forecaster"), el("th", { scope: "col" }, heading));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...cells));
}
