"""One calm look for all pictures: readable in print, by colour-blind readers, and on light or dark pages.

Colours are those of Okabe and Ito 2008, which all common kinds of colour blindness keep apart. A kind of model has the
same colour in every picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from thereafter.base.kinds import KINDS
from thereafter.base.packages import require

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    Plot: TypeAlias = Figure
else:
    Plot = object  # plotly is imported where it draws

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY = "#7F7F7F"
CYCLE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)

OF_ORDER = {"unigram": GREY, "bigram": "#B0B0B0"}
"""The colours of n-grams that are named by their order; a kind of model has its own in `kinds.KINDS`."""
OF_SERIES = {"naive": GREY, "seasonal-naive": "#B0B0B0", "drift": "#7A7A3D", "ar": BLACK, "linear": "#A6761D"}
"""The colours of forecasters without a network; "AR(4)" is an autoregression too."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")

AMOUNT = "Cividis"
"""From little to much."""
SIGN = ((0.0, BLUE), (0.5, "#F7F7F7"), (1.0, RED))
"""From negative over 0 to positive: blue, white, red. Give it a range that is symmetric about 0."""

FONT = "DejaVu Sans, Arial, sans-serif"
MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
WIDTH, HEIGHT = 760, 460
AXIS = {"showgrid": True, "gridcolor": "#E6E6E6", "zeroline": False, "linecolor": "#444444", "ticks": "outside"}


def colour(name: str, place: int = 0) -> str:
    """The colour of a model by the first word of its name, else the next of the cycle.

    >>> colour("lstm, 2 layers") == BLUE, colour("forget gate", 1) == RED
    (True, True)
    """
    first = name.split()[0].strip(",:").partition("(")[0].lower() if name.split() else ""
    if first in KINDS:
        return KINDS[first].colour
    return (OF_ORDER | OF_SERIES).get(first, CYCLE[place % len(CYCLE)])


def tints(names: Sequence[str]) -> list[str]:
    """A colour for each name: that of its kind, but where two are of one kind the next that is free."""
    chosen: list[str] = []
    for place, name in enumerate(names):
        tint = colour(name, place)
        chosen.append(next((one for one in (tint, *CYCLE) if one not in chosen), tint))
    return chosen


def canvas(x: str = "", y: str = "", *, width: int = WIDTH, height: int = HEIGHT, **layout: object) -> Plot:
    """An empty plotly figure in the common look, its axes labelled `x` and `y`."""
    go = require("plotly.graph_objects", "drawing a picture")
    figure: Plot = go.Figure()
    figure.update_layout(
        width=width,
        height=height,
        template="none",
        font={"family": FONT, "size": 14, "color": "#222222"},
        colorway=list(CYCLE),
        paper_bgcolor="white",
        plot_bgcolor="white",
        margin={"l": 76, "r": 24, "t": 24, "b": 64},
        legend={"bgcolor": "rgba(255,255,255,0.8)", "borderwidth": 0},
        hovermode="closest",
        **layout,
    )
    figure.update_xaxes(title_text=x, **AXIS)
    figure.update_yaxes(title_text=y, **AXIS)
    return figure


def panels(rows: int, columns: int, *, width: int, height: int, **options: object) -> Plot:
    """Small plots in the common look; `options` are those of plotly's `make_subplots`."""
    grid: Plot = require("plotly.subplots", "drawing a picture").make_subplots(rows, columns, **options)
    grid.update_layout(canvas(width=width, height=height).layout)
    grid.update_xaxes(**AXIS)
    grid.update_yaxes(**AXIS)
    return grid


def colour_bar(title: str, **options: object) -> dict[str, object]:
    """The scale of colours beside a map or a surface."""
    return {"title": {"text": title, "side": "right"}, "thickness": 12, **options}
