// The equations of a cell, with the numbers of one unit at one step put in.
import { el } from "./dom.js";

const SIGNED = new Set(["c", "h", "cell", "new"]); // states and candidates; gates have no sign

/** A formula with its subscripts: "c_t = f_t c_{t−1}". */
export function formula(text) {
  const parts = text.split(/(_\{[^}]*\}|_\S)/).filter(Boolean);
  return el(
    "span",
    { class: "formula" },
    parts.map((part) => (part.startsWith("_") ? el("sub", {}, part.replace(/[_{}]/g, "")) : part)),
  );
}

/** A number with its sign, as it stands in a sum. */
export function withSign(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

/**
 * The equations of an answer of /api/step: { node, draw(valuesOf) }. `valuesOf(field)` is [value before, value now] of
 * the unit that is looked at, undefined where there is none, so that the formulas stand alone.
 */
export function equationList(equations) {
  const rows = equations.map((equation) => {
    const number = el("span", { class: "number" }),
      parts = el("span", { class: "parts" });
    return {
      equation,
      number,
      parts,
      node: el(
        "li",
        { "data-field": equation.field || null },
        formula(equation.text),
        number,
        equation.keeps ? parts : null,
      ),
    };
  });
  const draw = (valuesOf) => {
    for (const { equation, number, parts } of rows) {
      const [before, now] = (equation.field && valuesOf(equation.field)) || [];
      number.textContent = now === undefined ? "" : SIGNED.has(equation.field) ? withSign(now) : now.toFixed(2);
      if (equation.keeps) parts.textContent = now === undefined ? "" : sum(equation, before, now, valuesOf);
    }
  };
  return {
    node: el(
      "ol",
      { class: "equations", "aria-label": "Equations of the cell" },
      rows.map((row) => row.node),
    ),
    draw,
  };
}

/** What is left of the old value and what is new: the two sides of the sum that makes the memory. */
function sum({ keeps }, before, now, valuesOf) {
  const rest = keeps.startsWith("1 - ");
  const gate = valuesOf(rest ? keeps.slice(4) : keeps)?.[1];
  if (gate === undefined || before === undefined) return "";
  const share = rest ? 1 - gate : gate;
  return `${withSign(share * before)} kept, ${withSign(now - share * before)} new`;
}
