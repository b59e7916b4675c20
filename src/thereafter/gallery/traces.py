"""Pictures of states, gates, attention and distributions, from the gallery's models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import MinGRU
from thereafter.figures import attention, dynamics, text, traces
from thereafter.figures.figure import Figure
from thereafter.gallery import bank
from thereafter.gallery.models import Models
from thereafter.gallery.picture import Picture
from thereafter.gallery.sources import ARTICLE, LECTURE, after_book
from thereafter.inspection import dynamics as measure
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.senses import senses
from thereafter.inspection.sparsity import sparsity
from thereafter.inspection.surface import gate_surface, prediction_surface
from thereafter.inspection.trace import Trace
from thereafter.layers.counting import count_parameters
from thereafter.text.agreement import words
from thereafter.text.agreement.lexicon import lexicon
from thereafter.text.sources import resolve

RUNNING = (
    "the trophy that the athletes from the national team had won during the championship could n't fit in the display "
    "case because it was too large ."
)
"""The running example of document 000, as the corpus writes words."""
KNOWN = "the trophy that the children from the old village had found near the museum was very dusty ."
"""A sentence of the same build whose words the gallery's models know."""


def _of_test(models: Models, count: int) -> list[str]:
    """Sentences of the test part the gallery's models were not trained on."""
    return models.sentences()["test"].read_text(encoding="utf-8").splitlines()[:count]


def _long_trace(models: Models, kind: str, count: int) -> Trace:
    trace = models.agreement(kind).trace("\n".join(_of_test(models, count)) + "\n")
    return replace(trace, about=trace.about | {"source": "agreement (test)"})


def _noted(found: Measurement, **about: str) -> Measurement:
    return replace(found, about=found.about | about)


def _senses(models: Models) -> Figure:
    path = models.folder / "bank.txt"
    source = path if path.exists() else bank.write(path)
    options = {"tokens": "word", "hidden": 32, "layers": 1, "tied": False, "dropout": 0.0, "batch": 32}
    lm = models.trained("bank-lstm", source, "lstm", epochs=20, rate=0.01, seed=models.seed, **options)
    made = senses(
        lm.model,  # type: ignore[arg-type]  # an lstm is a neural model
        lm.tokenizer,
        bank.WORD,
        bank.contexts(12),
        text="4,000 sentences made from templates",
    )
    return dynamics.senses(made, model="an LSTM of 32 units")


def _hidden(models: Models) -> Figure:
    found = _noted(measure.trajectory(models.agreement("rnn").trace(KNOWN), "l0.h"), text=KNOWN)
    return dynamics.trajectory(found, model="an RNN (agreement, 128 units)")


def _cell(models: Models) -> Figure:
    found = _noted(measure.trajectory(models.agreement("lstm").trace(KNOWN), "l0.c"), text=KNOWN)
    return dynamics.trajectory(found, model="an LSTM (agreement, 128 units)", name="cell-trajectory")


def _gate_surface(models: Models) -> Figure:
    lm = models.agreement("lstm")
    found = _noted(gate_surface(lm.model, lm.tokenizer, KNOWN), text=KNOWN)
    return dynamics.gate_surface(found, model="an LSTM (agreement, 128 units)")


def _gates(models: Models) -> Figure:
    trace = models.agreement("lstm").trace(KNOWN)
    return traces.gates(trace, model="an LSTM (agreement, 128 units)", name="gates-agreement")


def _running(models: Models) -> Figure:
    trace = models.agreement("lstm").trace(RUNNING)
    read = zip(RUNNING.split(), trace.tokens, strict=True)
    labels = [f"({word})" if token == "<unk>" else word for word, token in read]
    drawn = traces.gates(trace, model="an LSTM (agreement, 128 units)", name="gates-running-example", labels=labels)
    said = "Words in brackets are none of the corpus: the model reads them as one unknown word."
    return replace(drawn, caption=f"{drawn.caption} {said}")


def _classes(models: Models) -> Figure:
    lm = models.agreement("lstm")
    several = [lm.trace(sentence) for sentence in _of_test(models, 200)]
    classes = [[_class(token) for token in trace.tokens] for trace in several]
    found = measure.by_class(several, classes)
    drawn = traces.gates_by_class(found, model="an LSTM (agreement, 128 units)", text="agreement (test)")
    said = (
        "Other: conjunctions, commas, pronouns, particles, phrases that open a sentence, words of place (“upstairs”)."
    )
    return replace(drawn, caption=f"{drawn.caption} {said}")


