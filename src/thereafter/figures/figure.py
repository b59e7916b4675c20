"""A figure as its reader gets it: a plot, one line of caption, and the numbers behind it as a table.

A notebook shows it with its title and caption; `save` writes it as a file. Several make one HTML page: plotly's script
(4.8 MB) is inside, once, or a file beside it; nothing is fetched.
"""

from __future__ import annotations

import base64
import json
import math
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from os import PathLike
from pathlib import Path

import numpy as np

from thereafter.base.kinds import Registry
from thereafter.base.packages import require
from thereafter.base.tabular import Row, Tabular, csv_text
from thereafter.errors import OptionError
from thereafter.figures.style import Plot

_FUNCTIONS = {
    "figures.catalogue": ("bits_by_model", "draw"),
    "figures.dynamics": ("gate_surface", "prediction_surface", "saturation", "senses", "timescales", "trajectory"),
    "figures.figure": ("Figure",),
    "figures.gradients": (
        "activation_stability",
        "gradient_decay",
        "gradient_depth",
        "jacobian_paths",
        "jacobian_spectrum",
        "repeated_multiplication",
        "truncation_kept",
    ),
    "figures.memory": (
        "accuracy_by_congruence",
        "accuracy_by_distance",
        "accuracy_by_group",
        "accuracy_by_n",
        "bptt_memory_by_length",
        "expectation_along",
        "information_decay",
        "memory_by_length",
        "state_by_length",
        "time_by_length",
        "word_class_by_layer",
    ),
    "figures.pictures": ("write",),
    "figures.surprisal": ("coloured_words", "sparsity", "temperature"),
    "figures.tasks": (
        "alignment",
        "bleu_by_length",
        "confusion",
        "measured_alignment",
        "measured_bleu",
        "measured_confusion",
    ),
    "figures.traces": ("gates", "gates_by_class", "head_maps", "parameter_counts", "positions", "training_curves"),
    "figures.units": ("coloured_units", "number_along", "unit_ranking"),
    "series.forecasting.figures": (
        "error_by_steps",
        "forecast_fan",
        "gates_over_series",
        "steps_ahead",
        "unusual_points",
    ),
    "vision.figures": (
        "attended_picture",
        "belief_by_frame",
        "drawn_strokes",
        "glimpse_path",
        "measured_belief",
        "measured_caption",
        "measured_frames",
        "measured_glimpses",
        "measured_nats",
        "measured_strokes",
        "nats_by_step",
        "predicted_frames",
    ),
}

DOOR = Registry(
    "figure function", {name: f"thereafter.{module}:{name}" for module, names in _FUNCTIONS.items() for name in names}
)
"""What a user may call, and where it is."""


Cell = str | float | None
"""What a table has in one place: a word, a number, or nothing."""
Table = Mapping[str, Sequence[Cell]]
"""Columns by name, all of one length."""


@dataclass(frozen=True)
class Figure(Tabular):
    """`plot` is a plotly figure without a title: `title` stands above it, `caption` below, wherever it is shown.

    The caption says in one line what was measured, on which model and text.
    """

    name: str
    title: str
    caption: str
    plot: Plot
    table: Table

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.table.items()}
        if len(set(lengths.values())) > 1:
            raise OptionError(f"the columns of {self.name!r} have the lengths {lengths}; expected one length")

    def words(self, column: str) -> list[str]:
        """A column of the table as words."""
        return [str(cell) for cell in self.table[column]]

    def numbers(self, column: str) -> list[float]:
        """A column of the table as numbers; a cell without one is NaN."""
        return [math.nan if cell is None else float(cell) for cell in self.table[column]]

    def to_rows(self) -> list[Row]:
        """The numbers behind the plot."""
        return [dict(zip(self.table, cells, strict=True)) for cells in zip(*self.table.values(), strict=True)]

    def csv(self) -> str:
        """The table as comma-separated values."""
        return csv_text(self.to_rows()) or ",".join(self.table) + "\n"

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it in the format that the name says: .html, .png, .svg, .csv or .json."""
        write: Callable[[Sequence[Figure], Path], Path] = DOOR.load("write")
        return write([self], Path(path))

    def _repr_html_(self) -> str:
        """Title, plot and caption as a piece of a page, with all that it needs."""
        return as_html(self.plot, self.title, self.caption)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """What a notebook shows: the interactive plot under its title and caption."""
        html = as_html(self.plot, self.title, self.caption, script=next(_shown) == 0)
        return {PLOTLY: json.loads(titled(self).to_json()), HTML: html}


# A notebook gets two forms of one picture: plotly's own, which JupyterLab and VS Code draw, and HTML for every other
# page. plotly's script (5 MB) is written into the HTML of the first figure of a session only, as plotly itself does it.

PLOTLY = "application/vnd.plotly.v1+json"
HTML = "text/html"
_TITLE, _LINE = 27, 17
_shown = count()


def as_html(plot: Plot, title: str, caption: str, *, script: bool = True) -> str:
    """Title, plot and caption as a piece of a page; with plotly's script, unless the page has it already."""
    drawn = plot.to_html(full_html=False, include_plotlyjs=script, config={"displaylogo": False})
    return f"<h4>{escape(title)}</h4>{drawn}<p>{escape(caption)}</p>"


