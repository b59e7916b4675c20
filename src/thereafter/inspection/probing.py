"""What can be read from the states of a model: the subject's number k words after it, the class of the last word.

Both are read by linear probes from sentences of `agreement`, whose truth is known: fitted on two thirds of them, tested
on the rest. A linear probe is multinomial logistic regression that reads a label from a state,

    p(c | x) = softmax(W x + b)_c,    minimise  - sum_n log p(y_n | x_n) + (l2 / 2) |W|^2

over standardised states, in float64, by L-BFGS from zero: the problem is convex, so there is one answer, and the same
one each time. It comes with a control task (Hewitt and Liang 2019, Designing and interpreting probes with control
tasks): every word type gets a label at random, drawn as often as the true ones. A probe that does well on it has
learned words by heart; what is read from the state is

    selectivity = accuracy - accuracy of the control

Shapes: N states, S numbers a state, L layers, K distances, C labels; B sentences read at once, T steps, E word vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.inspection.properties import CLASSES, word_classes
from thereafter.inspection.sentence_reader import SentenceReader, padded
from thereafter.models.neural import NeuralModel
from thereafter.text.agreement import LONGEST, Sentence, sentences

COUNT = 900
DISTANCES = (0, 1, 2, 3, 4, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40)
NUMBERS = ("singular", "plural")
_FIT = 2 / 3
_CELLS = ("accuracy", "control", "chance", "bits", "control_bits")


def probe_number(
    reader: SentenceReader,
    distances: Sequence[int] = DISTANCES,
    *,
    field: str = "h",
    count: int = COUNT,
    seed: int = 0,
    l2: float | None = None,
) -> Measurement:
    """How well the subject's number can be read from the state k words after the subject.

    `field` is the state that is probed. An LSTM keeps in "c" what its output gate hides from "h" until it is wanted.

    All sentences have the verb after the longest distance, so that each probe sees as many, and no state has read the
    verb. The control gives every subject noun a number at random. Arrays [layer, distance]: `accuracy`, `control`,
    `chance`, `bits` (of the 1 bit that the number is), `control_bits`.
    """
    places = sorted(set(distances))
    if not places or places[0] < 0 or places[-1] > LONGEST:
        raise OptionError(f"the distances are {list(distances)}; expected numbers from 0 to {LONGEST}")
    known = _draw_sentences(count, seed, places[-1], places[-1])
    nouns = [(one.words[one.opener],) for one in known]
    facts = reader.check_words((one.prefix for one in known), nouns, "the subject noun", "agreement")
    states = read_states(reader, [one.words[: one.closer] for one in known], field=field)
    labels = np.array([NUMBERS.index(str(one.number)) for one in known])
    control = control_labels([one.words[one.opener] for one in known], labels, seed)
    cut = round(_FIT * len(known))
    layers = [name for name in states[0] if name != "words"]
    reading = _Labelling(labels, control, cut, len(NUMBERS), l2)
    figures = np.empty((len(_CELLS), len(layers), len(places)))
    with progress.task("probing", total=len(layers) * len(places), unit="probes") as advance:
        for row, layer in enumerate(layers):
            for column, k in enumerate(places):
                x_NS = np.stack([at[layer][one.opener + k] for one, at in zip(known, states, strict=True)])
                figures[:, row, column] = reading.figures(x_NS)
                advance(1)
    arrays: Arrays = {"layer": np.array(layers), "distance": np.array(places)}
    arrays |= dict(zip(_CELLS, figures, strict=True))
    return Measurement.of("probe-number", arrays, _about(reader, known, cut, l2) | {"field": field} | facts)


def probe_class(reader: SentenceReader, *, count: int = COUNT, seed: int = 0, l2: float | None = None) -> Measurement:
    """How well the class of the word just read can be read from the state after it, layer by layer.

    The first layer is "words", the word vectors. The control gives every word a class at random, as often as classes
    are. Arrays [layer]: `accuracy`, `control`, `chance`, `bits`, `control_bits`; `share` [class], how frequent each is.
    """
    known = _draw_sentences(count, seed)
    states = read_states(reader, [one.words for one in known])
    classes = word_classes()
    picked = [(at, step) for at, one in enumerate(known) for step, word in enumerate(one.words) if word in classes]
    words = [known[at].words[step] for at, step in picked]
    facts = reader.check_words((one.words for one in known), [(word,) for word in words], "the word read", "agreement")
    labels = np.array([CLASSES.index(classes[word]) for word in words])
    control = control_labels(words, labels, seed)
    cut = sum(at < round(_FIT * len(known)) for at, _ in picked)
    layers = list(states[0])
    reading = _Labelling(labels, control, cut, len(CLASSES), l2)
    figures = np.empty((len(_CELLS), len(layers)))
    with progress.task("probing", total=len(layers), unit="layers") as advance:
        for row, layer in enumerate(layers):
            figures[:, row] = reading.figures(np.stack([states[at][layer][step] for at, step in picked]))
            advance(1)
    arrays: Arrays = {
        "layer": np.array(layers),
        "class": np.array(CLASSES),
        "share": np.bincount(labels, minlength=len(CLASSES)) / len(labels),
        **dict(zip(_CELLS, figures, strict=True)),
    }
    return Measurement.of("probe-class", arrays, _about(reader, known, round(_FIT * len(known)), l2) | facts)


def _draw_sentences(count: int, seed: int, nearest: int = 0, farthest: int = LONGEST) -> list[Sentence]:
    if count < 3:
        raise OptionError(f"count is {count}; expected at least 3 sentences to fit and test on; try {COUNT}")
    return list(sentences(count, seed=1000 + seed, part="test", min_distance=nearest, max_distance=farthest))


@dataclass(frozen=True)
class _Labelling:
    """What is read from states: labels and their control; the first `cut` of them are fitted on."""

    labels_N: NDArray[np.int64]
    control_N: NDArray[np.int64]
    cut: int
    classes: int
    l2: float | None

    def figures(self, x_NS: NDArray[np.float32]) -> tuple[float, ...]:
        """The figures of `_CELLS`, of a probe and of its control, tested on the states after the cut."""
        cut = self.cut
        task, other = (
            read(fit(x_NS[:cut], wanted[:cut], self.classes, l2=self.l2), x_NS[cut:], wanted[cut:])
            for wanted in (self.labels_N, self.control_N)
        )
        return task.accuracy, other.accuracy, task.chance, task.bits, other.bits


def _about(reader: SentenceReader, known: Sequence[Sentence], cut: int, l2: float | None) -> Table:
    text = f"{cut:,} sentences of agreement to fit, {len(known) - cut:,} to test"
    return reader.about(text=text, l2="chosen" if l2 is None else l2, sentences=len(known))


Layers = dict[str, NDArray[np.float32]]
"""States by layer, from the word vectors up: each [steps of a sentence, size of the layer]."""

_TOKENS_AT_ONCE = 8192


def read_states(reader: SentenceReader, sentences: Sequence[Sequence[str]], *, field: str = "h") -> list[Layers]:
    """For each sentence, given as words, the states after each of its words.

    "words" are the word vectors themselves; then come "l0", "l1", ..., the outputs h of recurrent layers, or "block 0",
    "block 1", ..., the residual stream after each block of a Transformer; other models have "features". Every sentence
    is read from a fresh start, as the fast path reads it: states do not depend on which sentences are read together.
    `field` is another state of recurrent layers than h, such as the cell state "c" of an LSTM.
    """
    model = reader.model
    if not isinstance(model, NeuralModel):
        raise OptionError(
            f"the model {reader.name!r} has no hidden states to probe; expected a neural model, such as lstm"
        )
    known = model.fields or ("h",)
    if field not in known:
        raise OptionError(f"the model {reader.name!r} has no state {field!r}; expected one of {', '.join(known)}")
    reader.whole_words()
    if not sentences:
        raise EmptyCorpusError("there are no sentences to read states from; expected at least one")
    rows = [reader.ids(" ".join(words)) for words in sentences]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    states: list[Layers] = [{} for _ in rows]
    with progress.task("reading states", total=len(rows), unit="sentences") as advance, model.quietly():
        for batch in _batches(order, [len(row) for row in rows]):
            layers = _layers(model, model.checked(padded([rows[row] for row in batch])), field)
            for place, row in enumerate(batch):
                begin, end = len(rows[row]) - len(sentences[row]), len(rows[row])
                states[row] = {name: states_BTS[place, begin:end].copy() for name, states_BTS in layers.items()}
            advance(len(batch))
    return states


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Sentences of rising length, so many at a time that their tokens, padding included, stay below a limit."""
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) + 1) * lengths[row] > _TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(row)
    yield batch


