// A table that is sorted by clicking a heading. Rows come in groups; each group is sorted for itself.
import { el } from "./dom.js";

// a heading that can be pressed
const PLAIN = "background:none;border:0;padding:.2rem 0;font-weight:600;white-space:nowrap";
// read whole where the table is cut
const WHOLE = "position:sticky;left:.6rem;display:inline-block;max-width:75vw;white-space:normal";

/**
 * { node, draw(columns, groups, first) }: columns are { key, title, show(row) }, groups are { title, rows }. The table
 * is sorted by the key `sort`, or by `first` where it has no such column. `changed(key, down)` is called whenever a
 * heading is clicked. Rows without a value come last, in both directions.
 */
export function sortable({ label, sort, down = false, changed = () => {} }) {
  const table = el("table", { "aria-label": label });
  const node = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, table);
  let content = { columns: [], groups: [] };

  function order(column) {
    if (column.key === sort) down = !down;
    else [sort, down] = [column.key, false];
    changed(sort, down);
    fill();
    table.querySelector(`th[data-key="${sort}"] button`).focus();
  }

  function fill() {
    const { columns, groups } = content;
    const head = el(
      "tr",
      {},
      columns.map((column) => {
        const now = column.key === sort;
        return el(
          "th",
          { scope: "col", "data-key": column.key, "aria-sort": now ? (down ? "descending" : "ascending") : "none" },
          el(
            "button",
            { type: "button", style: PLAIN, onclick: () => order(column) },
            column.title,
            el(
              "span",
              { "aria-hidden": "true", style: "font-size:.75em;margin-left:.15rem" },
              now ? (down ? "▼" : "▲") : "↕",
            ),
          ),
        );
      }),
    );
    const bodies = groups
      .filter((group) => group.rows.length)
      .map((group) =>
        el(
          "tbody",
          {},
          group.title
            ? el(
                "tr",
                {},
                el(
                  "th",
                  { scope: "rowgroup", colspan: columns.length, class: "note" },
                  el("span", { style: WHOLE }, group.title),
                ),
              )
            : null,
          group.rows.toSorted(by).map((row) =>
            el(
              "tr",
              { "data-row": row.name },
              columns.map((column, at) =>
                at
                  ? el("td", { "data-key": column.key, style: "white-space:nowrap" }, column.show(row))
                  : el("th", { scope: "row" }, column.show(row)),
              ),
            ),
          ),
        ),
      );
    table.replaceChildren(el("thead", {}, head), ...bodies);
  }

  function by(a, b) {
    const [one, other] = [a[sort], b[sort]];
    if (one == null || other == null) return (one == null) - (other == null);
    const difference = typeof one === "string" ? one.localeCompare(other) : one - other;
    return down ? -difference : difference;
  }

  const draw = (columns, groups, first) => {
    if (!columns.some((column) => column.key === sort)) [sort, down] = [first, false];
    content = { columns, groups };
    fill();
  };
  return { node, draw };
}