def titled(figure: Figure) -> Plot:
    """A copy of the plot with the figure's title and caption above it, as notebooks and files show it."""
    copy: Plot = require("plotly.graph_objects", "drawing a picture").Figure(figure.plot)
    width, height = int(copy.layout.width or 760), int(copy.layout.height or 460)
    heading = textwrap.wrap(figure.title, max(20, (width - 48) // 10)) or [""]
    lines = textwrap.wrap(figure.caption, max(30, width // 7)) or [""]
    above, before = _TITLE * len(heading) + _LINE * (1 + len(lines)), int(copy.layout.margin.t or 0)
    words = {"text": _plain(heading), "x": 0.02, "xanchor": "left", "y": 1 - 16 / (height + above)}
    words |= {"yanchor": "top", "yref": "container"}
    subtitle = {"text": _plain(lines), "font": {"size": 12}}
    copy.update_layout(title={**words, "subtitle": subtitle}, height=height + above, margin={"t": before + above})
    return copy


def _plain(lines: Sequence[str]) -> str:
    """Text that plotly shows as it is; it knows the names of <, > and &, and would show that of a quotation mark."""
    return "<br>".join(escape(line, quote=False) for line in lines)


ROWS_SHOWN = 200
"""The most rows of a table on the page; the file offered below it has all."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --quiet: #555; --page: #fff; --line: #ddd; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --quiet: #b0b0b0; --page: #16181b; --line: #3a3d42; } }
body { font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink); background: var(--page);
  max-width: 64rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin: 0 0 .4rem; } h2 { font-size: 1.2rem; margin: 2.4rem 0 .5rem; }
p, li { max-width: 48rem; } a { color: inherit; } nav ol { columns: 20rem; padding-left: 1.4rem; }
figure { margin: 0 0 1rem; } figcaption, .quiet { color: var(--quiet); font-size: .93rem; max-width: 48rem; }
.plot { background: #fff; border-radius: 6px; padding: 4px; overflow-x: auto; width: fit-content; max-width: 100%; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--quiet); font-size: .93rem; }
.wide { overflow: auto; max-height: 28rem; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; margin: .4rem 0; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
td.word, th.word { text-align: left; } td.best { font-weight: 700; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid var(--line); padding: .6rem .8rem;
  font: .86rem/1.45 ui-monospace, Menlo, Consolas, monospace; margin: .2rem 0 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: .92rem; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
.missing { display: none; } .bare .missing { display: block; } .bare .plot { display: none; }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } h2 { break-after: avoid; }
  details { display: none; }
  figure, table, section.text { break-inside: avoid; } .wide { max-height: none; overflow: visible; }
  table { font-size: 8pt; }
  .plot { overflow: visible; zoom: .8; print-color-adjust: exact; } .plot .modebar { display: none; } }
"""
_CONFIG = {"displaylogo": False, "responsive": False}


def script_name() -> str:
    """The file name of plotly's script, with its version: pages of several versions may be in one folder."""
    return f"plotly-{require('plotly.offline', 'drawing a picture').get_plotlyjs_version()}.min.js"


def script_text() -> str:
    """plotly's script."""
    return str(require("plotly.offline", "drawing a picture").get_plotlyjs())


def page(
    figures: Sequence[Figure],
    *,
    title: str,
    lead: str = "",
    sources: Mapping[str, str] | None = None,
    beside: bool = False,
) -> str:
    """The whole page. `lead` stands below its title; `sources` says of a figure's name whom it is after. `beside`:
    plotly's script is read from the file `script_name()` beside the page."""
    alone = len(figures) == 1 and figures[0].title == title
    parts = [f"<p>{escape(lead)}</p>"] if lead else []
    if len(figures) > 2:
        links = "".join(f'<li><a href="#{escape(one.name)}">{escape(one.title)}</a></li>' for one in figures)
        parts.append(f"<nav><ol>{links}</ol></nav>")
    for one in figures:
        parts.append(section(one, heading=not alone, source=(sources or {}).get(one.name, "")))
    return document(title, parts, beside=beside)


def document(title: str, parts: Sequence[str], *, plots: bool = True, beside: bool = False) -> str:
    """A page with a title above its parts; where it has `plots`, with plotly's script inside or `beside` it."""
    script, missing = "", ""
    if plots and beside:
        script = f"""<script src="{script_name()}" onerror="document.documentElement.className = 'bare'"></script>"""
        missing = f'<p class="missing">The plots need {script_name()} in the folder of this page; try copying both.</p>'
    elif plots:
        script = f"<script>{script_text()}</script>"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style>",
            f"{script}</head><body>",
            f"<h1>{escape(title)}</h1>{missing}",
            *parts,
            "</body></html>",
            "",
        ]
    )


def section(figure: Figure, *, heading: bool = True, source: str = "") -> str:
    """A figure on a page: title, plot, caption, and its numbers, folded. `source`: whom it is after."""
    plot = figure.plot.to_html(full_html=False, include_plotlyjs=False, config=_CONFIG)
    parts = [f'<section id="{escape(figure.name)}">']
    if heading:
        parts.append(f"<h2>{escape(figure.title)}</h2>")
    caption = escape(figure.caption) + (f"<br>After {escape(source)}." if source else "")
    parts += ["<figure>", f'<div class="plot">{plot}</div>', f"<figcaption>{caption}</figcaption>", "</figure>"]
    return "\n".join([*parts, _numbers(figure), "</section>"])


def _numbers(figure: Figure) -> str:
    """The table, folded, and all of it as a file inside the page."""
    rows = list(zip(*figure.table.values(), strict=True))
    lines = [[plain(cell) for cell in row] for row in rows[:ROWS_SHOWN]]
    words = {place for line in lines for place, text in enumerate(line) if not _is_number(text)}
    shown = f", the first {ROWS_SHOWN} below" if len(rows) > ROWS_SHOWN else ""
    source = base64.b64encode(figure.csv().encode()).decode()
    file = f'<a download="{escape(figure.name)}.csv" href="data:text/csv;base64,{source}">{escape(figure.name)}.csv</a>'
    return (
        f"<details><summary>The numbers ({len(rows):,} rows{shown})</summary><p>{file}</p>"
        f"{html_table(list(figure.table), lines, words=words)}</details>"
    )


def html_table(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    words: Collection[int] = (0,),
    best: tuple[int, int] | None = None,
) -> str:
    """A table of texts: the columns `words` are no numbers, `best` is the cell in bold (line, column)."""

    def row(tag: str, number: int, texts: Sequence[str]) -> str:
        kinds = [["word"] * (column in words) + ["best"] * ((number, column) == best) for column in range(len(texts))]
        marks = [f' class="{" ".join(kind)}"' if kind else "" for kind in kinds]
        cells = (f"<{tag}{mark}>{escape(text)}</{tag}>" for mark, text in zip(marks, texts, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    body = "\n".join(row("td", number, line) for number, line in enumerate(lines))
    return f'<div class="wide"><table><thead>{row("th", -1, heads)}</thead><tbody>\n{body}\n</tbody></table></div>'


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def plain(value: object) -> str:
    """A value as its reader wants it: five significant places of a fraction, everything else as it is.

    >>> plain(0.123456789), plain(3), plain(2.0), plain("was")
    ('0.12346', '3', '2', 'was')
    """
    if isinstance(value, float | np.floating):
        number = float(value)
        return f"{number:.5g}" if math.isfinite(number) else str(number)
    return str(value)
