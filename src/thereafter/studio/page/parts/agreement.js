// How often models choose the right verb, by the words that stand between it and its subject.
import { colourOf, DASHES, plain } from "./chart.js";
import { pageColour } from "./dom.js";
import { percent } from "./numbers.js";

const SYMBOLS = ["circle", "square", "diamond", "cross", "triangle-up", "x", "star", "pentagon"];
const SHARES = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];

/**
 * The chart of some rows of a comparison, in the colours they have among all rows. Returns { traces, options,
 * summaries, note }: `summaries` are the traces in words, `note` explains the dashed line and the bars.
 */
export function agreementByDistance(rows, all) {
  const words = rows[0].agreement.map((point) => point.words);
  const traces = rows.map((row) => {
    const points = row.agreement;
    return {
      ...styleOf(row, all),
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
  const soft = pageColour("--soft"),
    line = pageColour("--line");
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
  const guesses = blind
    ? `${blind.row.name} sees ${blind.row.sees} word${blind.row.sees === 1 ? "" : "s"} back, so with ` +
      `${blind.row.sees} or more words between it cannot see the subject and can only guess ` +
      "(right of the dashed line). "
    : "";
  const bars = rows.some((row) => row.seeds > 1)
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
  const options = {
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
  };
  const summaries = rows.map(({ name, agreement: points }) => {
    const [near, far] = [points[0], points.at(-1)].map((point) => percent(point.mean));
    return `${name} ${near} at ${words[0]}, ${far} at ${words.at(-1)}`;
  });
  return { traces, options, summaries, note: guesses + bars };
}

/** Colour by kind of model; dash and mark by place, since not everybody can tell the colours apart. */
export function styleOf(row, rows) {
  const place = rows.indexOf(row);
  const twin = rows.slice(0, place).filter((other) => other.kind === row.kind).length;
  return {
    line: { color: colourOf(row.kind, place), width: 2, dash: DASHES[twin % DASHES.length] },
    marker: { symbol: SYMBOLS[place % SYMBOLS.length], size: 8 },
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
