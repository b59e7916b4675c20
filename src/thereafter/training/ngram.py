"""n-grams as a kind of model: settings, training, and what is saved of them; ARPA files as trained models."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.ngram import arpa
from thereafter.ngram.model import NgramModel, estimate
from thereafter.ngram.tables import Tables
from thereafter.runs.folder import FORMAT
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.base import Tokenizer, Vocabulary
from thereafter.training.kinds import About, Trained, TrainingJob
from thereafter.training.settings import TrainingSettings


@dataclass(frozen=True)
class NgramSettings:
    """The options of an n-gram model."""

    order: int = 5
    """Longest n-gram, in tokens: 1 to 10 (default 5)."""
    smoothing: str = "modified-kneser-ney"
    """mle, add-alpha, stupid-backoff, katz, witten-bell, absolute, kneser-ney or modified-kneser-ney."""
    cutoffs: tuple[int, ...] = ()
    """Drop n-grams seen this often or less, one number per order: 0,0,1."""
    alpha: float | None = None
    """Constant of add-alpha (default 0.1)."""
    factor: float | None = None
    """Back-off factor of stupid-backoff (default 0.4)."""
    normalise: bool | None = None
    """Whether stupid-backoff's scores are normalised to probabilities."""


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
        began = time.perf_counter()
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
        seconds = {"seconds_training": round(time.perf_counter() - began, 3)}
        described = self.describe(model) | {"notes": [*of_text, *model.notes]}
        job.place.journal.write({"event": "trained", **job.figures, **seconds, **described})
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
            for field, kind in _DTYPES:  # in another type than it was written in, numbers may have been cut off
                if (dtype := arrays[field.name].dtype) != np.dtype(kind):
                    raise ValueError(f"the table {field.name!r} is of {dtype}, expected {np.dtype(kind)}")
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


_DTYPES = list(zip(fields(Tables), (np.int32, np.float32, np.int32, np.float32, np.int32, np.int64), strict=True))

NGRAM = NgramKind()


READABLE = ("word", "prose", "char")


def read_arpa(path: Path, tokens: str = "word") -> Trained:
    """The model in an ARPA file: the words of the file become a tokenizer."""
    if tokens not in READABLE:
        raise OptionError(f"tokens is {tokens!r}; an ARPA file can be read as {', '.join(READABLE)}")
    model, spelled = arpa.read_arpa(path, escaped=tokens != "word")
    kind: type[Tokenizer] = TOKENIZERS.load(tokens)
    try:
        forms = [form.decode("utf-8") for form in spelled]
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: a word is not UTF-8 ({error.reason}); try converting the file with iconv"
        ) from error
    if tokens == "word" and model.line_end is None:
        raise FormatError(
            f"{path} has no </s> among its 1-grams: it is no model of lines of words; "
            "try tokens='prose' or 'char' (--tokens) if it was written from such a model"
        )
    tokenizer = kind(Vocabulary(forms))
    stranger = next((form for form in tokenizer.ordinary_forms if not kind.is_form(form)), None)
    if stranger is not None:
        raise FormatError(f"{path}: {stranger!r} is no {tokens} token; try tokens='word' (--tokens word)")
    config = {
        "format": FORMAT,
        "model": "ngram",
        "source": {"name": path.name, "part": path.name, "detail": "ARPA file"},
        "text": {"tokens": tokens, "context": model.context, "lower": False, "letters_only": False},
        "ngram": {"order": model.order, "smoothing": "arpa"},
    }
    line = {"event": "read", "ngrams": model.tables.sizes(), "table_bytes": model.tables.nbytes, "notes": model.notes}
    return Trained(model, tokenizer, config, [line])


def write_arpa(trained: Trained, path: Path) -> Path:
    """Write a trained n-gram model; anything else has no ARPA form."""
    model, own = trained.model, trained.tokenizer
    if not isinstance(model, NgramModel):
        raise OptionError(f"a model of kind {trained.config['model']!r} cannot be written as ARPA; only n-grams can")
    if model.context != own.context:
        raise OptionError(
            f"this {own.name} model has the context {model.context!r}, which an ARPA file cannot say: its readers "
            f"take {own.context!r}; try training without context="
        )
    if own.name == "byte":
        forms = [bytes([value]) for value in range(256)]
    else:
        forms = [form.encode("utf-8") for form in own.vocabulary.forms]
    return arpa.write_arpa(model, forms, path, escaped=own.name != "word")
