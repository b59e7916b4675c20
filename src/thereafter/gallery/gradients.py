"""Gradients, truncation, repeated multiplication, and what length costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from thereafter.base.config import Table
from thereafter.figures import stability as figures_of_stability
from thereafter.figures.figure import Figure
from thereafter.figures.gradients import (
    gradient_decay,
    gradient_depth,
    jacobian_paths,
    jacobian_spectrum,
    truncation_kept,
)
from thereafter.figures.memory import bptt_memory_by_length, memory_by_length, state_by_length, time_by_length
from thereafter.gallery.models import BETWEEN, LINES, Models
from thereafter.gallery.picture import ARTICLE, LECTURE, TRANSFORMERS, GalleryPicture, after_book
from thereafter.inspection import stability
from thereafter.inspection.gradients import verb_flow
from thereafter.inspection.growth import bptt_memory, growth
from thereafter.inspection.jacobians import jacobians, truncation_effect
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader, excerpt
from thereafter.language_model import LanguageModel
from thereafter.models.base import Ids
from thereafter.models.build import build, settings_of
from thereafter.ready.models import one_thread

DISTANCE = 30
"""How far back is looked on running text; where lines stand alone, as far as they go."""


def _ids(models: Models, lm: LanguageModel) -> tuple[Ids, str]:
    ids, _ = excerpt(lm.tokenizer, source=str(models.sentences()["test"]))
    return ids, "agreement sentences held out from training"


def _flow(lm: LanguageModel, name: str) -> Measurement:
    """From the verb back to its subject, as far between as any sentence the models were trained on."""
    return verb_flow(SentenceReader.of(lm.model, lm.tokenizer, lm.config, name), distance=BETWEEN, count=400)


def _decay(models: Models) -> Figure:
    kinds = ("rnn", "gru", "lstm", "mingru", "transformer")
    return gradient_decay([_flow(models.agreement(kind), kind) for kind in kinds], layer="words")


def _rnn_against_lstm(models: Models) -> Figure:
    flows = [_flow(models.agreement(kind), kind) for kind in ("rnn", "lstm")]
    return gradient_decay(flows, name="gradient-rnn-lstm", title="Gradients in an RNN and in an LSTM")


def _depth(models: Models) -> Figure:
    options: Table = {"layers": 3, "hidden": 64, "tied": False, "dropout": 0.0, "batch": 16, "rate": 0.01}
    parts = models.sentences()
    options |= LINES | {"tokens_budget": 1_200_000, "seed": models.seed, "tokens": "word", "valid": parts["valid"]}
    deep = models.trained("agreement-lstm-3", parts["train"], "lstm", **options)
    return gradient_depth(_flow(deep, "lstm, 3 layers"))


def _truncation(models: Models) -> Figure:
    truncations = []
    for kind in ("rnn", "gru", "lstm"):
        lm = models.agreement(kind)
        ids, text = _ids(models, lm)
        truncations.append(truncation_effect(lm.model, ids, rows=16, name=kind, text=text))
    return truncation_kept(truncations)


def _jacobians(models: Models, kind: str) -> Measurement:
    lm = models.agreement(kind)
    ids, text = _ids(models, lm)
    steps = DISTANCE if lm.model.facts.restart is None else None
    return jacobians(lm.model, ids, steps=steps, ends=2, name=kind, text=text)


PLAIN = "transformer (matrix kept)"
SIZE = "2 layers of 64 units, untrained"


@cache
def _growth() -> Measurement:
    """Measured once for three pictures, on fresh models of one width: learning changes neither time nor memory."""
    size: Table = {"hidden": 64, "layers": 2}
    kinds = {"rnn": size, "lstm": size, "transformer": size | {"heads": 4, "context": 2048}}
    models = {kind: build(kind, settings_of(kind)(**options), vocabulary_size=256) for kind, options in kinds.items()}
    with one_thread():  # beside other work threads wait for each other, and times say nothing
        return growth(models | {PLAIN: models["transformer"]}, (128, 256, 512, 1024, 2048), plain_attention=[PLAIN])


def _by_length(name: str, draw: Callable[..., Figure]) -> GalleryPicture:
    return GalleryPicture(name, TRANSFORMERS, lambda models: draw(_growth(), size=SIZE))


PICTURES = [
    GalleryPicture("gradient-decay", after_book("Bengio, Simard and Frasconi (1994)"), _decay),
    GalleryPicture("gradient-rnn-lstm", after_book("Hochreiter and Schmidhuber (1997)"), _rnn_against_lstm),
    GalleryPicture("gradient-depth", after_book(), _depth),
    GalleryPicture("truncated-bptt", after_book("Williams and Peng (1990)"), _truncation),
    GalleryPicture(
        "jacobian-paths",
        LECTURE,
        lambda models: jacobian_paths([_jacobians(models, kind) for kind in ("rnn", "gru", "lstm")]),
    ),
    GalleryPicture(
        "jacobian-spectrum",
        f"Pascanu, Mikolov and Bengio (2013) and {LECTURE}",
        lambda models: jacobian_spectrum(_jacobians(models, "lstm")),
    ),
    GalleryPicture(
        "activation-stability",
        LECTURE,
        lambda models: figures_of_stability.activation_stability(stability.activation_stability()),
    ),
    GalleryPicture(
        "repeated-multiplication",
        ARTICLE,
        lambda models: figures_of_stability.repeated_multiplication(stability.repeated_multiplication()),
    ),
    GalleryPicture("bptt-memory", ARTICLE, lambda models: bptt_memory_by_length(bptt_memory())),
    _by_length("time-by-length", time_by_length),
    _by_length("memory-by-length", memory_by_length),
    _by_length("state-by-length", state_by_length),
]
