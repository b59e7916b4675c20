"""Figures on paper: a table of one run, and the pages that keep it.

`README.md` has, for each kind of machine, the figures of its last run between two marks, those of several sizes in one
row. A part that was measured alone takes the place of its own rows, and each row says when it was measured. Every row
of every run that was written is in `diary/DATE.md`.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from thereafter.base.processor import processor, usable

Row = Mapping[str, object]
_SIZES = re.compile(r" \([\d, ]+\)")
_HEAD = ("figure", "measured", "required", "aim", "", "time")


@dataclass(frozen=True)
class Run:
    """`machine`: its kind, by which the tables are told apart. `facts`: what else a figure depends on."""

    machine: str
    facts: str
    when: str

    @classmethod
    def here(cls, command: str, seed: int) -> Run:
        chip, when = processor(), time.strftime("%Y-%m-%d %H:%M")
        load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
        facts = (
            f"{when}, {torch.get_num_threads()} threads, {platform.system()}, Python {platform.python_version()}, "
            f"torch {torch.__version__}, seed {seed}, load before {load}: `{command}`"
        )
        return cls(f"{chip.architecture}, {chip.name}, {usable()} cores", facts, when)


def aligned(rows: Iterable[Row]) -> str:
    """All rows, for the terminal. The ratio is that of measured to required: below 1 is a miss."""
    cells = [("figure", "measured", "required", "aim", "ratio", "", ""), *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(7)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def write(folder: Path, run: Run, rows: list[dict[str, object]], profiles: Row, absent: Row) -> None:
    """Put a run into the pages of a folder."""
    page = folder / "README.md"
    page.write_text(with_table(page.read_text(encoding="utf-8"), run, rows), encoding="utf-8")
    diary = folder / "diary" / f"{run.when[:10]}.md"
    diary.parent.mkdir(exist_ok=True)
    before = diary.read_text(encoding="utf-8") if diary.exists() else f"# {run.when[:10]}\n"
    diary.write_text(f"{before.rstrip()}\n\n{_entry(run, rows, profiles, absent)}", encoding="utf-8")


def with_table(page: str, run: Run, rows: list[dict[str, object]]) -> str:
    """A page with the figures of this kind of machine: those measured now, and of its other parts those it had."""
    begin, end = f"<!-- figures: {run.machine} -->", "<!-- end of figures -->"
    before, mark, rest = page.partition(begin)
    old, _, after = rest.partition(end)
    known = {row[0]: row for row in map(_split, old.splitlines()) if len(row) == len(_HEAD)}
    for name in (_HEAD[0], "---"):
        known.pop(name, None)
    diary = f"diary/{run.when[:10]}.md"
    lines = [
        f"{begin}\n### {run.machine}\nThe last run: {run.facts}. Every row: [{diary}]({diary}).\n",
        _line(_HEAD),
        _line(["---"] * len(_HEAD)),
        *map(_line, (known | {row[0]: row for row in grouped(rows)}).values()),
    ]
    table = "\n".join(lines) + f"\n{end}"
    return before + table + after if mark else f"{page.rstrip()}\n\n{table}\n"


def grouped(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """One row for the sizes of a figure: what was measured at each, one after the other."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(_SIZES.sub("", str(row["figure"])), []).append(row)
    lines: list[tuple[str, ...]] = []
    for figure, same in groups.items():
        cells = [_cells(row) for row in same]
        verdict = "" if not cells[0][5] else "ok" if all(row["ok"] for row in same) else "**MISSED**"
        measured = ", ".join(cell[1] for cell in cells)
        lines.append((figure, measured, cells[0][2], cells[0][3], verdict, str(same[-1].get("time", ""))))
    return lines


def _entry(run: Run, rows: list[dict[str, object]], profiles: Row, absent: Row) -> str:
    head = ("figure", "measured", "required", "aim", "ratio", "", "beside")
    lines = [f"## {run.when[11:]}, {run.machine}\n{run.facts}\n", _line(head), _line(["---"] * 7)]
    lines += [_line(_cells(row)) for row in rows]
    lines += [f"\nNot measured: {part}: {why}" for part, why in absent.items()]
    lines += [f"\nMissed, a profile: {figure}\n```\n{text}\n```" for figure, text in profiles.items()]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    got, required, aim = row["got"], row["required"], row["aim"]
    assert isinstance(got, float)
    ratio = f"{got / required:.2f}" if isinstance(required, float) else ""
    verdict = "" if required is None else "ok" if row["ok"] else "MISSED"
    figure, beside = str(row["figure"]), str(row["beside"])
    return figure, f"{got:.2f}", f"{required or ''}", f"{aim or ''}", ratio, verdict, beside


def _split(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|")) if line.startswith("|") else ()


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
