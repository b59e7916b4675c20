"""A recurrent cell: what it reads on the left, its gates in the middle, the new state on the right.

`path_figure` draws the path of a memory through time: what each step does to it, and nothing else.
"""

from __future__ import annotations

import math
import re
from collections import deque

from thereafter.cells.base import Cell
from thereafter.figures.diagrams.drawing import Drawing
from thereafter.figures.diagrams.reading import (
    CellReading,
    TracedValue,
    formula,
    indexed,
    indices,
    operation_name,
    read_cell,
)
from thereafter.figures.figure import Figure
from thereafter.figures.style import BLUE, GREEN, PURPLE, RED

_ROW, _COLUMN = 78, 84
_GATE_HEIGHT, _LETTER = 48, 7.6
_BUS_COLOURS = (BLUE, RED, GREEN, PURPLE)


def cell_figure(cell: Cell, *, head: str = "", name: str = "", title: str = "") -> Figure:
    """The diagram of any cell. `head` is what reads h_t, such as "softmax over 10,000 words"."""
    drawing = draw_cell(cell, head)
    options = {key: value for key, value in cell.describe().items() if value not in (False, None, 0)}
    listed = ", ".join(f"{key} {value}" for key, value in options.items())
    return drawing.figure(
        name or f"{cell.name}-cell",
        title or f"The {type(cell).__name__} cell",
        f"One step of thereafter's {cell.name} cell, read off the code that computes it ({listed}). {_signs(drawing)}",
    )


def cells_figure(cells: dict[str, Cell], name: str, title: str, note: str = "") -> Figure:
    """Several cells one below the other, with how many weights each has. `note` is a sentence for the caption."""
    whole: Drawing | None = None
    counts = []
    for label, cell in cells.items():
        weights = sum(math.prod(shape) for shape in cell.shapes().values())
        counts.append(f"{label} {weights:,}")
        one = draw_cell(cell)
        left, _, _, top = one.extent()
        one.note(left, top + 22, f"<b>{label}</b>: {len(cell.blocks)} blocks of weights, {weights:,} numbers")
        whole = one if whole is None else whole.above(one)
    first = next(iter(cells.values()))
    assert whole is not None
    return whole.figure(
        name,
        title,
        f"Each cell's step, read off the code that computes it; weights of {first.input_size} inputs and "
        f"{first.hidden_size} units: {', '.join(counts)}. {_signs(whole)} {note}".strip(),
    )


def _signs(drawing: Drawing) -> str:
    """What the signs on a drawing mean, of those that stand on it."""
    text = " ".join(re.sub("<sub>.*?</sub>", "", box.text) for box in drawing.boxes.values())
    own = any(f"{letter}<sub>" in box.text for box in drawing.boxes.values() for letter in "WU")
    matrices = [letter for letter in "WUP" if re.search(rf"\b{letter}\b", text)]
    meanings = ["σ is the logistic function"] * ("σ" in text) + ["× and + act unit by unit"] * ("×" in text)
    meanings += ["p is a vector that acts unit by unit"] * (" p " in text)
    meanings += [f"{' and '.join(matrices)} {'are matrices' if len(matrices) > 1 else 'is a matrix'}"] * bool(matrices)
    meanings += ["in which every gate has rows of its own"] * own
    return ", ".join(meanings) + "."


def draw_cell(cell: Cell, head: str = "") -> Drawing:
    """The drawing itself."""
    return _CellDrawing(read_cell(cell), head).drawing


