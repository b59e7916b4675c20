"""n-grams as a kind of model: settings, training, and what is saved of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.ngram.estimate import estimate
from thereafter.ngram.model import NgramModel
from thereafter.ngram.tables import Tables
from thereafter.training.kinds import About, TrainingJob
from thereafter.training.settings import TrainingSettings


@dataclass(frozen=True)
class NgramSettings:
    """The options of an n-gram model. `alpha` is add-alpha's, `factor` and `normalise` stupid-backoff's."""

    order: int = 5
    smoothing: str = "modified-kneser-ney"
    cutoffs: tuple[int, ...] = ()
    alpha: float | None = None
    factor: float | None = None
    normalise: bool | None = None


class NgramKind:
    """See `kinds.ModelKind`."""

    settings = NgramSettings
    trained_in_steps = False

    def complete(
        self, given: Table, training: TrainingSettings, about: About
    ) -> tuple[NgramSettings, TrainingSettings, list[str]]:
        return toml.build(NgramSettings, given, "ngram"), training, []

    def train(self, job: TrainingJob) -> NgramModel:
        settings = job.settings
        assert isinstance(settings, NgramSettings)
        own = {"alpha": settings.alpha, "factor": settings.factor, "normalise": settings.normalise}
        model = estimate(
            job.ids,
            len(job.tokenizer.vocabulary),
            order=settings.order,
            smoothing=settings.smoothing,
            context=job.context,
            line_end=job.tokenizer.line_end_id,
            cutoffs=settings.cutoffs,
            **{name: value for name, value in own.items() if value is not None},
        )
        of_text: list[str] = job.figures.get("notes", [])
        job.done(self.describe(model) | {"notes": [*of_text, *model.notes]})
        return model

    def describe(self, model: NgramModel) -> Table:
        return {
            "ngrams": model.tables.sizes(),
            "table_bytes": model.tables.nbytes,
            "discounts": {str(order): list(amounts) for order, amounts in model.discounts.items()},
            "notes": model.notes,
        }

    def arrays(self, model: NgramModel) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
        facts = {
            "context": model.context,
            "line_end": model.line_end,
            "smoothing": model.smoothing,
            "uniform": model.uniform,
            "proper": model.proper,
            "discounts": {str(order): list(amounts) for order, amounts in model.discounts.items()},
            "notes": model.notes,
        }
        tables = {field.name: np.asarray(getattr(model.tables, field.name)) for field in fields(Tables)}
        return tables, {"ngram": json.dumps(facts)}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]], facts: Mapping[str, str], config: Table) -> NgramModel:
        try:
            known = json.loads(facts["ngram"])
            _check_types(arrays)
            tables = Tables(**{field.name: arrays[field.name].astype(kind, copy=False) for field, kind in _DTYPES})
            discounts = {int(order): tuple(map(float, amounts)) for order, amounts in known["discounts"].items()}
            tables.check()
            if known["context"] not in ("line", "stream"):
                raise ValueError(f"their context is {known['context']!r}")
            if known["line_end"] is not None and not 0 <= int(known["line_end"]) < tables.vocabulary_size:
                raise ValueError(f"their line end is {known['line_end']!r}")
            return NgramModel(
                tables,
                context=str(known["context"]),
                line_end=None if known["line_end"] is None else int(known["line_end"]),
                smoothing=str(known["smoothing"]),
                uniform=bool(known["uniform"]),
                proper=bool(known["proper"]),
                discounts=discounts,
                notes=[str(note) for note in known["notes"]],
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            raise FormatError(f"the n-gram tables are incomplete or damaged ({error}); try training again") from error


def _check_types(arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """ValueError for a table of another type than it was written in: its numbers may have been cut off."""
    for field, kind in _DTYPES:
        if arrays[field.name].dtype != np.dtype(kind):
            raise ValueError(f"the table {field.name!r} is of {arrays[field.name].dtype}, expected {np.dtype(kind)}")


_DTYPES = list(zip(fields(Tables), (np.int32, np.float32, np.int32, np.float32, np.int32, np.int64), strict=True))

NGRAM = NgramKind()