def _saturation(models: Models) -> Figure:
    found = measure.saturation(_long_trace(models, "lstm", 80))
    return dynamics.saturation(_noted(found, source="agreement (test)"), model="an LSTM (agreement, 128 units)")


def _timescales(models: Models) -> Figure:
    found = measure.timescales(_long_trace(models, "lstm", 80))
    return dynamics.timescales(found, model="an LSTM (agreement, 128 units)")


def _prediction(models: Models) -> Figure:
    lm = models.agreement("lstm")
    text_ = " ".join(_of_test(models, 40))
    found = _noted(prediction_surface(lm.model, lm.tokenizer, text_), source="agreement (test)")
    return dynamics.prediction_surface(found, model="an LSTM (agreement, 128 units)")


def _curves(models: Models) -> Figure:
    logs = {kind: models.agreement(kind).log for kind in ("rnn", "gru", "lstm")}
    return traces.training_curves(logs, text="agreement (one layer of 128 units each)")


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
    return traces.parameter_counts(counted, inputs=inputs, hidden=hidden)


def _attention(models: Models) -> Figure:
    lm = models.agreement("transformer")
    return attention.head_maps(lm.trace(KNOWN), model="a Transformer (agreement, 2 layers)", text=KNOWN)


def _positions(models: Models) -> Figure:
    lm = models.agreement("transformer")
    kept = lm.model.positions  # type: ignore[attr-defined]  # a Transformer's own
    table = kept.table_CH.detach().cpu().numpy()
    return attention.positions(table, kind=kept.kind, model="a Transformer (agreement, 2 layers)")


def _temperature(models: Models) -> Figure:
    lm = models.letters()
    prompt = "    def __init__(self, "
    tokens = [lm.tokenizer.piece(i) for i in range(len(lm.tokenizer.vocabulary))]
    name = "a character LSTM (python-code)"
    return text.temperature(lm.distribution(prompt), tokens, model=name, prompt=f"{prompt.strip()}␣")


def _sparsity(models: Models) -> Figure:
    lm = models.trained("code-ngram", "python-code:train", "ngram", tokens="prose", order=6)
    new = resolve("python-code:test").parts["text"].text()
    found = sparsity(lm.model, lm.tokenizer.encode(new), text="python-code (test)")  # type: ignore[arg-type]
    return text.sparsity(found)


@cache
def _word_classes() -> dict[str, str]:
    """The class of every word the agreement corpus is written with."""
    known = lexicon()
    named: dict[str, Sequence[str]] = {
        "adverb": [*known.often, *words.INTENSIFIERS, *(w for group in known.manner.values() for w in group)],
        "preposition": [p[0] for group in (words.BESIDE, words.WITH, words.IN_PLACES) for p in group],
        "adjective": [w for part in (known.adjectives, known.states) for group in part.values() for w in group],
        "verb": [form for verb in known.all_verbs for form in verb],
        "auxiliary": [*(form for pair in words.AUXILIARIES for form in pair), *words.MODALS, "had"],
        "noun": [form for noun in known.all_nouns for form in (noun.singular, noun.plural)],
        "determiner": list(words.SUBJECT_DETERMINERS),
        "relative": ["that", "who", "which"],
        "sentence end": ["."],
    }
    return {word: kind for kind, listed in named.items() for word in listed}


def _class(word: str) -> str:
    return _word_classes().get(word.strip(), "other")


PICTURES = [
    Picture("static-contextual", after_book(), _senses),
    Picture("hidden-trajectory", after_book("Elman (1990)"), _hidden),
    Picture("gate-surface", after_book(), _gate_surface),
    Picture("gates-agreement", after_book("Lakretz et al. (2019)"), _gates),
    Picture("gates-running-example", after_book(), _running),
    Picture("cell-trajectory", after_book(), _cell),
    Picture("gates-by-class", after_book(), _classes),
    Picture("parameter-counts", after_book(), _counts),
    Picture("training-curves", after_book(), _curves),
    Picture("prediction-surface", after_book(), _prediction),
    Picture("gate-saturation", after_book("Karpathy, Johnson and Li (2015)"), _saturation),
    Picture("timescales", f"Tallec and Ollivier (2018) and {LECTURE}", _timescales),
    Picture("attention-heads", "Vaswani et al. (2017)", _attention),
    Picture("positional-encodings", "Vaswani et al. (2017)", _positions),
    Picture("temperature", ARTICLE, _temperature),
    Picture("ngram-sparsity", ARTICLE, _sparsity),
]
