"""A comparison as its user gets it: a table, sentences of advice, JSON and a page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from thereafter.base.config import Table
from thereafter.base.storage import write_text
from thereafter.base.tabular import Tabular, finite
from thereafter.comparing import advice as sentences
from thereafter.comparing import report, tables
from thereafter.comparing.rows import Compared
from thereafter.comparing.rows import Row as Row
from thereafter.inspection.measurement import DrawnFigure, draw

JSON, REPORT = "compare.json", "report.html"
FORMAT = 1


@dataclass(frozen=True)
class Comparison(Compared, Tabular):
    """Models compared on one text: what `compare` returns."""

    def table(self) -> str:
        """The figures for a terminal of 120 columns."""
        return tables.table(self)

    def advice(self) -> list[str]:
        """Which model to use when, in sentences made from the figures."""
        return sentences.advice([self])

    def html(self) -> str:
        """A page that needs nothing but itself."""
        return report.page(self)

    def figure(self, name: str | None = None, **options: object) -> DrawnFigure:
        """Bits per byte side by side; `"agreement"` and `"congruence"` where the corpus asked about agreement."""
        return draw("comparison", self.as_dict(), name, **options)

    def as_dict(self) -> Table:
        """Everything, as plain JSON values."""
        rows = [row.as_dict() for row in self.rows]
        return {
            "format": FORMAT,
            **self.about,
            "notes": list(self.notes),
            "advice": self.advice(),
            **self.measured(),
            "rows": rows,
        }

    def to_json(self) -> str:
        """Everything as JSON; numbers that are none or infinite are null."""
        return json.dumps(finite(self.as_dict()), indent=1, allow_nan=False)

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write `compare.json` and `report.html`."""
        place = Path(folder)
        write_text(place / JSON, self.to_json() + "\n")
        write_text(place / REPORT, self.html())
        return place

    def __str__(self) -> str:
        return self.table()