def _layers(model: NeuralModel, tokens_BT: Tensor, field: str) -> dict[str, NDArray[np.float32]]:
    """The states of a batch, [B, T, S] each."""
    look = model.look(tokens_BT, model.begin(len(tokens_BT)))
    states = {name: layer.arrays["x" if layer.cell is None else field] for name, layer in look.layers.items()}
    if len(states) == 1:  # the word vectors alone
        states["features"] = look.features_BTH
    return {name: states_BTS.float().cpu().numpy() for name, states_BTS in states.items()}


PENALTIES = (1.0, 30.0, 1000.0)
"""What l2 is chosen from where it is left open, from learning by heart to learning next to nothing."""
_STEPS = 200
_FLAT = 1e-9  # a unit that moves less than this does not move

Floats = NDArray[np.floating]
Labels = NDArray[np.integer]


@dataclass(frozen=True)
class Probe:
    """Weights over states as they come; the standardisation is folded into them. `prior_C`: how often labels were."""

    weight_CS: NDArray[np.float64]
    bias_C: NDArray[np.float64]
    prior_C: NDArray[np.float64]

    def log_prob(self, states_NS: Floats) -> NDArray[np.float64]:
        """log p of every label, [N, C]."""
        logits_NC = states_NS.astype(np.float64) @ self.weight_CS.T + self.bias_C
        logits_NC -= logits_NC.max(axis=1, keepdims=True)
        logp_NC: NDArray[np.float64] = logits_NC - np.log(np.exp(logits_NC).sum(axis=1, keepdims=True))
        return logp_NC


