"""A Transformer: the block in the order its code computes it, and what comes before and after the blocks."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from thereafter.figures.diagrams.drawing import Drawing
from thereafter.figures.diagrams.reading import CallRecorder, TracedValue
from thereafter.figures.figure import Figure
from thereafter.figures.style import BLUE
from thereafter.layers.transformer import Block, Sight
from thereafter.models.settings import TransformerSettings

_ROW, _WIDTH = 54, 250
_WORDS = {"layer_norm": "layer norm", "gelu": "GELU"}


def transformer_figure(settings: TransformerSettings, vocabulary: int) -> Figure:
    """The language model of these settings, from the words at the bottom to the softmax at the top."""
    settings = settings.complete(vocabulary)
    stages, shapes = read_block(settings)
    drawing = Drawing()
    frame_top = 2 * _ROW + 40 + sum((len(nodes) + (kind == "add")) * _ROW for kind, nodes in stages)
    drawing.box("block", 0, (2 * _ROW + 2 + frame_top) / 2, "", "frame", _WIDTH + 110, frame_top - 2 * _ROW - 2)
    drawing.box("words", 0, 0, f"words and {settings.positions} positions", "input", _WIDTH, 34)
    drawing.box("vectors", 0, _ROW + 6, f"vectors of {settings.hidden} numbers", "state", _WIDTH, 34)
    drawing.arrow("words", "vectors")
    before, y = _stages(drawing, stages, shapes, settings, "vectors", 2 * _ROW + 34)
    if settings.norm == "pre":
        y = frame_top + 34
        drawing.box("last norm", 0, y, "layer norm", "layer", _WIDTH, 32)
        drawing.arrow(before, "last norm")
        before = "last norm"
    y = max(y, frame_top - 20) + _ROW
    tied = "tied to the word vectors" if settings.tied else "a matrix of its own"
    drawing.box("head", 0, y, f"{settings.head} softmax: {vocabulary:,} words<br>{tied}", "output", _WIDTH, 44)
    drawing.arrow(before, "head")
    drawing.note(_WIDTH / 2 + 66, 2 * _ROW + 16, f"<b>× {settings.layers}</b> blocks")
    drawing.note(_WIDTH / 2 + 66, 0, f"at most {settings.context} words")
    left_out = f" Dropout {settings.dropout:g}, in training alone, is left out." if settings.dropout else ""
    return drawing.figure(
        "transformer-block",
        f"A Transformer of {settings.layers} blocks, {settings.norm}-norm",
        f"The transformer language model, its block read off the code that computes it: {settings.heads} heads of "
        f"{settings.hidden // settings.heads} numbers, {settings.layers} blocks. A word sees itself and those before."
        f"{left_out}",
    )


Stage = tuple[str, list[TracedValue]]


def read_block(settings: TransformerSettings) -> tuple[list[Stage], dict[str, tuple[int, ...]]]:
    """The stages of a block in the order they are computed, and the shapes of its weights.

    A stage is ("add", the branch that is added to the stream) or ("then", one operation on the stream itself).
    """
    # meta tensors have shapes and no numbers: a block of any size is read at once
    with torch.device("meta"):
        block = Block(settings.hidden, settings.heads, settings.inner * settings.hidden, norm=settings.norm).eval()
        x_BTH = torch.zeros(1, 2, settings.hidden)
        sight = Sight.of([0], 2, torch.device("meta"))
    weights = dict(block.named_parameters())
    with torch.no_grad(), CallRecorder({"x": x_BTH, **weights}) as reader:
        y_BTH, _ = block(x_BTH, None, sight)
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    return _walk(reader.node(y_BTH), reader.node(x_BTH)), shapes


def _walk(node: TracedValue, start: TracedValue) -> list[Stage]:
    if node == start:
        return []
    if node.operation == "add":
        first, second = node.made_of
        stream, branch = (first, second) if first in _branch(second, None) else (second, first)
        return [*_walk(stream, start), ("add", _branch(branch, stream)[::-1])]
    return [*_walk(node.made_of[0], start), ("then", [node])]


def _branch(node: TracedValue, stream: TracedValue | None) -> list[TracedValue]:
    """A branch from its end back to where it leaves the stream."""
    branch: list[TracedValue] = []
    while node != stream and node.made_of:
        if node.operation != "part" or stream is None:
            branch.append(node)
        node = node.made_of[0]
    return branch if stream is not None else [*branch, node]


def _stages(
    drawing: Drawing,
    stages: list[Stage],
    shapes: Mapping[str, tuple[int, ...]],
    settings: TransformerSettings,
    before: str,
    y: float,
) -> tuple[str, float]:
    for number, (kind, nodes) in enumerate(stages):
        stream = before
        for place, node in enumerate(nodes):
            name = f"{node.operation} {number}.{place}"
            drawing.box(name, 0, y, _word(node, shapes, settings), _kind(node), _WIDTH, 32)
            drawing.arrow(before, name)
            before, y = name, y + _ROW
        if kind == "add":
            name = f"add {number}"
            drawing.box(name, 0, y, "+", "operation", 26, 26)
            drawing.arrow(before, name)
            side, leaves = -_WIDTH / 2 - 26, drawing.boxes[f"{nodes[0].operation} {number}.0"].y - 25
            drawing.arrow(stream, name, start=(0, leaves), via=[(side, leaves), (side, y)], colour=BLUE)
            before, y = name, y + _ROW
    return before, y


def _word(node: TracedValue, shapes: Mapping[str, tuple[int, ...]], settings: TransformerSettings) -> str:
    if node.operation == "linear":
        out, into = shapes[str(node.made_of[1].parts[0])]
        return f"linear, {into} → {out}"
    if node.operation == "scaled_dot_product_attention":
        return f"causal attention, {settings.heads} heads"
    return _WORDS.get(node.operation, node.operation)


def _kind(node: TracedValue) -> str:
    if node.operation == "scaled_dot_product_attention":
        return "gate"
    return "candidate" if node.operation == "linear" else "layer"