class _CellDrawing:
    """Places: old states that only take part unit by unit run along lanes at the top, the rest enters through buses."""

    def __init__(self, reading: CellReading, head: str) -> None:
        self.reading, self.drawing = reading, Drawing()
        self.steps = reading.operations()
        self.names = {
            node: f"{name}<sub>{'t' if name == 'x' else 't−1'}</sub>" for name, node in reading.sources.items()
        }
        self.names |= {node: name for name, node in reading.gates.items()}
        self.names |= {node: f"{field}<sub>t</sub>" for field, node in reading.states.items()}
        self.lanes = [node for node in reading.sources.values() if any(node in step.made_of for step in self.steps)]
        self.box_of: dict[TracedValue, str] = {}
        self._sources_and_gates()
        self._steps()
        self._results(head)
        self._buses()

    def _sources_and_gates(self) -> None:
        lane_steps = [step for step in self.steps if any(lane in step.made_of for lane in self.lanes)]
        keeps = {part for step in lane_steps for made in step.made_of for part in (made, *made.made_of)}
        # the gates that act on the old state stand next to it
        gates = sorted(self.reading.gates.items(), key=lambda item: item[1] not in keeps)
        entering = [node for node in self.reading.sources.values() if node not in self.lanes]
        rows = max(len(gates), len(entering))
        top = rows + len(self.lanes) - 1.0
        self.lane_y = {lane: (top - place) * _ROW for place, lane in enumerate(self.lanes)}
        index = indices(self.reading.gates)
        formulas = {name: indexed(formula(node, self.names), index[name]) for name, node in gates}
        letters = max(len(re.sub("<.*?>", "", one)) for one in formulas.values())
        self.gate_width = max(180, 26 + _LETTER * letters)
        self.gate_x = 60 + 22 * len(self.reading.sources) + 30 + self.gate_width / 2
        for lane, y in self.lane_y.items():
            self._source(lane, y)
        apart = max(62.0, (rows - 1) * _ROW / max(1, len(entering)))
        for place, node in enumerate(entering):
            self._source(node, (rows - 1) * _ROW / 2 + (place - (len(entering) - 1) / 2) * apart)
        for place, (name, node) in enumerate(gates):
            y = (rows - 1) * _ROW / 2 + ((len(gates) - 1) / 2 - place) * _ROW
            text = f"<b>{name}</b><br>{formulas[name]}"
            kind = "gate" if node.operation in ("sigmoid", "rsub") else "candidate"
            self.drawing.box(name, self.gate_x, y, text, kind, self.gate_width, _GATE_HEIGHT)
            self.box_of[node] = name

    def _source(self, node: TracedValue, y: float) -> None:
        name = f"{node.parts[0]}"
        kind = "input" if name == "x" else "state"
        self.drawing.box(name, 0, y, self.names[node], kind, 56, 34)
        self.box_of[node] = name

    def _steps(self) -> None:
        """Operations in columns by how many come before; on a lane where they carry it on."""
        column: dict[TracedValue, int] = {}
        place: dict[TracedValue, float] = {}
        start = self.gate_x + self.gate_width / 2 + 56
        counts: dict[str, int] = {}
        for step in self.steps:
            parts = [self._shown(part) for part in step.made_of if self._shown(part) in (*self.box_of, *column)]
            column[step] = 1 + max((column.get(part, 0) for part in parts), default=0)
            lanes = [part for part in parts if part in self.lanes or place.get(part) in self.lane_y.values()]
            gates = [part for part in parts if part in self.reading.gates.values()]
            if lanes and (len(parts) > 1 and (step.operation == "add" or lanes[0] in self.lanes)):
                place[step] = self.lane_y[lanes[0]] if lanes[0] in self.lanes else place[lanes[0]]
            elif gates and len(parts) > 1:
                heights = [self.drawing.boxes[self.box_of[part]].y for part in gates]
                others = [place[part] for part in parts if part in place and part not in lanes]
                place[step] = sum(heights + others) / len(heights + others)
            elif gates:  # a little above the gate, whose other arrows pass below
                place[step] = self.drawing.boxes[self.box_of[gates[0]]].y + 18 * (step.operation == "rsub")
            else:  # one step further on from another: beneath a lane, so that the lane stays free
                below = _ROW * 0.9 if lanes else 0.0
                place[step] = place[parts[0]] - below
            word = operation_name(step)
            counts[word] = counts.get(word, 0) + 1
            name = word if counts[word] == 1 else f"{word} {counts[word]}"
            round_ = len(word) <= 2
            size = (30.0, 30.0) if round_ else (14.0 + 8 * len(word), 28.0)
            self.drawing.box(name, start + (column[step] - 1) * _COLUMN, place[step], word, "operation", *size)
            self.box_of[step] = name
            for part in parts:
                self.drawing.arrow(self.box_of[part], name, start=self._leaving(part))
            self._weights_beside(step, name)
        self.end = start + max(column.values(), default=0) * _COLUMN

    def _leaving(self, part: TracedValue) -> tuple[float, float] | None:
        """Arrows leave gates in the middle of their right side, and all else where it is nearest."""
        box = self.drawing.boxes[self.box_of[part]]
        return (box.x + box.width / 2, box.y) if part in self.reading.gates.values() else None

    def _weights_beside(self, step: TracedValue, name: str) -> None:
        """A factor that is made of weights alone is written below the operation; a matrix is the operation's name."""
        box = self.drawing.boxes[name]
        for part in step.made_of:
            if step.operation == "mul" and part not in self.box_of and not self.reading.seen(part):
                self.drawing.note(box.x - 15, box.y - 28, formula(part, self.names))

    def _shown(self, node: TracedValue) -> TracedValue:
        while node.operation == "part" and node not in self.box_of:
            node = node.made_of[0]
        return node

    def _results(self, head: str) -> None:
        for field, node in self.reading.states.items():
            made = self.box_of[self._shown(node)]
            self.drawing.box(
                f"new {field}", self.end + 10, self.drawing.boxes[made].y, self.names[node], "state", 52, 34
            )
            self.drawing.arrow(made, f"new {field}")
        if head:
            h = self.drawing.boxes["new h"]
            self.drawing.box("head", h.x + 130, h.y, head, "output", 150, 48)
            self.drawing.arrow("new h", "head")

    def _buses(self) -> None:
        """One vertical line for each source, with an arrow into every gate that reads it; then gates read by gates."""
        sources = list(self.reading.sources.values())
        left = self.gate_x - self.gate_width / 2
        for name, gate in self.reading.gates.items():
            box = self.drawing.boxes[name]
            for seen in self.reading.seen(gate):
                if seen in sources:
                    k = sources.index(seen)
                    y = box.y + 13 * (k - (len(sources) - 1) / 2)
                    bus = 46 + 22 * k
                    out = self.drawing.boxes[self.box_of[seen]]
                    via = [(bus, out.y), (bus, y)]
                    colour = _BUS_COLOURS[k % len(_BUS_COLOURS)]
                    start = (out.x + out.width / 2, out.y)
                    self.drawing.arrow(out.name, name, via=via, start=start, end=(left, y), colour=colour)
                elif seen in self.reading.gates.values():
                    self._gate_to_gate(self.box_of[seen], name)
                else:
                    made = self.drawing.boxes[self.box_of[self._shown(seen)]]
                    x, end = made.x + 6, (box.x + box.width / 2, box.y + 14)
                    start = (x, made.y - made.height / 2 + 1)
                    self.drawing.arrow(
                        made.name, name, via=[(x, end[1])], start=start, end=end, colour=GREEN, dash="dash"
                    )

    def _gate_to_gate(self, source: str, target: str) -> None:
        out, into = self.drawing.boxes[source], self.drawing.boxes[target]
        if abs(out.y - into.y) <= _ROW + 1:
            self.drawing.arrow(source, target)
        else:
            x = out.x + out.width / 2 + 16
            edge = out.x + out.width / 2
            via = [(x, out.y - 12), (x, into.y + 12)]
            self.drawing.arrow(source, target, via=via, start=(edge, out.y - 12), end=(edge, into.y + 12))