@dataclass(frozen=True)
class Reading:
    """How well a probe reads held-out states.

    `chance` is the share of the label that was most frequent in fitting. `bits` is the gain in cross-entropy over
    knowing only how frequent the labels were: 0 where the states say nothing, less where the probe misleads.
    """

    accuracy: float
    chance: float
    bits: float
    total: int


def fit(states_NS: Floats, labels_N: Labels, classes: int, *, l2: float | None = None) -> Probe:
    """The probe that fits best; `l2` is by default the one of `PENALTIES` under which three quarters of the states tell
    most about the last quarter."""
    if len(states_NS) != len(labels_N) or not len(labels_N):
        raise OptionError(f"got {len(states_NS)} states and {len(labels_N)} labels; expected as many, at least one")
    if l2 is None:
        cut = max(1, 3 * len(labels_N) // 4)
        tried = [fit(states_NS[:cut], labels_N[:cut], classes, l2=one) for one in PENALTIES]
        rest = slice(min(cut, len(labels_N) - 1), None)
        gains = [read(probe, states_NS[rest], labels_N[rest]).bits for probe in tried]
        l2 = PENALTIES[int(np.argmax(gains))]
    if not (l2 >= 0 and math.isfinite(l2)):
        raise OptionError(f"l2 is {l2!r}; expected 0 or more; try {PENALTIES[1]}")
    x_NS = states_NS.astype(np.float64)
    mean_S, spread_S = x_NS.mean(axis=0), x_NS.std(axis=0)
    scale_S = np.where(spread_S > _FLAT, spread_S, 1.0)
    weight_CS, bias_C = _solve((x_NS - mean_S) / scale_S, labels_N, classes, l2)
    weight_CS = weight_CS / scale_S
    # one more of each label than was seen: a label that was not is rare, and not impossible
    prior_C = (np.bincount(labels_N, minlength=classes) + 1) / (len(labels_N) + classes)
    return Probe(weight_CS, bias_C - weight_CS @ mean_S, prior_C)


def _solve(
    x_NS: NDArray[np.float64], labels_N: Labels, classes: int, l2: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = torch.from_numpy(x_NS), torch.from_numpy(labels_N.astype(np.int64))
    weight = torch.zeros(classes, x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=_STEPS,
        tolerance_grad=1e-7,
        tolerance_change=1e-12,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def loss() -> float:
        optimizer.zero_grad()
        nats = torch.nn.functional.cross_entropy(x @ weight.T + bias, y, reduction="sum")
        mean = (nats + 0.5 * l2 * weight.square().sum()) / len(y)
        mean.backward()  # type: ignore[no-untyped-call]
        return float(mean.detach())

    with torch.enable_grad():
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach().numpy(), bias.detach().numpy()


def read(probe: Probe, states_NS: Floats, labels_N: Labels) -> Reading:
    """What the probe makes of states it was not fitted on."""
    if not len(labels_N):
        raise OptionError("there are no states to test the probe on; expected at least one")
    logp_NC = probe.log_prob(states_NS)
    nats = -logp_NC[np.arange(len(labels_N)), labels_N].mean()
    prior_nats = -np.log(probe.prior_C)[labels_N].mean()
    return Reading(
        accuracy=float((logp_NC.argmax(axis=1) == labels_N).mean()),
        chance=float((labels_N == probe.prior_C.argmax()).mean()),
        bits=float((prior_nats - nats) / math.log(2)),
        total=len(labels_N),
    )


def control_labels(words: Sequence[str], labels_N: Labels, seed: int = 0) -> NDArray[np.int64]:
    """A label for each word type, drawn from the labels as they stand, given to every occurrence of the word."""
    rng = np.random.default_rng([seed, 0xC0])
    types = sorted(set(words))
    drawn = dict(zip(types, rng.choice(np.asarray(labels_N), size=len(types)).tolist(), strict=True))
    return np.array([drawn[word] for word in words], dtype=np.int64)
