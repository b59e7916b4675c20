// The table of word pairs: a row for the word before, a column for the word after, in counts or probabilities.
import { el } from "./dom.js";

/** What the marks that stand for no word mean. */
export const MARKS = { "<s>": "start of a sentence", "</s>": "end of a sentence", "<unk>": "a word never seen" };

export const COUNTING_STYLE = `
.lines { display: flex; flex-direction: column; gap: .15rem; margin: 0 0 .8rem; padding: .7rem .9rem;
  background: var(--raised); border-radius: .6rem; max-height: 13rem; overflow-y: auto; }
.lines p { margin: 0; line-height: 1.9; overflow-wrap: anywhere; }
.lines span { padding: .1rem .3rem; border-radius: .3rem; color: var(--soft); border: 1px solid transparent; }
.lines .read { color: var(--text); font-weight: 600; }
.lines .before { border: 1px dashed var(--accent); }
.lines .now { background: var(--accent); color: var(--on-accent); }
.pairs { position: relative; overflow: auto; max-height: 34rem; border: 1px solid var(--line); border-radius: .6rem;
  margin: 0 0 .5rem; }
.pairs table { border-collapse: separate; border-spacing: 0; min-width: 100%; }
.pairs th, .pairs td { padding: .3rem .55rem; text-align: right; white-space: nowrap; }
.pairs th { font-weight: 600; background: var(--ground); }
.pairs thead th { position: sticky; top: 0; z-index: 1; }
.pairs tbody th { position: sticky; left: 0; text-align: left; }
.pairs thead th:first-child { left: 0; z-index: 2; text-align: left; color: var(--soft); font-weight: 400; }
.pairs td.zero { color: var(--soft); }
.pairs .sum { position: sticky; right: 0; background: var(--ground); border-left: 2px solid var(--line);
  font-weight: 600; }
.pairs thead .sum { z-index: 2; }
.pairs td.grown { outline: 3px solid var(--warm); outline-offset: -3px; font-weight: 700; }
.pairs .none { text-align: left; color: var(--soft); }
.drawn { list-style: none; display: flex; flex-wrap: wrap; gap: .4rem; padding: 0; margin: .8rem 0 .5rem; }
.drawn li { display: flex; flex-direction: column; align-items: center; border: 1px solid var(--line);
  border-radius: .4rem; padding: .2rem .6rem; background: var(--raised); max-width: 100%; overflow-wrap: anywhere; }
.drawn small { color: var(--soft); font-variant-numeric: tabular-nums; }
.switch label { display: inline-flex; align-items: center; gap: .35rem; min-height: 2.4rem; padding-right: .6rem;
  color: var(--text); }
.switch { border: 0; padding: 0; margin: 0; min-width: 0; }
.switch legend { font-size: .9rem; color: var(--soft); padding: 0; }
`;

/**
 * { node, draw(answer, p) }: `answer` is one of /api/count, and with `p` the cells show probabilities. The cell that
 * has just grown is marked and brought into sight.
 */
export function pairTable() {
  let answer = null;
  const node = el("div", { class: "pairs", role: "region", "aria-label": "Table of word pairs", tabindex: "0" });

  function draw(now, p) {
    answer = now;
    const other = answer.rows.some((row) => (p ? row.other_p : row.other_count) > 0);
    const head = el(
      "tr",
      {},
      el("th", { scope: "col" }, "before \\ next"),
      answer.columns.map((word) => heading(word, "col")),
      other ? el("th", { scope: "col", title: "words without a column" }, "others") : null,
      el("th", { scope: "col", class: "sum", title: "the whole row, columns left out included" }, "row sum"),
    );
    const width = answer.columns.length + (other ? 1 : 0);
    node.replaceChildren(
      el(
        "table",
        {},
        el("thead", {}, head),
        el(
          "tbody",
          {},
          answer.rows.map((row) => line(row, p, other, width)),
        ),
      ),
    );
    if (!answer.rows.length)
      node.replaceChildren(el("p", { class: "note", style: "margin: 1rem" }, "The table is empty: press “Next word”."));
    uncover(node.querySelector(".grown"));
  }

  function line(row, p, other, width) {
    const cells = p ? row.p : row.counts;
    const filled =
      cells === null
        ? [
            el("td", { class: "none", colspan: width }, "a dead end: nothing has followed it yet"),
            el("td", { class: "sum" }, "–"),
          ]
        : [
            ...cells.map((value, i) => cell(value, row, answer.columns[i], p)),
            other ? cell(p ? row.other_p : row.other_count, row, "others", p) : null,
            el(
              "td",
              { class: "sum", "data-sum": row.word },
              p ? shortProbability(total(cells) + row.other_p) : row.sum,
            ),
          ];
    return el("tr", {}, heading(row.word, "row"), filled.filter(Boolean));
  }

  function cell(value, row, column, p) {
    const grown = answer.pair && row.word === answer.pair.before && column === answer.pair.word;
    const share = p ? value : value / Math.max(row.sum, 1);
    const made = el(
      "td",
      {
        class: `${grown ? "grown" : ""} ${value ? "" : "zero"}`.trim(),
        "data-row": row.word,
        "data-column": column,
        "data-value": value,
        title: `${row.word} ${column}: ${value}${grown ? ", just counted" : ""}`,
      },
      p ? shortProbability(value) : value,
    );
    if (grown) made.append(el("span", { class: "hidden" }, " just counted"));
    if (share > 0)
      made.style.background = `color-mix(in srgb, var(--bar) ${Math.round(25 + 75 * share)}%, transparent)`;
    return made;
  }

  /** Scroll the table, never the page, to a cell that is out of sight. */
  function uncover(grown) {
    if (!grown) return;
    const box = node.getBoundingClientRect(),
      inside = grown.getBoundingClientRect();
    const head = node.querySelector("thead").offsetHeight,
      first = node.querySelector("tbody th").offsetWidth;
    const last = node.querySelector(".sum").offsetWidth;
    if (inside.right > box.right - last) node.scrollLeft += inside.right - box.right + last;
    else if (inside.left < box.left + first) node.scrollLeft -= box.left + first - inside.left;
    if (inside.bottom > box.bottom) node.scrollTop += inside.bottom - box.bottom + 8;
    else if (inside.top < box.top + head) node.scrollTop -= box.top + head - inside.top;
  }

  return { node, draw };
}

function heading(word, scope) {
  return el("th", { scope, title: MARKS[word] ?? word }, word);
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** A probability in at most three decimals; one that is there is never shown as 0. */
export function shortProbability(p) {
  return p > 0 && p < 0.0005 ? "<.001" : String(Number(p.toFixed(3)));
}
