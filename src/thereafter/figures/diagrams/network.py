"""A recurrent network unrolled over time: a column a step, a row a layer and direction. A Transformer: the block in
the order its code computes it, and what comes before and after the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch

from thereafter.base.kinds import KINDS
from thereafter.figures.diagrams.drawing import Drawing
from thereafter.figures.diagrams.reading import CallRecorder, TracedValue
from thereafter.figures.figure import Figure
from thereafter.figures.style import BLUE, RED
from thereafter.layers.attention import Block, Sight
from thereafter.layers.inputs import Lane, build_lanes
from thereafter.models.settings import RecurrentSettings, TransformerSettings

_COLUMN, _ROW = 128, 92
_WIDTH, _HEIGHT = 74, 38
Layers = Sequence[tuple[Lane, ...]]


def layers_of(kind: str, settings: RecurrentSettings) -> list[tuple[Lane, ...]]:
    """The lanes a recurrent language model of these completed settings is built of."""
    sizes: list[tuple[int, ...]] = [(size,) for size in settings.sizes]
    return build_lanes(KINDS[kind].cell_name, settings.embed or settings.hidden, sizes, settings.cell_options())


def draw_network(
    layers: Layers,
    *,
    steps: int = 4,
    reads: str = "every",
    writes: str = "every",
    words: Sequence[str] = (),
    output: str = "y",
    feedback: bool = False,
    backward: bool = False,
    connect: str | None = None,
    beside: Mapping[int, str] | None = None,
) -> Drawing:
    """The drawing of a stack of lanes.

    `reads` and `writes`: "every", "first" or "last" step has an input or an output. `feedback`: each output is the next
    input. `backward`: the way of the gradient too. `connect`: as the layers' own. `beside`: words for the gap below a
    layer (0: between input and first layer; the number of layers: below the output).
    """
    drawing = Drawing()
    rows = [lane for lanes in layers for lane in lanes]
    two = max(len(lanes) for lanes in layers) > 1
    apart = _COLUMN + (70 if two else 0) + (26 if connect else 0)
    lift: dict[int, float] = {}
    height = 0.0
    for lanes in layers:
        for lane in lanes:
            height += _ROW
            lift[id(lane)] = height
        height += (_ROW - 20) * (len(lanes) > 1) + 26 * (connect is not None and lanes[0].layer > 0)
    top = height + _ROW

    def x_of(step: int, lane: Lane | None = None) -> float:
        shift = 0.0 if not two or lane is None else (46 if lane.reverse else -46)
        return step * apart + shift

    for step in range(1, steps + 1):
        below = ""
        if reads == "every" or feedback or (reads == "first" and step == 1):
            below = f"x{step}"
            word = words[step - 1] if step <= len(words) else f"x<sub>{step}</sub>"
            drawing.box(
                below, x_of(step), 0, word, "input", max(44, 16 + 8 * len(words[step - 1]) if words else 44), 32
            )
        for lanes in layers:
            above = []
            for lane in lanes:
                name = f"{lane.name} at {step}"
                text = type(lane.cell).__name__
                drawing.box(name, x_of(step, lane), lift[id(lane)], text, "layer", _WIDTH, _HEIGHT)
                if below:
                    drawing.arrow(below, name)
                above.append(name)
            below = _join(drawing, above, lanes, step, x_of(step), connect, below)
        if writes == "every" or (writes == "last" and step == steps):
            drawing.box(f"y{step}", x_of(step), top, f"{output}<sub>{step}</sub>", "output", 54, 32)
            drawing.arrow(below, f"y{step}")
            if backward:
                _against(drawing, below, f"y{step}")
    for lane in rows:
        _through_time(drawing, lane, steps, backward)
    if feedback:
        for step in range(1, steps):
            x = x_of(step + 1) - _WIDTH / 2 - 10  # clear of the state's name in the middle
            drawing.arrow(f"y{step}", f"x{step + 1}", via=[(x, top), (x, 0)], colour=BLUE, dash="dash")
    _row_names(drawing, layers, lift, drawing.extent()[1] + 40, beside, top)
    return drawing


def _join(
    drawing: Drawing, above: list[str], lanes: tuple[Lane, ...], step: int, x: float, connect: str | None, below: str
) -> str:
    """What the next layer reads: the box itself, both directions side by side, or the sum with what the layer read."""
    highest = drawing.boxes[above[-1]]
    result = above[0]
    if len(above) > 1:
        result = f"both of layer {lanes[0].layer} at {step}"
        size = sum(lane.cell.output_size for lane in lanes)
        drawing.box(result, x, highest.y + _ROW - 26, f"→ and ←, {size}", "operation", 104, 28)
        for name in above:
            drawing.arrow(name, result)
    if connect is not None and lanes[0].layer > 0:
        name = f"{connect} round layer {lanes[0].layer} at {step}"
        source = drawing.boxes[below]
        round_ = drawing.box(name, x, drawing.boxes[result].y + 46, "+", "operation", 24, 24)
        drawing.arrow(result, name)
        side = x + _WIDTH / 2 + 12 + (46 if len(above) > 1 else 0)
        leaves = source.y + source.height / 2 + 8
        via = [(side, leaves), (side, round_.y)]
        drawing.arrow(below, name, via=via, start=(source.x, leaves), colour=BLUE)
        result = name
    return result


def _through_time(drawing: Drawing, lane: Lane, steps: int, backward: bool) -> None:
    """The state of a lane, handed from step to step, in its own direction."""
    order = list(range(steps, 0, -1) if lane.reverse else range(1, steps + 1))
    first = drawing.boxes[f"{lane.name} at {order[0]}"]
    start, side = f"{lane.name} before the first step", 1 if lane.reverse else -1
    drawing.box(start, first.x + side * (_WIDTH / 2 + 64), first.y, _state(lane, "0"), "state", 56, 32)
    drawing.arrow(start, first.name)
    for step, further in pairwise(order):
        before, after = f"{lane.name} at {step}", f"{lane.name} at {further}"
        drawing.arrow(before, after, label=_state(lane, str(step)))
        if backward:
            _against(drawing, before, after)


def _state(lane: Lane, step: str) -> str:
    return ", ".join(f"{field}<sub>{step}</sub>" for field in lane.cell.state_sizes())


def _against(drawing: Drawing, before: str, after: str) -> None:
    """The gradient's arrow, beside the arrow it runs against."""
    first, second = drawing.boxes[before], drawing.boxes[after]
    if first.y == second.y:
        start, end = (second.x - second.width / 2, second.y - 11), (first.x + first.width / 2, first.y - 11)
    else:
        start, end = (second.x + 12, second.y - second.height / 2), (first.x + 12, first.y + first.height / 2)
    drawing.arrow(after, before, start=start, end=end, colour=RED, dash="dash")


