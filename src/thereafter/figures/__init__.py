"""Figures of traces, measurements and training logs: a plot, a caption, and the numbers as a table.

    from thereafter import figures
    figures.gradient_decay([flow]).save("decay.html")       # or: flow.figure("gradient-decay").save("decay.html")

A measurement, a trace and a comparison draw themselves: `m.figure()`, `m.figure("name")`. `dir(figures)` lists what can
be called; nothing is imported before it is used.

What every figure is made of:
    figure              Figure: a plot with title, caption and table, as a notebook and an HTML page show it; what a
                        user may call, and from which file
    style               colours, fonts, an empty plot in the common look, what is used of a plotly figure
    lines               curves with their spread over seeds, marks, legends, letters in colours, rows of a table

What is drawn, one file for each family:
    traces              gates over a sentence, attention maps, positional encodings, training curves, parameter counts
    gradients           gradients by distance and depth, Jacobians, truncation, and their captions; activation
                        functions, eigenvalues
    dynamics            trajectories, senses of a word, surfaces, saturation, timescales; 3-D plots and their labels
    memory              what a model remembers, and what length costs; what it gets right, minimal pairs too
    units               a text in the colours of a unit, the unit of the subject's number
    surprisal           a text in the colours of its surprisal, unusual points of a series, temperature, sparsity of
                        n-grams
    tasks               alignments, BLEU by length, confusion matrices
    (in `series` and `vision`: fan charts, forecasts k steps ahead, gates over a window, where a captioner or a glimpse
    looked, strokes, frames)
    diagrams/           architecture diagrams, read off the code

How it is written:
    catalogue           every figure that `thereafter figure` can draw, and from which file; which is drawn of what; the
                        results of `thereafter compare` as measurements, and its models side by side
    pictures            files by their ending: HTML, PNG and SVG, CSV, JSON; pixels, frames and weights within a plot
"""

from __future__ import annotations

from thereafter.figures.figure import DOOR
from thereafter.figures.figure import Figure as Figure

__all__ = list(DOOR)


def __getattr__(name: str) -> object:
    if name not in DOOR:
        raise AttributeError(f"module 'thereafter.figures' has no attribute {name!r}")
    figure_function: object = DOOR.load(name)
    return figure_function


def __dir__() -> list[str]:
    return list(__all__)
