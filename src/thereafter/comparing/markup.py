"""The parts that the page of a comparison is made of: style, tables, figures, definitions. Every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #1b1b1b; background: #fff;
  max-width: 60rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
p, li { max-width: 46rem; } .quiet { color: #555; font-size: .92rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; margin: .4rem 0; }
th, td { padding: .22rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e4e4e4; }
th { border-bottom: 1.5px solid #888; font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child, td.word, th.word { text-align: left; }
td.best { font-weight: 700; }
svg { width: 100%; height: auto; max-width: 52rem; display: block; }
figure { margin: .6rem 0 1.4rem; } figcaption { color: #555; font-size: .92rem; max-width: 46rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f4; padding: .6rem .8rem; border-radius: 4px;
  font: .86rem/1.45 ui-monospace, Menlo, Consolas, monospace; margin: .2rem 0 1rem; }
pre b { font-weight: 700; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: .92rem; }
dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } h2 { break-after: avoid; }
  figure, table, section { break-inside: avoid; } pre { background: none; border: 1px solid #ccc; } }
"""


def html_table(
    heads: Sequence[str], lines: Sequence[Sequence[str]], best: set[tuple[int, int]], words: Sequence[int] = (0,)
) -> str:
    """A table; `best` are cells in bold (line, column), `words` the columns that are no numbers."""

    def cell(tag: str, text: str, column: int, mark: bool = False) -> str:
        kinds = " ".join(kind for kind, on in (("word", column in words), ("best", mark)) if on)
        return f"<{tag}{f' class={chr(34)}{kinds}{chr(34)}' if kinds else ''}>{escape(text)}</{tag}>"

    head = "".join(cell("th", text, column) for column, text in enumerate(heads))
    body = "\n".join(
        "<tr>"
        + "".join(cell("td", text, column, (number, column) in best) for column, text in enumerate(line))
        + "</tr>"
        for number, line in enumerate(lines)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def figure(svg: str, caption: str) -> str:
    """A picture with its caption."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def definitions(named: dict[str, str]) -> str:
    """Names with what they stand for."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in named.items()) + "</dl>"
