"""A plot as a notebook shows it: with its title, and its caption below that.

Two forms of one picture: plotly's own, which JupyterLab and VS Code draw, and HTML for every other page. plotly's
script (5 MB) is written into the HTML of the first figure of a session only, as plotly itself does it.
"""

from __future__ import annotations

import json
import textwrap
from html import escape
from itertools import count

from thereafter.figures.plot import Plot
from thereafter.packages import require

PLOTLY = "application/vnd.plotly.v1+json"
HTML = "text/html"
_TITLE, _LINE = 44, 17
_shown = count()


def bundle(plot: Plot, title: str, caption: str) -> dict[str, object]:
    """The picture by the type of its contents."""
    return {PLOTLY: titled(plot, title, caption), HTML: as_html(plot, title, caption, script=next(_shown) == 0)}


def as_html(plot: Plot, title: str, caption: str, *, script: bool = True) -> str:
    """Title, plot and caption as a piece of a page; with plotly's script, unless the page has it already."""
    drawn = plot.to_html(full_html=False, include_plotlyjs=script, config={"displaylogo": False})
    return f"<h4>{escape(title)}</h4>{drawn}<p>{escape(caption)}</p>"


def titled(plot: Plot, title: str, caption: str) -> dict[str, object]:
    """plotly's description of a copy of the plot that has the title and the caption above it."""
    copy: Plot = require("plotly.graph_objects", "drawing a picture").Figure(plot)
    width, height = int(copy.layout.width or 760), int(copy.layout.height or 460)
    lines = textwrap.wrap(caption, max(30, width // 7)) or [""]
    above, before = _TITLE + _LINE * len(lines), int(copy.layout.margin.t or 0)
    words = {"text": escape(title, quote=False), "x": 0.02, "xanchor": "left", "y": 1 - 16 / (height + above)}
    words["yanchor"], words["yref"] = "top", "container"
    subtitle = {"text": "<br>".join(escape(line, quote=False) for line in lines), "font": {"size": 12}}
    copy.update_layout(title={**words, "subtitle": subtitle}, height=height + above, margin={"t": before + above})
    described: dict[str, object] = json.loads(copy.to_json())
    return described
