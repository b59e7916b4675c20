"""Pictures of states, gates, attention and distributions, from the gallery's models.

`senses` measures one word in different contexts: its vector is one, the state after reading it is many. The contexts
come from a generated text in which "bank" has two senses, which only the words before it tell apart. Between the word
that settles the sense and "bank" stand words that both senses share, so that a model has to carry it.

Shapes: S sentences, U units, T tokens, M orders.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter import figures
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import MinGRU
from thereafter.errors import OptionError
from thereafter.figures.figure import Figure
from thereafter.gallery import claims
from thereafter.gallery.models import (
    ARTICLE,
    BETWEEN,
    IN_PLURAL,
    KARPATHY,
    LECTURE,
    SENTENCE,
    SUBJECT,
    VERB,
    GalleryPicture,
    Models,
    after_book,
)
from thereafter.inspection import dynamics as measure
from thereafter.inspection.dynamics import gate_surface, prediction_surface, principal
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.properties import word_groups
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.inspection.trace import Trace
from thereafter.inspection.units import number_unit
from thereafter.layers.recurrent import count_parameters
from thereafter.models.base import Ids
from thereafter.models.feedforward import TransformerModel
from thereafter.models.neural import NeuralModel
from thereafter.models.recurrent import RecurrentModel
from thereafter.ngram.model import NgramModel
from thereafter.ready.models import WORD_UNITS
from thereafter.text.agreement import sentences, words
from thereafter.text.agreement.lexicon import lexicon
from thereafter.text.sources import resolve
from thereafter.text.tokenizers.base import Tokenizer

M = TypeVar("M")
MODEL = f"an LSTM (agreement, {WORD_UNITS} units)"
_ASKED = 1200  # sentences, half of them to choose the unit on


def _test_sentences(models: Models, count: int) -> list[str]:
    """Sentences of the test part the gallery's models were not trained on."""
    return models.sentences()["test"].read_text(encoding="utf-8").splitlines()[:count]


def _long_trace(models: Models, kind: str, count: int) -> Trace:
    trace = models.agreement(kind).trace("\n".join(_test_sentences(models, count)) + "\n", limit=2000)
    return replace(trace, about=trace.about | {"source": "agreement (test)"})


def _as(kind: type[M], model: object) -> M:
    """The model as one of the kind that an instrument takes: the pictures here name the kind they train."""
    if not isinstance(model, kind):
        raise TypeError(f"the model is a {type(model).__name__}; expected a {kind.__name__}")
    return model


def _with_notes(measurement: Measurement, **about: str) -> Measurement:
    return replace(measurement, about=measurement.about | about)


def _senses(models: Models) -> Figure:
    path = models.folder / "bank.txt"
    source = path if path.exists() else write_bank_text(path)
    options = {"tokens": "word", "hidden": 32, "layers": 1, "tied": False, "dropout": 0.0, "batch": 32}
    lm = models.trained("bank-lstm", source, "lstm", epochs=20, rate=0.01, seed=models.seed, **options)
    made = senses(
        _as(RecurrentModel, lm.model), lm.tokenizer, BANK, bank_contexts(12), text="4,000 sentences made from templates"
    )
    return figures.senses(made, model="an LSTM of 32 units")


def _hidden(models: Models) -> Figure:
    path = _with_notes(measure.trajectory(models.agreement("rnn").trace(SENTENCE), "l0.h"), text=SENTENCE)
    return figures.trajectory(path, model=f"an RNN (agreement, {WORD_UNITS} units)")


def _cell(models: Models) -> Figure:
    trace, simple = (models.agreement(kind).trace(SENTENCE) for kind in ("lstm", "rnn"))
    path = _with_notes(measure.trajectory(trace, "l0.c"), text=SENTENCE)
    figure = figures.trajectory(path, model=MODEL, name="cell-trajectory")
    return replace(figure, caption=f"{figure.caption} {claims.cell_state_is_smoother(trace['l0.c'], simple['l0.h'])}")


def _gate_surface(models: Models) -> Figure:
    lm = models.agreement("lstm")
    surface = _with_notes(gate_surface(lm.model, lm.tokenizer, SENTENCE), text=SENTENCE)
    return figures.gate_surface(surface, model=MODEL)


