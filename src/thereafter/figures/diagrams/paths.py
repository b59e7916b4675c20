"""The path of a memory through time: what each step does to it, and nothing else."""

from __future__ import annotations

from collections import deque

from thereafter.cells.base import Cell
from thereafter.figures.diagrams.drawing import Drawing
from thereafter.figures.diagrams.formulas import operation_name
from thereafter.figures.diagrams.reading import CellReading, TracedValue, read_cell
from thereafter.figures.figure import Figure

_STEP, _ROW = 58, 110


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
        _chain(drawing, label, field, way, words, steps, -row * _ROW)
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
    gates = {gate: name for name, gate in reading.gates.items()}
    if node.operation == "mul":
        return f"× {next((gates[part] for part in node.made_of if part in gates), _plain(reading, node))}"
    return "U" if node.operation == "linear" else operation_name(node)


def _plain(reading: CellReading, node: TracedValue) -> str:
    gates = {gate: name for name, gate in reading.gates.items()}
    named = [f"{operation_name(part)}{gates[one]}" for part in node.made_of for one in part.made_of if one in gates]
    return f"({named[0]})" if named else "a factor"


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
            x += _STEP if len(sign) <= 2 else _STEP + 8
            name = f"{label} {word} {place} at {step}"
            size = (30.0, 30.0) if len(sign) <= 2 else (14.0 + 8 * len(sign), 28.0)
            drawing.box(name, x, y, sign, "operation", *size)
            drawing.arrow(before, name)
            if word != sign:
                drawing.note(x, y - 27, word.removeprefix("× "), "center")
            before = name
        x += _STEP + 4
        drawing.box(f"{label} {field}{step}", x, y, f"{field}<sub>{step}</sub>", "state", 44, 34)
        drawing.arrow(before, f"{label} {field}{step}")
        before = f"{label} {field}{step}"
