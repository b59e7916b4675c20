"""Writing a model out: into a temporary folder beside the target, checked there, then moved into place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from thereafter import progress
from thereafter.data.files import AnySource
from thereafter.errors import ExportError, StorageError
from thereafter.export.check import STEPS, Checked, check, refuse
from thereafter.export.plan import plan_of
from thereafter.export.plans import Plan
from thereafter.export.targets import Target, WrittenFiles, target_of
from thereafter.export.texts import text_of_check
from thereafter.models.base import Ids
from thereafter.tabular import Row, Tabular
from thereafter.training.kinds import Trained


@dataclass(frozen=True)
class Exported(Tabular):
    """The files of an export, the main one first, with what their check has seen and what else there is to say."""

    paths: tuple[Path, ...]
    to: str
    program: str
    int8: bool
    checked: Checked
    facts: Mapping[str, object] = field(default_factory=dict)
    dtype: str = "float32"

    @property
    def form(self) -> str:
        """What the weights are stored as."""
        return "int8" if self.int8 else self.dtype

    @property
    def path(self) -> Path:
        return self.paths[0]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size_of(path) for path in self.paths)

    def to_rows(self) -> list[Row]:
        checked = self.checked
        row: Row = {"file": str(self.path), "to": self.to, "bytes": self.size, "int8": self.int8}
        row |= {"steps": checked.steps, "largest_difference": checked.largest, "text": checked.text}
        row |= {"bits_per_byte": checked.bits, "bits_per_byte_exported": checked.bits_exported}
        return [row | {"checked_by": self.program} | {name: str(value) for name, value in self.facts.items()}]


def export(
    trained: Trained, path: Path, *, to: str, int8: bool = False, check_text: AnySource | None = None
) -> Exported:
    """Write a model; ExportError where it has no such form, or where what was written computes something else."""
    target = target_of(to)
    plan = plan_of(trained)
    reason = target.refuses(plan, int8)
    if reason is not None:
        raise ExportError(reason)
    check_place(path, target)
    ids_T, name = text_of_check(trained, check_text, STEPS)
    with beside(path) as folder:
        with progress.task(f"writing {path.name}", unit="files"):
            written = target.write(plan, folder / path.name, int8=int8)
        checked, program = _run(target, trained, plan, written, ids_T, name)
        refuse(checked, target.tolerance(int8), path.name)
        paths = tuple(moved(one, path.parent / one.name) for one in written.paths)
    return Exported(paths, to, program, int8, checked, written.facts)


def _run(
    target: Target, trained: Trained, plan: Plan, written: WrittenFiles, ids_T: Ids, name: str
) -> tuple[Checked, str]:
    """What the check has seen, and who ran the file."""
    runner = target.runner(plan, written)
    if runner is None:
        raise ExportError(f"there is no {target.program} here to check the file with; nothing was written")
    try:
        return check(trained, runner, ids_T, name), runner.name
    finally:
        runner.close()


def check_place(path: Path, target: Target) -> None:
    """A place that cannot be written is refused before anything is computed."""
    if not path.name or path.name in (".", "..") or "\0" in str(path):
        raise ExportError(f"the file is {str(path)!r}; expected a name; try model{target.ending}")
    if path.is_dir() and target.ending:
        raise ExportError(f"{path} is a folder; expected the name of a file; try {path / ('model' + target.ending)}")
    packed = ".gz" if target.ending == ".arpa" else ""  # as KenLM and others read them too
    if not path.name.lower().removesuffix(packed).endswith(target.ending):
        raise ExportError(
            f"the file is {path.name!r}; expected a name that ends in {target.ending}; try {path}{target.ending}"
        )
    if not target.ending and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ExportError(f"{path} exists; expected a new or an empty folder; try another name")


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A temporary folder on the same disk, gone afterwards whatever happens."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".export-", dir=path.parent))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise StorageError(f"cannot write {str(path)[:200]!r}: {reason}; try another folder") from error
    try:
        yield folder
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}; nothing was changed; try another place") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def moved(written: Path, place: Path) -> Path:
    if place.is_dir() and written.is_dir():
        place.rmdir()  # an empty one: any other was refused
    os.replace(written, place)
    return place


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