def _running(models: Models) -> Figure:
    figure = figures.gates(models.agreement("lstm").trace(SENTENCE), model=MODEL, name="gates-running-example")
    note = "A mean over all units hides what single ones do: see “The unit that carries the number”."
    return replace(figure, caption=f"{figure.caption} {note}")


def _number(models: Models) -> Figure:
    """What the means over all units hide: the one unit that carries the number, in a sentence and its plural twin."""
    lm = models.agreement("lstm")
    asked = sentences(_ASKED, seed=78, part="test", min_distance=1, max_distance=BETWEEN)
    best = number_unit(SentenceReader.of(lm.model, lm.tokenizer, lm.config), asked, field="c")
    both = (lm.trace(text) for text in (SENTENCE, IN_PLURAL))
    return figures.number_along(best, *both, subject=SUBJECT, verb=VERB, model=MODEL, name="gates-agreement")


def _classes(models: Models) -> Figure:
    lm = models.agreement("lstm")
    several = [lm.trace(sentence) for sentence in _test_sentences(models, 200)]
    classes = [[_word_classes().get(token.strip(), "other") for token in trace.tokens] for trace in several]
    by_class = measure.by_class(several, classes)
    figure = figures.gates_by_class(by_class, model=MODEL, text="agreement (test)")
    note = (
        "Other: conjunctions, commas, pronouns, particles, phrases that open a sentence, words of place (“upstairs”)."
    )
    return replace(figure, caption=f"{figure.caption} {note}")


def _saturation(models: Models) -> Figure:
    measurement = measure.saturation(_long_trace(models, "lstm", 80))
    return figures.saturation(_with_notes(measurement, source="agreement (test)"), model=MODEL)


def _timescales(models: Models) -> Figure:
    measurement = measure.timescales(_long_trace(models, "lstm", 80))
    return figures.timescales(measurement, model=MODEL)


def _prediction(models: Models) -> Figure:
    lm = models.agreement("lstm")
    text_ = " ".join(_test_sentences(models, 40))
    surface = _with_notes(prediction_surface(lm.model, lm.tokenizer, text_), source="agreement (test)")
    return figures.prediction_surface(surface, model=MODEL)


def _curves(models: Models) -> Figure:
    logs = {kind: models.agreement(kind).log for kind in ("rnn", "gru", "lstm")}
    return figures.training_curves(logs, text=f"agreement (one layer of {WORD_UNITS} units each)")


def _counts(models: Models) -> Figure:
    inputs, hidden = 128, 256
    per_gate = hidden * (inputs + hidden) + hidden
    rows = {
        "rnn": (Elman(inputs, hidden, bias="one"), per_gate, "H(d+H) + H"),
        "gru": (GRU(inputs, hidden, bias="one"), 3 * per_gate, "3 (H(d+H) + H)"),
        "lstm": (LSTM(inputs, hidden, bias="one"), 4 * per_gate, "4 (H(d+H) + H)"),
        "mingru": (MinGRU(inputs, hidden, bias="one"), 2 * (hidden * inputs + hidden), "2 (Hd + H)"),
    }
    counted = {name: (count_parameters(cell), expected, how) for name, (cell, expected, how) in rows.items()}
    return figures.parameter_counts(counted, inputs=inputs, hidden=hidden)


def _attention(models: Models) -> Figure:
    lm = models.agreement("transformer")
    return figures.head_maps(lm.trace(SENTENCE), model="a Transformer (agreement, 2 layers)", text=SENTENCE)


def _positions(models: Models) -> Figure:
    lm = models.agreement("transformer")
    vectors = _as(TransformerModel, lm.model).positions
    table = vectors.table_CH.detach().cpu().numpy()
    return figures.positions(table, kind=vectors.kind, model="a Transformer (agreement, 2 layers)")


def _temperature(models: Models) -> Figure:
    lm = models.letters()
    prompt = "    def __init__(self, "
    tokens = [lm.tokenizer.piece(i) for i in range(len(lm.tokenizer.vocabulary))]
    name = "a character LSTM (python-code)"
    return figures.temperature(lm.distribution(prompt), tokens, model=name, prompt=f"{prompt.strip()}␣")