def _row_names(
    drawing: Drawing, layers: Layers, lift: dict[int, float], x: float, beside: Mapping[int, str] | None, top: float
) -> None:
    for lanes in layers:
        for lane in lanes:
            way = " backward" if lane.reverse else (" forward" if len(lanes) > 1 else "")
            text = f"layer {lane.layer + 1}{way}:<br>{lane.cell.input_size} → {lane.cell.output_size}"
            drawing.note(x, lift[id(lane)], text)
    for level, text in (beside or {}).items():
        y = top - 30 if level == len(layers) else lift[id(layers[level][0])] - _ROW / 2
        drawing.note(x, y, text)


def unrolled_figure(layers: Layers, *, steps: int = 5, backward: bool = False) -> Figure:
    """One network over time, the same weights at every step; with the backward pass of the gradient."""
    cell = layers[0][0].cell
    weights = sum(math.prod(shape) for lanes in layers for lane in lanes for shape in lane.cell.shapes().values())
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
    dropouts = [settings.dropout_input, *[settings.dropout_hidden] * (len(layers) - 1), settings.dropout]
    lines = {level: [f"dropout {share:g}"] if share else [] for level, share in enumerate(dropouts)}
    lines[0].insert(0, f"word vectors: {settings.embed}")
    lines[len(layers)].append(f"{settings.head} softmax, {vocabulary:,} words")
    gaps = {level: "<br>".join(texts) for level, texts in lines.items() if texts}
    tied = "the matrix of the word vectors" if settings.tied else "a matrix of its own"
    drawing = draw_network(layers, steps=steps, connect=settings.connect, beside=gaps, output="p")
    plural = "s" * (len(layers) > 1)
    sizes = ", ".join(map(str, settings.sizes))
    caption = f"The {kind} language model of {len(layers)} layer{plural}, from its settings: sizes {sizes}"
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


_BLOCK_ROW, _BLOCK_WIDTH = 54, 250
_WORDS = {"layer_norm": "layer norm", "gelu": "GELU"}


def transformer_figure(settings: TransformerSettings, vocabulary: int) -> Figure:
    """The language model of these settings, from the words at the bottom to the softmax at the top."""
    settings = settings.complete(vocabulary)
    stages, shapes = read_block(settings)
    drawing = Drawing()
    frame_top = 2 * _BLOCK_ROW + 40 + sum((len(nodes) + (kind == "add")) * _BLOCK_ROW for kind, nodes in stages)
    drawing.box(
        "block",
        0,
        (2 * _BLOCK_ROW + 2 + frame_top) / 2,
        "",
        "frame",
        _BLOCK_WIDTH + 110,
        frame_top - 2 * _BLOCK_ROW - 2,
    )
    drawing.box("words", 0, 0, f"words and {settings.positions} positions", "input", _BLOCK_WIDTH, 34)
    drawing.box("vectors", 0, _BLOCK_ROW + 6, f"vectors of {settings.hidden} numbers", "state", _BLOCK_WIDTH, 34)
    drawing.arrow("words", "vectors")
    before, y = _stages(drawing, stages, shapes, settings, "vectors", 2 * _BLOCK_ROW + 34)
    if settings.norm == "pre":
        y = frame_top + 34
        drawing.box("last norm", 0, y, "layer norm", "layer", _BLOCK_WIDTH, 32)
        drawing.arrow(before, "last norm")
        before = "last norm"
    y = max(y, frame_top - 20) + _BLOCK_ROW
    tied = "tied to the word vectors" if settings.tied else "a matrix of its own"
    drawing.box("head", 0, y, f"{settings.head} softmax: {vocabulary:,} words<br>{tied}", "output", _BLOCK_WIDTH, 44)
    drawing.arrow(before, "head")
    drawing.note(_BLOCK_WIDTH / 2 + 66, 2 * _BLOCK_ROW + 16, f"<b>× {settings.layers}</b> blocks")
    drawing.note(_BLOCK_WIDTH / 2 + 66, 0, f"at most {settings.context} words")
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
            drawing.box(name, 0, y, _word(node, shapes, settings), _kind(node), _BLOCK_WIDTH, 32)
            drawing.arrow(before, name)
            before, y = name, y + _BLOCK_ROW
        if kind == "add":
            name = f"add {number}"
            drawing.box(name, 0, y, "+", "operation", 26, 26)
            drawing.arrow(before, name)
            side, leaves = -_BLOCK_WIDTH / 2 - 26, drawing.boxes[f"{nodes[0].operation} {number}.0"].y - 25
            drawing.arrow(stream, name, start=(0, leaves), via=[(side, leaves), (side, y)], colour=BLUE)
            before, y = name, y + _BLOCK_ROW
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
