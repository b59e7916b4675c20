"""Boxes and arrows as a plotly figure. Places are pixels: x to the right, y upward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thereafter.figures import style
from thereafter.figures.figure import Figure

Point = tuple[float, float]
Shape = dict[str, object]
"""A shape or an annotation, as plotly takes it."""

FILLS = {
    "input": "#EDEDED",
    "gate": "#FBE6BF",
    "candidate": "#D3EBF9",
    "state": "#CDEBDF",
    "layer": "#DCE6F2",
    "output": "#F6DDEA",
    "operation": "#FFFFFF",
    "faint": "#FAFAFA",
    "frame": "#FAFAFA",
}
"""What a box is, and its colour; the text of a box says the same again. A frame lies behind all else."""
_INK = "#333333"


@dataclass(frozen=True)
class Box:
    """A thing: its centre, its size, what is written on it. An operation is round."""

    name: str
    x: float
    y: float
    text: str
    kind: str
    width: float
    height: float

    def border(self, toward: Point) -> Point:
        """Where a line from the centre to a point leaves the box."""
        dx, dy = toward[0] - self.x, toward[1] - self.y
        if not dx and not dy:
            return self.x, self.y
        if self.kind == "operation" and self.width == self.height:
            share = self.width / 2 / (dx * dx + dy * dy) ** 0.5
        else:
            share = min(
                self.width / 2 / abs(dx) if dx else float("inf"), self.height / 2 / abs(dy) if dy else float("inf")
            )
        return self.x + dx * share, self.y + dy * share


@dataclass(frozen=True)
class Arrow:
    """A line through points, with a head at its end."""

    source: str
    target: str
    points: tuple[Point, ...]
    label: str
    colour: str
    dash: str


class Drawing:
    """What is drawn so far. Names of boxes are unique."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.arrows: list[Arrow] = []
        self.notes: list[tuple[float, float, str, str]] = []

    def box(
        self, name: str, x: float, y: float, text: str, kind: str, width: float = 60, height: float = 34
    ) -> Box:  # fmt: skip
        """Put a box with its centre at (x, y)."""
        if name in self.boxes:
            raise ValueError(f"two boxes are called {name!r}")
        self.boxes[name] = Box(name, x, y, text, kind, width, height)
        return self.boxes[name]

    def arrow(
        self,
        source: str,
        target: str,
        *,
        via: Sequence[Point] = (),
        start: Point | None = None,
        end: Point | None = None,
        label: str = "",
        colour: str = _INK,
        dash: str = "solid",
    ) -> None:
        """From one box to another, through points; `start` and `end` say where at their borders, else the nearest."""
        out, into = self.boxes[source], self.boxes[target]
        first = start or out.border(via[0] if via else (end or (into.x, into.y)))
        last = end or into.border(via[-1] if via else (start or (out.x, out.y)))
        self.arrows.append(Arrow(source, target, (first, *via, last), label, colour, dash))

    def note(self, x: float, y: float, text: str, anchor: str = "left") -> None:
        """Words beside the drawing."""
        self.notes.append((x, y, text, anchor))

    def above(self, other: Drawing, gap: float = 60) -> Drawing:
        """Both, the other below."""
        dx, dy = self.extent()[0] - other.extent()[0], self.extent()[2] - other.extent()[3] - gap
        both = Drawing()
        both.boxes, both.arrows, both.notes = dict(self.boxes), list(self.arrows), list(self.notes)
        names = {name: f"{name} (2)" if name in both.boxes else name for name in other.boxes}
        for box in other.boxes.values():
            both.boxes[names[box.name]] = replace(box, name=names[box.name], x=box.x + dx, y=box.y + dy)
        for one in other.arrows:
            moved = tuple((x + dx, y + dy) for x, y in one.points)
            both.arrows.append(replace(one, source=names[one.source], target=names[one.target], points=moved))
        both.notes += [(x + dx, y + dy, text, anchor) for x, y, text, anchor in other.notes]
        return both

    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom, top of everything."""
        xs = [x for one in self.arrows for x, _ in one.points]
        ys = [y for one in self.arrows for _, y in one.points]
        for box in self.boxes.values():
            xs += [box.x - box.width / 2, box.x + box.width / 2]
            ys += [box.y - box.height / 2, box.y + box.height / 2]
        for x, y, text, anchor in self.notes:
            lines = text.split("<br>")
            wide = 7.2 * max(map(len, lines))
            shift = {"left": 0.0, "center": wide / 2, "right": wide}[anchor]
            xs += [x - shift, x - shift + wide]
            ys += [y - 9 * len(lines), y + 9 * len(lines)]
        return min(xs), max(xs), min(ys), max(ys)

    def figure(self, name: str, title: str, caption: str, margin: float = 18) -> Figure:
        """The drawing as a figure; its table lists every box and arrow."""
        left, right, bottom, top = self.extent()
        width, height = max(420.0, right - left + 2 * margin), top - bottom + 2 * margin
        spare = (width - (right - left)) / 2
        plot = style.canvas(width=round(width), height=round(height))
        plot.update_layout(margin={"l": 0, "r": 0, "t": 0, "b": 0})
        plot.update_xaxes(visible=False, range=(left - spare, right + spare), fixedrange=True)
        plot.update_yaxes(visible=False, range=(bottom - margin, top + margin), fixedrange=True)
        shapes: list[Shape] = []
        annotations: list[Shape] = []
        for box in (box for box in self.boxes.values() if box.kind == "frame"):
            _draw_box(box, shapes, annotations)
        for one in self.arrows:
            _draw_arrow(one, shapes, annotations)
        for box in (box for box in self.boxes.values() if box.kind != "frame"):
            _draw_box(box, shapes, annotations)
        for x, y, text, anchor in self.notes:
            annotations.append(
                {"x": x, "y": y, "text": text, "showarrow": False, "font_size": 12, "xanchor": anchor, "align": anchor}
            )
        plot.update_layout(shapes=shapes, annotations=annotations)
        rows = [(box.name, box.kind, box.text, "", "") for box in self.boxes.values()]
        rows += [("", "arrow", one.label, one.source, one.target) for one in self.arrows]
        columns = map(list, zip(*rows, strict=True))
        return Figure(
            name, title, caption, plot, dict(zip(("part", "kind", "text", "from", "to"), columns, strict=True))
        )


def _draw_box(box: Box, shapes: list[Shape], annotations: list[Shape]) -> None:
    edges = {
        "x0": box.x - box.width / 2,
        "x1": box.x + box.width / 2,
        "y0": box.y - box.height / 2,
        "y1": box.y + box.height / 2,
    }
    form = "circle" if box.kind == "operation" and box.width == box.height else "rect"
    shapes.append(
        {"type": form, "fillcolor": FILLS[box.kind], "line": {"color": _INK, "width": 1.3}, "layer": "below", **edges}
    )
    annotations.append({"x": box.x, "y": box.y, "text": box.text, "showarrow": False, "font_size": 13})


def _draw_arrow(one: Arrow, shapes: list[Shape], annotations: list[Shape]) -> None:
    for (x0, y0), (x1, y1) in zip(one.points[:-2], one.points[1:-1], strict=True):
        line = {"color": one.colour, "width": 1.5, "dash": one.dash}
        shapes.append({"type": "line", "x0": x0, "y0": y0, "x1": x1, "y1": y1, "line": line, "layer": "below"})
    (x0, y0), (x1, y1) = one.points[-2:]
    if one.dash == "solid":
        tail = (x0, y0)
    else:  # heads have solid tails: a dashed line is drawn apart and the head gets a short one
        line = {"color": one.colour, "width": 1.5, "dash": one.dash}
        shapes.append({"type": "line", "x0": x0, "y0": y0, "x1": x1, "y1": y1, "line": line, "layer": "below"})
        length = max(1.0, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
        tail = (x1 + (x0 - x1) * 7 / length, y1 + (y0 - y1) * 7 / length)
    head = {"arrowhead": 2, "arrowsize": 1, "arrowwidth": 1.5, "arrowcolor": one.colour}
    refs = {"xref": "x", "yref": "y", "axref": "x", "ayref": "y"}
    annotations.append({"x": x1, "y": y1, "ax": tail[0], "ay": tail[1], "text": "", "showarrow": True, **refs, **head})
    if one.label:
        middle = len(one.points) // 2
        (x0, y0), (x1, y1) = one.points[middle - 1 : middle + 1]
        words = {"text": one.label, "showarrow": False, "font": {"size": 12, "color": one.colour}}
        flat = abs(x1 - x0) >= abs(y1 - y0)
        shift = {"yshift": 10} if flat else {"xshift": 5, "xanchor": "left"}
        annotations.append({"x": (x0 + x1) / 2, "y": (y0 + y1) / 2, **words, **shift})