def _sparsity(models: Models) -> Figure:
    lm = models.trained("code-ngram", "python-code:train", "ngram", tokens="prose", order=6)
    new = resolve("python-code:test").parts["text"].text()
    measurement = sparsity(_as(NgramModel, lm.model), lm.tokenizer.encode(new), text="python-code (test)")
    return figures.sparsity(measurement)


@cache
def _word_classes() -> dict[str, str]:
    """The class of every word the agreement corpus is written with."""
    known, groups = lexicon(), word_groups()
    named: dict[str, Iterable[str]] = {
        "adverb": [*known.often, *words.INTENSIFIERS, *(w for group in known.manner.values() for w in group)],
        "preposition": [p[0] for group in (words.BESIDE, words.WITH, words.IN_PLACES) for p in group],
        **{kind: groups[kind] for kind in ("adjective", "verb", "auxiliary", "noun", "determiner")},
        "relative": ["that", "who", "which"],
        "sentence end": ["."],
    }
    return {word: kind for kind, listed in named.items() for word in listed}


PICTURES = [
    GalleryPicture("static-contextual", after_book(), _senses, claims.senses_apart),
    GalleryPicture("hidden-trajectory", after_book("Elman (1990)"), _hidden),
    GalleryPicture("gate-surface", after_book(), _gate_surface),
    GalleryPicture("gates-agreement", after_book("Lakretz et al. (2019)"), _number, claims.number_kept),
    GalleryPicture("gates-running-example", after_book(), _running, claims.mean_gates),
    GalleryPicture("cell-trajectory", after_book(), _cell),
    GalleryPicture("gates-by-class", after_book(), _classes, claims.gates_of_classes),
    GalleryPicture("parameter-counts", after_book(), _counts, claims.gru_is_smaller),
    GalleryPicture("training-curves", after_book(), _curves, claims.fast_then_slow),
    GalleryPicture("prediction-surface", after_book(), _prediction),
    GalleryPicture("gate-saturation", after_book(KARPATHY), _saturation, claims.more_open_than_shut),
    GalleryPicture("timescales", f"Tallec and Ollivier (2018) and {LECTURE}", _timescales, claims.some_remember_long),
    GalleryPicture("attention-heads", "Vaswani et al. (2017)", _attention, claims.heads_look_back(VERB, SUBJECT)),
    GalleryPicture("positional-encodings", "Vaswani et al. (2017)", _positions, claims.near_positions_alike),
    GalleryPicture("temperature", ARTICLE, _temperature, claims.low_temperature_sharpens),
    GalleryPicture("ngram-sparsity", ARTICLE, _sparsity, claims.longer_is_sparser),
]


def sparsity(model: NgramModel, new_ids: Ids, *, text: str = "") -> Measurement:
    """How few n-grams a text shows, by order n: `counted` of `possible` V^n, of a new text the share `seen`.

    The longest n-gram the model finds at a token has the order of the trace; since a part of an n-gram that was seen
    was seen too, an order counts as seen at every token whose order is that or more.
    """
    order_T = model.record(new_ids, model.start(1))["order"][1].astype(np.int64)
    orders = np.arange(1, model.order + 1)
    counted = np.bincount(model.tables.order_of(np.arange(len(model.tables.word))), minlength=model.order + 1)[1:]
    arrays = {"order": orders, "counted": counted, "possible": float(model.vocabulary_size) ** orders}
    arrays |= {"seen": np.array([(order_T >= order).mean() for order in orders])}
    about = {"model": f"{model.order}-gram", "text": text, "new": len(order_T), "vocabulary": model.vocabulary_size}
    return Measurement.of("sparsity", arrays, about)


