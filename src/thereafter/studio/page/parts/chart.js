// Charts by plotly, loaded once when the first is drawn, in the colours of the page.
import { KINDS } from "/kinds.js";
import { pageColour } from "./dom.js";

let loading = null;

function load() {
  loading ??= new Promise((done, failed) => {
    if (window.Plotly) return done(window.Plotly);
    const script = document.createElement("script");
    script.src = "/plotly.js";
    script.onload = () => done(window.Plotly);
    script.onerror = () => {
      loading = null;
      failed(new Error("the charts could not be loaded; try: pip install plotly"));
    };
    document.head.append(script);
  });
  return loading;
}

const OF_KIND = Object.fromEntries(KINDS.map((one) => [one.name, one]));
const CYCLE = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#7F7F7F"];
export const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];

/** The colour of a kind of model, the same in every picture. */
export function colourOf(kind, place = 0) {
  const dark = document.documentElement.dataset.theme === "dark";
  const known = OF_KIND[kind];
  if (!known) return CYCLE[place % CYCLE.length];
  return (dark && known.on_dark) || known.colour;
}

const TEXTS = new Set(["name", "text", "hovertext", "labels", "x", "y"]);
const BREAK = "\u200b"; // a space without width

/**
 * Plotly reads tags and entities in whatever it shows, so a run called "<a href=...>" would become a link. A space
 * without width after each "<" and "&" makes them plain characters, however often and wherever the text is read or cut.
 */
export function plain(value) {
  if (typeof value === "string") return value.replace(/[<&]/g, `$&${BREAK}`);
  return Array.isArray(value) ? value.map(plain) : value;
}

/** Traces or a layout with plain texts where names, words and titles stand; templates and ticks are the page's own. */
function withPlainTexts(value) {
  if (Array.isArray(value)) return value.map(withPlainTexts);
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key,
      TEXTS.has(key) && (typeof one === "string" || Array.isArray(one)) ? plain(one) : withPlainTexts(one),
    ]),
  );
}

/**
 * Draw traces (plotly's) into an element; drawn again, the chart changes in place. Every axis has a title.
 * The element gets the numbers of the last drawing as `element.numbers`, for tests and for the table.
 */
export async function chart(
  element,
  traces,
  { x, y, log = false, logX = false, height = 320, legend = true, layout = {} },
) {
  const turn = (element.turn ?? 0) + 1;
  element.turn = turn;
  const plotly = await load();
  if (!element.isConnected || element.turn !== turn) return;
  const [text, line] = ["--text", "--line"].map(pageColour);
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true };
  const narrow = element.clientWidth < 520;
  await plotly.react(
    element,
    withPlainTexts(traces),
    withPlainTexts({
      height,
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, DejaVu Sans, sans-serif", size: narrow ? 12 : 13, color: text },
      margin: { l: narrow ? 48 : 64, r: 12, t: 12, b: 48 },
      showlegend: legend && traces.length > 1,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      hovermode: "closest",
      xaxis: { ...axis, title: { text: x }, type: logX ? "log" : "-" },
      yaxis: { ...axis, title: { text: y }, type: log ? "log" : "-" },
      ...layout,
    }),
    { displayModeBar: false, responsive: true },
  );
  if (element.turn !== turn) return; // a later drawing has the last word, whichever ends first
  document.getElementById("js-plotly-tester")?.setAttribute("aria-hidden", "true"); // a ruler of plotly's, no picture
  element.classList.add("chart");
  element.setAttribute("role", "img");
  element.setAttribute(
    "aria-label",
    `${y} by ${x}: ${traces
      .map((trace) => trace.name ?? "")
      .filter(Boolean)
      .join(", ")}`,
  );
  element.numbers = traces.map(({ name, x: at, y: value }) => ({ name, x: at, y: value }));
}
