"""The pictures of recurrent networks: unrolled, stacked, in both directions, and what each step reads and writes."""

from __future__ import annotations

from collections.abc import Iterable

from thereafter.figures.diagrams.network import Layers, draw_network, layers_of
from thereafter.figures.figure import Figure
from thereafter.models.settings import RecurrentSettings


def unrolled_figure(layers: Layers, *, steps: int = 5, backward: bool = False) -> Figure:
    """One network over time, the same weights at every step; with the backward pass of the gradient."""
    cell = layers[0][0].cell
    weights = sum(_size(shape) for lanes in layers for lane in lanes for shape in lane.cell.shapes().values())
    drawing = draw_network(layers, steps=steps, backward=backward, output="loss" if backward else "y")
    caption = (
        f"A network of {type(cell).__name__} cells, {cell.input_size} inputs, {cell.output_size} units, {steps} steps. "
        f"Every column uses the same {weights:,} weights."
    )
    if not backward:
        return drawing.figure("unrolled", "A recurrent network, unrolled over time", caption)
    caption += " Dashed: the gradient, from every loss down and then back in time; what the columns find is added up."
    return drawing.figure("backpropagation", "Backpropagation through time", caption)


USES = {
    "many-to-many": ("every", "every", False, "an output at every step, as the output of a layer in thereafter.nn"),
    "many-to-one": ("every", "last", False, "one output after the last step, read off the state a layer returns"),
    "one-to-many": ("first", "every", True, "each output is the next input, as in lm.generate"),
}


def use_figure(layers: Layers, use: str, *, steps: int = 4) -> Figure:
    """What goes in and what comes out: a row of `USES`."""
    reads, writes, feedback, words = USES[use]
    drawing = draw_network(layers, steps=steps, reads=reads, writes=writes, feedback=feedback)
    cell = layers[0][0].cell
    caption = f"A network of {type(cell).__name__} cells, {cell.output_size} units, {steps} steps: {words}."
    return drawing.figure(use, f"{use.replace('-', ' ').capitalize()}", caption)


def stacked_figure(
    kind: str, settings: RecurrentSettings, vocabulary: int, *, steps: int = 4, name: str = "", title: str = ""
) -> Figure:
    """A language model of these settings: layers, sizes, dropout, connections around layers, tied or not."""
    settings = settings.complete(vocabulary)
    layers = layers_of(kind, settings)
    gaps: dict[int, str] = {}
    _add_line(gaps, 0, f"word vectors: {settings.embed}")
    if settings.dropout_input:
        _add_line(gaps, 0, f"dropout {settings.dropout_input:g}")
    if settings.dropout_hidden:
        for level in range(1, len(layers)):
            _add_line(gaps, level, f"dropout {settings.dropout_hidden:g}")
    if settings.dropout:
        _add_line(gaps, len(layers), f"dropout {settings.dropout:g}")
    tied = "the matrix of the word vectors" if settings.tied else "a matrix of its own"
    _add_line(gaps, len(layers), f"{settings.head} softmax, {vocabulary:,} words")
    drawing = draw_network(layers, steps=steps, connect=settings.connect, beside=gaps, output="p")
    plural = "s" * (len(layers) > 1)
    caption = (
        f"The {kind} language model of {len(layers)} layer{plural}, from its settings: sizes {_commas(settings.sizes)}"
    )
    caption += f", {settings.connect} connections round every layer but the first" if settings.connect else ""
    caption += f"; the softmax uses {tied}."
    title = title or f"A stack of {len(layers)} {type(layers[0][0].cell).__name__} layer{plural}"
    return drawing.figure(name or f"stacked-{kind}", title, caption)


def bidirectional_figure(layers: Layers, *, steps: int = 4) -> Figure:
    """Two directions: every step's output knows what came and what comes."""
    drawing = draw_network(layers, steps=steps)
    cell = layers[0][0].cell
    caption = (
        f"A layer of {type(cell).__name__} cells in both directions over {steps} steps: {cell.input_size} inputs, "
        f"{' and '.join(str(lane.cell.output_size) for lane in layers[0])} units, their outputs side by side."
    )
    return drawing.figure("bidirectional", "A network in both directions", caption)


def _add_line(gaps: dict[int, str], level: int, text: str) -> None:
    gaps[level] = f"{gaps[level]}<br>{text}" if level in gaps else text


def _commas(sizes: Iterable[int]) -> str:
    return ", ".join(map(str, sizes))


def _size(shape: tuple[int, ...]) -> int:
    whole = 1
    for axis in shape:
        whole *= axis
    return whole
