// Gradients that reach the states of models, by steps back from the loss: lines of a chart, and a table of verdicts.
import { DASHES } from "./chart.js";
import { el, pageColour, visible } from "./dom.js";
import { percent, short } from "./numbers.js";

const NAMES = { h: "hidden state h", c: "cell state c" };

/**
 * What the chart and the table show: every state of the last layer of every model, by steps back from the loss. `means`
 * are means over sentences; where there are none (null) the answers for one text are shown.
 */
export function linesOf(answers, means) {
  return (means ?? answers).flatMap((answer, place) => {
    const last = answer.states.at(-1)?.layer;
    const parts = answer.states
      .filter((part) => part.layer === last)
      .toSorted((a, b) => a.field.localeCompare(b.field));
    const turn = (values) => (means ? values : values?.toReversed()) ?? null;
    return parts.map((part, nth) => ({
      answer,
      place,
      nth,
      part,
      norm: turn(part.norm),
      direct: turn(part.direct),
      gates: turn(part.gates),
    }));
  });
}

/** A line of the chart, as shares of the gradient one step back. `path` names the part of the gradient it is. */
export function curveOf({ nth, norm }, values, { name, color }, path = "") {
  const one = norm[1] > 0 ? norm[1] : null;
  return {
    name: `${name}${path && `, ${path}`}`,
    mode: path ? "lines" : "lines+markers",
    x: values.map((_, back) => back),
    y: values.map((value) => (one && value ? value / one : null)),
    line: { color, dash: path ? "dot" : DASHES[nth], width: path ? 1.5 : 3 - nth },
    marker: { color, size: 5, symbol: nth ? "square" : "circle" },
  };
}

/** The table below the chart; `labelOf(answer)` is what its model is called. */
export function verdictTable(all, labelOf) {
  const head = [
    "Model",
    "State",
    "Verdict",
    "Share of 1 step back",
    "Size 1 step back",
    "Farthest",
    "By its gates alone",
    "Product of gates",
  ];
  return el(
    "table",
    { id: "verdicts", style: "white-space: nowrap" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        head.map((name) => el("th", { scope: "col" }, name)),
      ),
    ),
    el(
      "tbody",
      {},
      all.map(({ answer, part, norm, direct, gates }) => {
        const cells = [
          NAMES[part.field] ?? part.field,
          part.decay?.verdict ?? "–",
          part.decay?.measured ?? "–",
          short(norm[1]),
          short(norm.at(-1)),
          direct ? short(direct.at(-1)) : "–",
          gates ? short(gates.at(-1)) : "–",
        ];
        return el(
          "tr",
          { "data-model": answer.model, "data-field": part.field },
          el("th", { scope: "row" }, labelOf(answer)),
          cells.map((cell) => el("td", {}, cell)),
        );
      }),
    ),
  );
}

/** A number and what is counted: "1 step", "3 steps". */
export function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

/**
 * What the picture shows after `at` steps, first forward and then back: `size` are the sizes of the states after each
 * token, `sent` those of the gradients that reach them, `letter` is the name of the state.
 */
export function describeStep(at, tokens, { sent, size, letter }) {
  const steps = tokens.length;
  if (at <= 0) return "Nothing has been read yet.";
  if (at <= steps) {
    const norm = `|${letter}| = ${short(size[at - 1])}`;
    return `Forward, step ${at} of ${steps}: after “${visible(tokens[at - 1])}” the state has the size ${norm}.`;
  }
  const step = 2 * steps - at,
    back = steps - 1 - step;
  const where =
    back === 0
      ? "at the last state, where the loss is"
      : `${count(back, "step")} back, after “${visible(tokens[step])}”`;
  const part = back === 0 || !sent.at(-1) ? "" : `, ${percent(sent[step] / sent.at(-1))} of what the last state gets`;
  return `Backward, ${where}: the gradient has the size ${short(sent[step])}${part}.`;
}

/** What a truncation after `kept` of all steps leaves of the gradient: `share` of its length. */
export function describeCut(kept, steps, share) {
  const first = steps - kept; // so many states get no gradient
  if (first <= 0) return "Nothing is cut: every state gets its gradient, which is the whole one.";
  const states = `${first} of ${steps} states ${first === 1 ? "gets" : "get"} no gradient`;
  const longer = share > 1 ? " It is longer because what is left out points the other way." : "";
  return (
    `Cut after ${count(kept, "step")}: ${states}. ` +
    `The gradient of the recurrent weights keeps ${percent(share)} of its whole length.${longer}`
  );
}

/** A state in the address: "l0.c". */
export function keyOf({ layer, field: letter }) {
  return `${layer}.${letter}`;
}

/** The state a key names; in a model without it the last layer's of that letter, or its h. */
export function stateOf(answer, key) {
  const letter = key.split(".")[1] ?? "h";
  const last = (wanted) => answer.states.findLast((part) => part.field === wanted);
  return answer.states.find((part) => keyOf(part) === key) ?? last(letter) ?? last("h") ?? answer.states[0];
}

/** A state as the choice offers it; its layer is named where there are several. */
export function nameOf({ layer, field: letter }, answer) {
  const several = new Set(answer.states.map((part) => part.layer)).size > 1;
  return `${NAMES[letter] ?? letter}${several ? `, layer ${layer.replace("l", "")}` : ""}`;
}

/** The line in the chart that marks where the truncation cuts. */
export function cutLine(x) {
  const line = { color: pageColour("--soft"), dash: "dash", width: 2 };
  return {
    shapes: [{ type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line }],
    annotations: [{ x, y: 1, yref: "paper", text: "cut", showarrow: false, xanchor: "left", yanchor: "top" }],
  };
}
