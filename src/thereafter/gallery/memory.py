"""Pictures of gradients, of memory and of units: truncation, repeated multiplication, what length costs, what is kept
of a subject, agreement by distance, synthetic tasks.

Memory tasks are trained by cell and by way of training; the units are those of the gallery's character LSTM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from thereafter import figures
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS
from thereafter.errors import OptionError
from thereafter.figures.figure import Figure
from thereafter.gallery import claims
from thereafter.gallery.models import (
    ARTICLE,
    BEFORE_VERB,
    BETWEEN,
    BUDGET,
    HOCHREITER,
    KARPATHY,
    LECTURE,
    LINES,
    TRANSFORMERS,
    VERB,
    WILLIAMS,
    GalleryPicture,
    Models,
    after_book,
)
from thereafter.inspection.gradients import verb_flow
from thereafter.inspection.growth import bptt_memory, growth
from thereafter.inspection.jacobians import jacobians, truncation_effect
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.memory import agreement, memory
from thereafter.inspection.probing import probe_class, probe_number
from thereafter.inspection.sentence_reader import SentenceReader, excerpt
from thereafter.inspection.stability import activation_stability, repeated_multiplication
from thereafter.language_model import LanguageModel
from thereafter.models.base import Ids
from thereafter.models.build import build, settings_of
from thereafter.ready.models import FOLLOWED, LETTER_UNITS, READY, one_thread, search_letters
from thereafter.text.agreement import sentences
from thereafter.text.memory import task, text_of

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
    return figures.gradient_decay([_flow(models.agreement(kind), kind) for kind in kinds], layer="words")


def _rnn_against_lstm(models: Models) -> Figure:
    flows = [_flow(models.agreement(kind), kind) for kind in ("rnn", "lstm")]
    return figures.gradient_decay(flows, name="gradient-rnn-lstm", title="Gradients in an RNN and in an LSTM")


def _depth(models: Models) -> Figure:
    options: Table = {"layers": 3, "hidden": 64, "tied": False, "dropout": 0.0, "batch": 16, "rate": 0.01}
    parts = models.sentences()
    options |= LINES | {"tokens_budget": 1_200_000, "seed": models.seed, "tokens": "word", "valid": parts["valid"]}
    deep = models.trained("agreement-lstm-3", parts["train"], "lstm", **options)
    return figures.gradient_depth(_flow(deep, "lstm, 3 layers"))


def _truncation(models: Models) -> Figure:
    truncations = []
    for kind in ("rnn", "gru", "lstm"):
        lm = models.agreement(kind)
        ids, text = _ids(models, lm)
        truncations.append(truncation_effect(lm.model, ids, rows=16, name=kind, text=text))
    return figures.truncation_kept(truncations)


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


KINDS_COMPARED = tuple(name for name in KINDS if name in {one.name for one in READY})
"""The kinds that there are ready models of, oldest first."""
LINZEN = "Linzen, Dupoux and Goldberg (2016)"
RECURRENT = ("rnn", "gru", "lstm", "mingru", "minlstm")
CELLS = (*RECURRENT, "transformer")
_SMALL: Table = {"tokens": "word", "hidden": 32, "dropout": 0.0, "batch": 16}
# word vectors that start large differ from the first step on; small ones cost a plateau of many epochs
_RECURRENT: Table = {"layers": 1, "embed": 16, "tied": False, "init": 1.0}
_TRANSFORMER: Table = {"layers": 2, "heads": 4, "context": 128}


def reader_of(lm: LanguageModel, source: str, name: str | None = None) -> SentenceReader:
    """A trained model as the instruments read it; `source` names its text in captions."""
    return replace(SentenceReader.of(lm.model, lm.tokenizer, lm.config, name), source=source)


def agreement_reader(models: Models, kind: str) -> SentenceReader:
    """One of the models that all pictures of agreement share."""
    return reader_of(models.agreement(kind), f"agreement with up to {BETWEEN} words between")


def on_task(
    models: Models, name: str, kind: str, *, label: str, count: int, shortest: int = 0, longest: int, **options: object
) -> SentenceReader:
    """A small model trained on `count` lines of a memory task with n from `shortest` to `longest`."""
    text = models.folder / f"{name}-{shortest}-{longest}-{count}" / "train.txt"
    if not text.exists():
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text(text_of(task(name), count=count, shortest=shortest, longest=longest), encoding="utf-8")
    rest = _SMALL | (_TRANSFORMER if kind == "transformer" else _RECURRENT) | {"seed": models.seed} | options
    folder = f"{name}-{label}".replace(" ", "-").replace(",", "")
    return reader_of(models.trained(folder, text, kind, **rest), name, label)


def _information_decay(models: Models) -> Figure:
    distances = (0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 20)
    probed = [probe_number(agreement_reader(models, kind), distances) for kind in ("rnn", "gru")]
    lstm = agreement_reader(models, "lstm")
    probed.append(probe_number(lstm, distances, field="c"))
    probed.append(probe_number(replace(lstm, name="lstm, h"), distances))
    return figures.information_decay(probed)


def _by(name: str, source: str, draw: Callable[..., Figure], claim: Callable[[Figure], str]) -> GalleryPicture:
    """A picture of the agreement of all kinds that are compared."""

    def build(models: Models) -> Figure:
        test_sentences = list(sentences(2000, seed=77, part="test", max_distance=2 * BETWEEN))
        return draw([agreement(agreement_reader(models, kind), test_sentences) for kind in KINDS_COMPARED])

    return GalleryPicture(f"agreement-by-{name}", source, build, claim)


def _was_or_were(models: Models) -> Figure:
    expectations = [
        expectation(agreement_reader(models, kind), BEFORE_VERB, ("was", "were")) for kind in ("rnn", "gru", "lstm")
    ]
    return figures.expectation_along(expectations, verb=VERB)


def _word_class(models: Models) -> Figure:
    options: Table = {"tokens": "word", "layers": 2, "hidden": 128, "connect": "residual", "tied": False}
    options |= {"dropout": 0.0, "batch": 16, "rate": 0.01, "tokens_budget": BUDGET // 3, "seed": models.seed}
    deep = models.trained("agreement-lstm-deep", models.sentences()["train"], "lstm", **options, **LINES)
    return figures.word_class_by_layer([probe_class(reader_of(deep, "agreement", "lstm, 2 layers"), count=300)])


_ONE_SEED = "one seed each, settings chosen so that the task can be learned: no neutral comparison"


def _measure(readers: Sequence[SentenceReader], name: str, spans: Sequence[int], longest: int) -> list[Measurement]:
    return [memory(reader, task(name), spans, longest=longest) for reader in readers]


def _drawn(measured: Sequence[Measurement], name: str, title: str, note: str, asked: str = "") -> Figure:
    return figures.accuracy_by_n(measured, name=f"memory-{name}", title=title, note=f"{note}; {_ONE_SEED}", asked=asked)


def _remember(models: Models) -> Figure:
    rates = dict.fromkeys(CELLS, 0.01) | {"transformer": 0.005}
    readers = [
        on_task(models, "remember-first", kind, label=kind, count=4000, longest=20, epochs=16, rate=rate)
        for kind, rate in rates.items()
    ]
    note = "each cell has 32 units and saw 4,000 lines of n from 1 to 20, 16 times over"
    measured = _measure(readers, "remember-first", (1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 40), 20)
    return _drawn(measured, "remember-first", "Remember the first symbol for n steps", note)


def _count(models: Models) -> Figure:
    readers = [
        on_task(models, "count-and-fire", kind, label=kind, count=2000, longest=8, epochs=15, rate=0.02)
        for kind in RECURRENT[:4]
    ]
    note = "each n has one line, right always or never; 32 units each, trained on n from 1 to 8"
    return _drawn(
        _measure(readers, "count-and-fire", range(1, 17), 8), "count-and-fire", "Count to n, fire after n", note
    )


def _brackets(models: Models) -> Figure:
    readers = [
        on_task(models, "balanced-brackets", kind, label=kind, count=3000, longest=20, epochs=6, rate=0.01)
        for kind in RECURRENT
    ]
    note = "32 units each, trained on n from 0 to 20"
    measured = _measure(readers, "balanced-brackets", range(0, 31, 2), 20)
    return _drawn(measured, "balanced-brackets", "Which bracket is open, n words back", note)


def _memory_by_truncation(models: Models) -> Figure:
    lines: Table = {"count": 3000, "shortest": 10, "longest": 14}
    how: Table = {"context": "stream", "batching": "stream", "epochs": 6, "rate": 0.02}
    readers = [
        on_task(models, "remember-first", "gru", label=f"cut after {steps} words", steps=steps, **lines, **how)
        for steps in (4, 8, 16, 32)
    ]
    asked = "GRUs of 32 units, their gradients cut after 4 to 32 words and their states carried on,"
    measured = _measure(readers, "remember-first", range(1, 21), 14)
    note = "n from 10 to 14 in training"
    return _drawn(measured, "by-truncation", "Truncated backpropagation and memory", note, asked)


def _relu(models: Models) -> Figure:
    rest: Table = {"optimizer": "sgd", "schedule": "cosine", "rate": 0.5, "epochs": 6}
    readers = []
    for bend, clip in (("tanh", 5.0), ("relu", 5.0), ("tanh", 0.1), ("relu", 0.1)):
        way = rest | {"nonlinearity": bend, "clip": clip}
        label = f"{bend} clipped at {clip:g}"
        readers.append(on_task(models, "balanced-brackets", "rnn", label=label, count=3000, longest=20, **way))
    asked = "Simple RNNs of 32 units with tanh or ReLU, the gradient's norm clipped at 5 or 0.1,"
    measured = _measure(readers, "balanced-brackets", range(0, 31, 2), 20)
    note = "plain SGD, n from 0 to 20 in training"
    return _drawn(measured, "relu-tanh", "ReLU and tanh with light and heavy clipping", note, asked)


@cache
def _search(models: Models) -> Measurement:
    """The search, made once for all pictures of it."""
    name = f"a character LSTM (python-code, {LETTER_UNITS} units)"
    return search_letters(models.letters(), (*FOLLOWED, "keyword", "boundary"), text="python-code (test)", model=name)


def _follows(name: str, picture: str) -> GalleryPicture:
    def build(models: Models) -> Figure:
        return replace(figures.coloured_units(_search(models), name), name=picture)

    return GalleryPicture(picture, KARPATHY, build)


PICTURES: list[GalleryPicture] = [
    GalleryPicture("gradient-decay", after_book("Bengio, Simard and Frasconi (1994)"), _decay),
    GalleryPicture("gradient-rnn-lstm", after_book(HOCHREITER), _rnn_against_lstm),
    GalleryPicture("gradient-depth", after_book(), _depth),
    GalleryPicture("truncated-bptt", after_book(WILLIAMS), _truncation),
    GalleryPicture(
        "jacobian-paths",
        LECTURE,
        lambda models: figures.jacobian_paths([_jacobians(models, kind) for kind in ("rnn", "gru", "lstm")]),
    ),
    GalleryPicture(
        "jacobian-spectrum",
        f"Pascanu, Mikolov and Bengio (2013) and {LECTURE}",
        lambda models: figures.jacobian_spectrum(_jacobians(models, "lstm")),
    ),
    GalleryPicture(
        "activation-stability", LECTURE, lambda models: figures.activation_stability(activation_stability())
    ),
    GalleryPicture(
        "repeated-multiplication",
        ARTICLE,
        lambda models: figures.repeated_multiplication(repeated_multiplication()),
    ),
    GalleryPicture("bptt-memory", ARTICLE, lambda models: figures.bptt_memory_by_length(bptt_memory())),
    _by_length("time-by-length", figures.time_by_length),
    _by_length("memory-by-length", figures.memory_by_length),
    _by_length("state-by-length", figures.state_by_length),
    GalleryPicture("information-decay", after_book(), _information_decay, claims.rnn_forgets),
    _by("distance", after_book(LINZEN), figures.accuracy_by_distance, claims.distance_hurts_rnn),
    _by("congruence", LINZEN, figures.accuracy_by_congruence, claims.attractors_mislead),
    GalleryPicture("was-or-were", after_book(), _was_or_were, claims.verb_is_expected),
    GalleryPicture("word-class-by-layer", after_book("Hewitt and Liang (2019)"), _word_class, claims.lower_layers_know),
    GalleryPicture("memory-remember-first", HOCHREITER, _remember, claims.gated_remember_longer),
    GalleryPicture("memory-count-and-fire", HOCHREITER, _count, claims.gated_remember_longer),
    GalleryPicture("memory-balanced-brackets", HOCHREITER, _brackets, claims.gated_remember_longer),
    GalleryPicture("memory-by-truncation", after_book(WILLIAMS), _memory_by_truncation, claims.truncation_hurts),
    GalleryPicture("memory-relu-tanh", LECTURE, _relu, claims.clipping_saves_relu),
    GalleryPicture(
        "unit-ranking", KARPATHY, lambda models: figures.unit_ranking(_search(models)), claims.units_follow_text
    ),
    _follows("quotes-or-comment", "unit-quotes-or-comment"),
    _follows("quotes", "unit-quotes"),
    _follows("line-position", "unit-line-position"),
    _follows("indentation", "unit-indentation"),
    _follows("brackets", "unit-brackets"),
]


def expectation(reader: SentenceReader, sentence: str, words: Sequence[str]) -> Measurement:
    """p(word | sentence so far) for each of `words`, after each word of the sentence: `probability` [step, word]."""
    reader.whole_words()
    ids, chosen = reader.ids(sentence), [reader.word(word) for word in words]
    read = sentence.split()
    if not read or not chosen:
        raise OptionError(f"got {len(read)} words to read and {len(chosen)} to expect; expected at least one of both")
    state = reader.model.start(1)
    rows = []
    for token in ids.tolist():
        logp_1V, state = reader.model.step(np.array([token]), state)
        rows.append(np.exp(np.asarray(logp_1V, dtype=np.float64)[0, chosen]))
    arrays = {"step": np.array(read), "word": np.array(list(words)), "probability": np.array(rows[-len(read) :])}
    return Measurement.of("expectation", arrays, reader.about(text=sentence))