_CHAIN_STEP, _CHAIN_ROW = 58, 110


def path_figure(cells: dict[str, Cell], *, steps: int = 3) -> Figure:
    """The shortest way from an old memory to the new one in each cell, several steps in a row."""
    drawing = Drawing()
    descriptions = []
    for row, (label, cell) in enumerate(cells.items()):
        reading = read_cell(cell)
        field = list(reading.states)[-1]  # the cell memory where there is one
        way = shortest_way(reading, field)
        words = [_describe(reading, one) for one in way]
        descriptions.append(f"{label}: {', '.join(words)}")
        _chain(drawing, label, field, way, words, steps, -row * _CHAIN_ROW)
    return drawing.figure(
        "memory-highway",
        "The way of a memory through time",
        f"What one step does to the memory on the shortest way from t−1 to t, read off the cells' code, {steps} steps "
        f"in a row. {'; '.join(descriptions)}. U is a matrix, × and + act unit by unit.",
    )


def shortest_way(reading: CellReading, field: str) -> list[TracedValue]:
    """The operations from the old value of a state field to the new one, in order."""
    source, target = reading.sources[field], reading.states[field]
    ways: deque[tuple[TracedValue, ...]] = deque([(target,)])
    while ways:
        way = ways.popleft()
        if way[-1] == source:
            return [one for one in reversed(way[:-1]) if one.operation != "part"]
        ways.extend((*way, part) for part in way[-1].made_of)
    return []


def _describe(reading: CellReading, node: TracedValue) -> str:
    if node.operation != "mul":
        return "U" if node.operation == "linear" else operation_name(node)
    gates = {gate: name for name, gate in reading.gates.items()}
    named = [gates[part] for part in node.made_of if part in gates]
    named += [f"({operation_name(part)}{gates[one]})" for part in node.made_of for one in part.made_of if one in gates]
    return f"× {named[0] if named else 'a factor'}"


def _chain(
    drawing: Drawing, label: str, field: str, way: list[TracedValue], words: list[str], steps: int, y: float
) -> None:  # fmt: skip
    x = 0.0
    before = f"{label} {field}0"
    drawing.note(-30, y + 46, f"<b>{label}</b>")
    drawing.box(before, x, y, f"{field}<sub>0</sub>", "state", 44, 34)
    for step in range(1, steps + 1):
        for place, (node, word) in enumerate(zip(way, words, strict=True)):
            sign = "U" if node.operation == "linear" else operation_name(node)
            x += _CHAIN_STEP if len(sign) <= 2 else _CHAIN_STEP + 8
            name = f"{label} {word} {place} at {step}"
            size = (30.0, 30.0) if len(sign) <= 2 else (14.0 + 8 * len(sign), 28.0)
            drawing.box(name, x, y, sign, "operation", *size)
            drawing.arrow(before, name)
            if word != sign:
                drawing.note(x, y - 27, word.removeprefix("× "), "center")
            before = name
        x += _CHAIN_STEP + 4
        drawing.box(f"{label} {field}{step}", x, y, f"{field}<sub>{step}</sub>", "state", 44, 34)
        drawing.arrow(before, f"{label} {field}{step}")
        before = f"{label} {field}{step}"
