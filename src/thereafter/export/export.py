"""Writing a model out: into a temporary folder beside the target, checked there, then moved into place, all or none.

`export_run` writes the target `run`: a run folder again, its weights in fewer bytes (`runs/narrow.py`), read back for
the check.

Shapes: B rows, V words.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from thereafter.base import progress, storage
from thereafter.base.tabular import Row, Tabular
from thereafter.data.files import AnySource
from thereafter.errors import CorpusError, ExportError, OptionError, SourceError, StorageError
from thereafter.export.check import Checked, check, count_steps, opening_of, refuse, text_of_check
from thereafter.export.plan import Plan, TransformerPlan, plan_of
from thereafter.export.targets import FLOAT32, OpeningTarget, Target, WrittenFiles, target_of
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Floats, Ids
from thereafter.runs import folder as files
from thereafter.runs.narrow import check_dtype
from thereafter.tasks import answering, finding, fitting
from thereafter.tasks.fitting import Fitted
from thereafter.training.kinds import Trained, load_trained, save_trained


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
    replaced: tuple[Path, ...] = ()
    """Files that were there before."""

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
        row |= {"tokens": checked.tokens or checked.steps} if checked.unit == "steps" else {}
        row |= {"bits_per_byte": checked.bits, "bits_per_byte_exported": checked.bits_exported}
        row |= {"replaced": ", ".join(map(str, self.replaced))}
        return [row | {"checked_by": self.program} | {name: str(value) for name, value in self.facts.items()}]


def export(
    trained: Trained,
    path: Path,
    *,
    to: str,
    int8: bool = False,
    check_text: AnySource | None = None,
    check_steps: int | None = None,
) -> Exported:
    """Write a model; ExportError where it has no such form, or where what was written computes something else."""
    target = target_of(to)
    plan = plan_of(trained)
    reason = target.refuses(plan, int8)
    if reason is not None:
        raise ExportError(reason)
    check_place(path, target)
    context = plan.context if isinstance(plan, TransformerPlan) else 0
    tolerance = None if int8 else target.tolerance
    steps = count_steps(check_steps, tolerance, context)
    ids_T, name = text_of_check(trained, check_text, steps)
    if isinstance(target, OpeningTarget):
        target = target.opening_on(opening_of(trained))
    with beside(path) as folder:
        with progress.task(f"writing {path.name}", unit="files"):
            written = target.write(plan, folder / path.name, int8=int8)
        checked, program = _run(target, trained, plan, written, ids_T, name, steps)
        refuse(checked, tolerance, path.name)
        paths, replaced = moved_together(written.paths, path.parent)
    return Exported(paths, to, program, int8, checked, written.facts, replaced=replaced)


def _run(
    target: Target, trained: Trained, plan: Plan, written: WrittenFiles, ids_T: Ids, name: str, steps: int
) -> tuple[Checked, str]:
    """What the check has seen, and who ran the file."""
    runner = target.runner(plan, written)
    if runner is None:
        raise ExportError(f"there is no {target.program} here to check the file with; nothing was written")
    try:
        return check(trained, runner, ids_T, name, steps), runner.name
    finally:
        runner.close()


PREFIX = ".export-"
_LOCK, _BEFORE = "lock", "before"
_YOUNG = 60.0
"""Seconds in which a folder may have no lock yet."""
_LOOKED_AT = 1 << 16
"""Bytes at each end of a file in which an export says what it is."""
_MARKS = (b"written by thereafter: ", b"\x12\nthereafter\x1a", b"thereafter.json")
"""What exported files have: a sentence in C and HTML, ONNX's field for the producer, a name in torch's archive."""
_ARPA = (b"\\data\\", b"\n\\data\\", b"\x1f\x8b")
"""How an ARPA file begins, or one that is packed: the format has no place for a name."""


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
    if target.ending:
        check_replaceable([path])


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A temporary folder on the same disk, gone afterwards; what killed exports have left goes too."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(path.parent)
        outer = Path(tempfile.mkdtemp(prefix=PREFIX, dir=path.parent))
        lock = storage.take_lock(outer / _LOCK, command="export")
        folder = outer / "files"
        folder.mkdir()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise StorageError(f"cannot write {str(path)[:200]!r}: {reason}; try another folder") from error
    try:
        yield folder
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}; nothing was changed; try another place") from error
    finally:
        if lock is not None:
            lock.release()
        shutil.rmtree(outer, ignore_errors=True)


def _remove_left(folder: Path) -> None:
    """Remove folders of exports that were killed: nobody holds their locks."""
    for left in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if left.is_symlink() or not left.is_dir() or time.time() - left.stat().st_mtime < _YOUNG:
                continue
            lock = storage.take_lock(left / _LOCK, patience=0.0)
            if lock is not None:
                lock.release()
                shutil.rmtree(left, ignore_errors=True)


def moved(written: Path, place: Path) -> Path:
    """A folder or a file that stands alone, in its place."""
    if place.is_dir() and written.is_dir():
        place.rmdir()  # an empty one: any other was refused
    os.replace(written, place)
    return place


def moved_together(written: Sequence[Path], folder: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """All files of an export in their places, the main one first, and which of these were there before.

    At no moment do a new file and an old one stand side by side: others than the main one are taken away first. Where a
    move fails, all is as it was. A file that is no earlier export is not touched: ExportError.
    """
    places = tuple(folder / one.name for one in written)
    replaced = tuple(place for place in places if place.is_symlink() or place.is_file())
    check_replaceable(replaced)
    before = written[0].parent.parent / _BEFORE  # beside the files: one of them may have this name
    before.mkdir()
    try:
        for place in replaced[::-1]:
            if place != places[0]:
                os.replace(place, before / place.name)
            elif place.is_file():
                shutil.copy2(place, before / place.name)
        for one, place in zip(written, places, strict=True):
            moved(one, place)
    except BaseException:
        for place in places:
            if (before / place.name).exists():
                os.replace(before / place.name, place)
            elif place not in replaced and place.is_file():
                place.unlink()
        raise
    return places, replaced


def check_replaceable(places: Sequence[Path]) -> None:
    """Refuse to replace a file that was not written here."""
    for place in places:
        if place.is_file() and not is_export(place):
            raise ExportError(f"{place} exists and is no earlier export; nothing was written; try another --out")


def is_export(path: Path) -> bool:
    """Whether a file says of itself that it was written here."""
    try:
        with path.open("rb") as file:
            first = file.read(_LOOKED_AT)
            file.seek(max(0, path.stat().st_size - _LOOKED_AT))
            ends = first + file.read(_LOOKED_AT)
            return any(mark in ends for mark in _MARKS) or ends.startswith(_ARPA)
    except OSError:
        return False


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


RUN = "run"
READER = "our reader of run folders"


class LoadedRun:
    """A model that was read back: a `Runner`."""

    name: ClassVar[str] = READER

    def __init__(self, model: AnyModel) -> None:
        self._model = model
        self._state = model.start(1)

    def start(self, rows: int) -> Floats:
        self._state = self._model.start(rows)
        return np.asarray(self._model.predict(self._state), dtype=np.float32)

    def step(self, token_B: Ids) -> Floats:
        logp_BV, self._state = self._model.step(np.asarray(token_B), self._state)
        return np.asarray(logp_BV, dtype=np.float32)

    def close(self) -> None:
        self._state = self._model.start(0)


def dtype_of(to: str, dtype: str | None, int8: bool) -> str:
    """The form of the weights of a run folder; OptionError where it is asked for elsewhere, or twice."""
    if to != RUN and dtype is not None:
        raise OptionError(f"dtype is {dtype!r} and the form {to!r}; expected it with --to run alone; try --int8")
    if to == RUN and int8:
        raise OptionError("int8 is on and the form 'run'; expected the name of a type; try --dtype int8")
    return dtype or "float32"


def export_run(
    trained: Trained, path: Path, dtype: str, check_text: AnySource | None = None, check_steps: int | None = None
) -> Exported:
    """Write a language model as a run folder; ExportError where its weights as `dtype` cost more than 1 % of bits."""
    _check_place(path, dtype)
    tolerance = FLOAT32 if dtype == "float32" else None
    steps = count_steps(check_steps, tolerance)
    ids_T, name = text_of_check(trained, check_text, steps)
    with beside(path) as folder:
        written = save_trained(trained, folder / path.name, dtype)
        facts = _facts(written, dtype)
        checked = check(trained, LoadedRun(load_trained(written).model), ids_T, name, steps)
        refuse(checked, tolerance, path.name, form=dtype, advice="try --dtype float32")
        place = moved(written, path)
    return Exported((place,), RUN, READER, False, checked, facts, dtype)


def export_task_run(fitted: Fitted, path: Path, dtype: str) -> Exported:
    """Write a trained task as a run folder, scored on its validation examples before and after."""
    _check_place(path, dtype)
    with beside(path) as folder:
        written = fitting.save(fitted, folder / path.name, dtype)
        checked, scores = _scored(fitted, fitting.load(written), dtype)
        facts = _facts(written, dtype) | scores
        place = moved(written, path)
    return Exported((place,), RUN, READER, False, checked, facts, dtype)


def _check_place(path: Path, dtype: str) -> None:
    check_dtype(dtype)
    files.check_free(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ExportError(f"{path} exists; expected a new or an empty folder; try another name")


def _facts(folder: Path, dtype: str) -> dict[str, object]:
    return {"weights": f"{(folder / files.WEIGHTS).stat().st_size:,} bytes as {dtype}"}


def _scored(before: Fitted, after: Fitted, dtype: str) -> tuple[Checked, dict[str, object]]:
    """Both on the validation examples, where these are still there."""
    try:
        _, valid = finding.learned_from(before.task, before.config, "the training")
    except (SourceError, CorpusError, OptionError, KeyError) as error:
        return Checked(0, 0.0, 0.0, 0.0, "none", "figures", "examples"), {"score": f"not measured: {error}"}
    scores = [
        one.task.measure(valid.examples, answering.answers(one, valid.examples), one.codecs) for one in (before, after)
    ]
    what = {"score": str(scores[0]), f"score in {dtype}": str(scores[1])}
    first, second = (score.as_dict() for score in scores)
    pairs = [(value, second.get(name)) for name, value in first.items()]
    numbers = [abs(a - b) for a, b in pairs if isinstance(a, float) and isinstance(b, float)]
    largest = max((number for number in numbers if not math.isnan(number)), default=0.0)
    return Checked(len(valid.examples), largest, 0.0, 0.0, valid.name, "figures", "examples"), dict(what)
