"""Gradients, truncation, repeated multiplication, and what length costs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from thereafter.gallery.picture import GalleryPicture
from thereafter.gallery.sources import ARTICLE, LECTURE, TRANSFORMERS, after_book

if TYPE_CHECKING:
    from thereafter.base.config import Table
    from thereafter.figures.figure import Figure
    from thereafter.gallery.models import Models
    from thereafter.inspection.measurement import Measurement
    from thereafter.language_model import LanguageModel
    from thereafter.models.base import Ids

DISTANCE = 30
"""How far back is looked on running text; where lines stand alone, as far as they go."""


def _ids(models: Models, lm: LanguageModel) -> tuple[Ids, str]:
    from thereafter.inspection.excerpt import excerpt

    ids, _ = excerpt(lm.tokenizer, source=str(models.sentences()["test"]))
    return ids, "agreement sentences held out from training"


def _steps(lm: LanguageModel) -> int | None:
    return DISTANCE if lm.model.facts.restart is None else None


def _flow(lm: LanguageModel, name: str) -> Measurement:
    """From the verb back to its subject, as far between as any sentence the models were trained on."""
    from thereafter.gallery.models import BETWEEN
    from thereafter.inspection.sentence_reader import SentenceReader
    from thereafter.inspection.verb_flow import verb_flow

    return verb_flow(SentenceReader.of(lm.model, lm.tokenizer, lm.config, name), distance=BETWEEN, count=400)


def _decay(models: Models) -> Figure:
    from thereafter.figures.gradients import gradient_decay

    kinds = ("rnn", "gru", "lstm", "mingru", "transformer")
    return gradient_decay([_flow(models.agreement(kind), kind) for kind in kinds], layer="words")


def _rnn_against_lstm(models: Models) -> Figure:
    from thereafter.figures.gradients import gradient_decay

    flows = [_flow(models.agreement(kind), kind) for kind in ("rnn", "lstm")]
    return gradient_decay(flows, name="gradient-rnn-lstm", title="Gradients in an RNN and in an LSTM")


def _depth(models: Models) -> Figure:
    from thereafter.figures.gradients import gradient_depth
    from thereafter.gallery.models import LINES

    options: Table = {"layers": 3, "hidden": 64, "tied": False, "dropout": 0.0, "batch": 16, "rate": 0.01}
    parts = models.sentences()
    options |= LINES | {"tokens_budget": 1_200_000, "seed": models.seed, "tokens": "word", "valid": parts["valid"]}
    deep = models.trained("agreement-lstm-3", parts["train"], "lstm", **options)
    return gradient_depth(_flow(deep, "lstm, 3 layers"))


def _truncation(models: Models) -> Figure:
    from thereafter.figures.gradients import truncation_kept
    from thereafter.inspection.truncation import truncation_effect

    truncations = []
    for kind in ("rnn", "gru", "lstm"):
        lm = models.agreement(kind)
        ids, text = _ids(models, lm)
        truncations.append(truncation_effect(lm.model, ids, rows=16, name=kind, text=text))
    return truncation_kept(truncations)


def _jacobians(models: Models, kind: str) -> Measurement:
    from thereafter.inspection.jacobians import jacobians

    lm = models.agreement(kind)
    ids, text = _ids(models, lm)
    return jacobians(lm.model, ids, steps=_steps(lm), ends=2, name=kind, text=text)


def _paths(models: Models) -> Figure:
    from thereafter.figures.gradients import jacobian_paths

    return jacobian_paths([_jacobians(models, kind) for kind in ("rnn", "gru", "lstm")])


def _spectrum(models: Models) -> Figure:
    from thereafter.figures.gradients import jacobian_spectrum

    return jacobian_spectrum(_jacobians(models, "lstm"))


def _activations(models: Models) -> Figure:
    from thereafter.figures import stability
    from thereafter.inspection.stability import activation_stability

    return stability.activation_stability(activation_stability())


def _eigenvalues(models: Models) -> Figure:
    from thereafter.figures import stability
    from thereafter.inspection.stability import repeated_multiplication

    return stability.repeated_multiplication(repeated_multiplication())


def _bptt_memory(models: Models) -> Figure:
    from thereafter.figures.memory import bptt_memory_by_length
    from thereafter.inspection.bptt_memory import bptt_memory

    return bptt_memory_by_length(bptt_memory())


PLAIN = "transformer (matrix kept)"
SIZE = "2 layers of 64 units, untrained"


@cache
def _growth() -> Measurement:
    """Measured once for three pictures, on fresh models of one width: learning changes neither time nor memory."""
    from thereafter.inspection.growth import growth
    from thereafter.models.build import build, settings_of
    from thereafter.ready.models import one_thread

    size: Table = {"hidden": 64, "layers": 2}
    kinds = {"rnn": size, "lstm": size, "transformer": size | {"heads": 4, "context": 2048}}
    models = {kind: build(kind, settings_of(kind)(**options), vocabulary_size=256) for kind, options in kinds.items()}
    with one_thread():  # beside other work threads wait for each other, and times say nothing
        return growth(models | {PLAIN: models["transformer"]}, (128, 256, 512, 1024, 2048), plain_attention=[PLAIN])


def _time(models: Models) -> Figure:
    from thereafter.figures.memory import time_by_length

    return time_by_length(_growth(), size=SIZE)


def _memory(models: Models) -> Figure:
    from thereafter.figures.memory import memory_by_length

    return memory_by_length(_growth(), size=SIZE)


def _state(models: Models) -> Figure:
    from thereafter.figures.memory import state_by_length

    return state_by_length(_growth(), size=SIZE)


PICTURES = [
    GalleryPicture("gradient-decay", after_book("Bengio, Simard and Frasconi (1994)"), _decay),
    GalleryPicture("gradient-rnn-lstm", after_book("Hochreiter and Schmidhuber (1997)"), _rnn_against_lstm),
    GalleryPicture("gradient-depth", after_book(), _depth),
    GalleryPicture("truncated-bptt", after_book("Williams and Peng (1990)"), _truncation),
    GalleryPicture("jacobian-paths", LECTURE, _paths),
    GalleryPicture("jacobian-spectrum", f"Pascanu, Mikolov and Bengio (2013) and {LECTURE}", _spectrum),
    GalleryPicture("activation-stability", LECTURE, _activations),
    GalleryPicture("repeated-multiplication", ARTICLE, _eigenvalues),
    GalleryPicture("bptt-memory", ARTICLE, _bptt_memory),
    GalleryPicture("time-by-length", TRANSFORMERS, _time),
    GalleryPicture("memory-by-length", TRANSFORMERS, _memory),
    GalleryPicture("state-by-length", TRANSFORMERS, _state),
]
