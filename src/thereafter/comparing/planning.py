"""The folder of a comparison: what it was begun under is written down, and only the same plan goes on in it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import numpy as np

from thereafter.config import Table
from thereafter.errors import OptionError
from thereafter.runs import ownership
from thereafter.runs.folder import is_file
from thereafter.storage import write_text
from thereafter.training import protocol

PLAN = "plan.json"
_OURS = (PLAN, "text", "runs", "results", "compare.json", "report.html", ownership.LOCK)


@contextmanager
def planned_folder(out: str | PathLike[str] | None, base: str | PathLike[str] | None, plan: Table) -> Iterator[Path]:
    """The folder of the comparison, its plan written down; one that is thrown away where none is asked for."""
    if out is None and base is None:
        with tempfile.TemporaryDirectory(prefix="thereafter-compare-") as name:
            yield Path(name)
        return
    folder = Path(out) if out is not None else _free(Path(base or "."), plan)
    other = _difference(folder, plan)
    if other:
        raise OptionError(f"{folder} {other}; try another --out, or what it was begun with")
    with ownership.owning(folder):
        write_text(folder / PLAN, _to_json(plan) + "\n", durable=True)
        yield folder


def _free(base: Path, plan: Table) -> Path:
    """The first of NAME, NAME-2, NAME-3 that is free or was begun under the same plan."""
    name = "compare-" + protocol.run_name(plan["source"], "").removesuffix("-")
    folder, number = base / name, 2
    while _difference(folder, plan):
        folder, number = base / f"{name}-{number}", number + 1
    return folder


def _difference(folder: Path, plan: Table) -> str:
    """Why a folder cannot take a comparison under a plan; nothing where it can."""
    try:
        others = [path.name for path in folder.iterdir() if path.name not in _OURS]
        if not is_file(folder / PLAN):
            return "holds other files and no comparison" if others else ""
        begun = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError) as error:
        return f"cannot be used for a comparison: {getattr(error, 'strerror', None) or error}"
    wanted = json.loads(_to_json(plan))
    if isinstance(begun, dict) and ("task" in begun) != ("task" in wanted):
        return f"holds a comparison of {'networks of a task' if 'task' in begun else 'language models'}"
    for name, value in wanted.items():
        planned = begun.get(name) if isinstance(begun, dict) else None
        if planned != value:
            return f"holds a comparison with {name} {planned!r}, and this one has {value!r}"
    return ""


def _to_json(plan: Table) -> str:
    """A plan as JSON; numbers of numpy as Python's, a path as its name."""
    return json.dumps(
        plan, indent=1, default=lambda value: value.item() if isinstance(value, np.generic) else str(value)
    )
