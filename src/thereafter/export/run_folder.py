"""The target `run`: a run folder again, its weights in fewer bytes (`runs/narrow.py`), read back for the check.

Shapes: B rows, V words.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import numpy as np

from thereafter.data.files import AnySource
from thereafter.errors import CorpusError, ExportError, OptionError, SourceError
from thereafter.export.check import Checked, check, count_steps, refuse
from thereafter.export.export import Exported, beside, moved
from thereafter.export.targets import FLOAT32
from thereafter.export.texts import text_of_check
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Floats, Ids
from thereafter.runs import folder as files
from thereafter.runs.narrow import check_dtype
from thereafter.tasks import answering, finding, fitting
from thereafter.tasks.fitting import Fitted
from thereafter.training.kinds import Trained, load_trained, save_trained

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