def senses(
    model: NeuralModel, tokenizer: Tokenizer, word: str, contexts: Mapping[str, Sequence[str]], *, text: str = ""
) -> Measurement:
    """The state after a word at the end of several contexts of each sense, against its one static vector.

    `contexts[sense]` are beginnings that end with the word. Returns `point` [sentence, 2], the states in the plane of
    their first two principal components, `sense` and `context` [sentence], and cosines of the states, their common mean
    taken off: `cosine` [sentence, sentence], `within` and `between`, their means. The static vector's cosine with
    itself is 1 in all contexts: `static` [sentence, sentence].
    """
    if len(contexts) < 2 or any(len(listed) < 2 for listed in contexts.values()):
        raise OptionError("expected at least 2 senses of 2 contexts each; try more sentences")
    labels = [sense for sense, listed in contexts.items() for _ in listed]
    listed = [context for several in contexts.values() for context in several]
    states_SU, vectors_SE = [], []
    table_VE = model.input_embedding()
    for context in listed:
        ids = tokenizer.encode(context)
        if not len(ids) or tokenizer.piece(int(ids[-1])).strip() != word:
            raise OptionError(f"{context!r} does not end with the model's token {word!r}; expected contexts that do")
        state = model.read(ids.reshape(1, -1), model.start(1))
        states_SU.append(model.features_of(state)[0].float().cpu().numpy())
        vectors_SE.append(table_VE[int(ids[-1])])
    points_SU = np.stack(states_SU).astype(np.float64)
    plane = principal(points_SU, 2)
    cosine = _cosines(points_SU - points_SU.mean(axis=0))
    same = np.array([[one == other for other in labels] for one in labels])
    others = ~np.eye(len(labels), dtype=bool)
    arrays = {
        "sense": np.array(labels),
        "context": np.array(listed),
        "point": plane.project(points_SU),
        "share": plane.share_K,
        "cosine": cosine,
        "static": _cosines(np.stack(vectors_SE).astype(np.float64)),
        "within": np.array(cosine[same & others].mean()),
        "between": np.array(cosine[~same].mean()),
    }
    return Measurement.of("senses", arrays, {"model": type(model).__name__, "word": word, "text": text})


def _cosines(points_SU: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.maximum(np.linalg.norm(points_SU, axis=1), np.finfo(np.float64).tiny)
    cosine_SS: NDArray[np.float64] = points_SU @ points_SU.T / np.outer(lengths, lengths)
    return cosine_SS


BANK = "bank"
SENSES = {
    "river": (
        ("river", "stream", "lake", "water", "flood", "ferry"),
        ("rose", "froze", "ran", "moved", "came"),
        ("muddy", "steep", "green", "wet", "slippery", "grassy"),
    ),
    "savings": (
        ("savings", "loan", "money", "cash", "account", "interest"),
        ("grew", "sank", "ran", "moved", "came"),
        ("rich", "closed", "solvent", "busy", "insured", "bankrupt"),
    ),
}
_FIRST = ("the", "our", "all the", "some of the")
_LINKS = ("and", "so", "while", "until", "because", "and then", "and after that", "but all the while")


def bank_sentences(count: int, seed: int = 0) -> list[str]:
    """`count` sentences, such as "the river rose and the bank was muddy"."""
    draw = random.Random(f"bank {seed}")
    made = []
    for _ in range(count):
        sense = draw.choice(list(SENSES))
        beginning = _beginning(draw, sense)
        made.append(f"{beginning} was {draw.choice(SENSES[sense][2])}")
    return made


def bank_contexts(each: int, seed: int = 1) -> dict[str, list[str]]:
    """Beginnings of either sense that end with the word."""
    draw = random.Random(f"contexts {seed}")
    by_sense = {}
    for sense in SENSES:
        different: dict[str, None] = {}
        while len(different) < each:
            different[_beginning(draw, sense)] = None
        by_sense[sense] = list(different)
    return by_sense


def write_bank_text(path: Path, count: int = 4000, seed: int = 0) -> Path:
    """The text as a file, a sentence a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(bank_sentences(count, seed)) + "\n", encoding="utf-8")
    return path


def _beginning(draw: random.Random, sense: str) -> str:
    nouns, verbs, _ = SENSES[sense]
    return f"{draw.choice(_FIRST)} {draw.choice(nouns)} {draw.choice(verbs)} {draw.choice(_LINKS)} the {BANK}"
