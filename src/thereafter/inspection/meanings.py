"""What the arrays of each kind of measurement are: their axes, what the numbers mean, and which make the table.

A kind is that of `Measurement.kind`. The first array of a kind is the one around which its table is made: its axes make
the rows, and those after the bar, "[step | word]", the columns. An array that is not listed names the places along the
axis of its own name; the names of axes mean the same everywhere (`AXES`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from numpy import generic
from numpy.typing import NDArray

AXES = {
    "layer": "layer of the network; words: the word vectors",
    "field": "state of the layer: h, or c of an LSTM",
    "distance": "steps or words back",
    "step": "place in the text, from 0",
    "token": "token at that step",
    "length": "length in tokens",
    "span": "steps multiplied",
    "radius": "spectral radius of the matrix",
    "gate": "gate, by layer",
    "class": "class of the word",
    "word": "word whose probability it is",
    "model": "model",
    "property": "property of the text",
    "order": "n of the n-gram",
}
"""Arrays that name the places along an axis, or are called alike in all kinds."""
_PATHS = {
    "gates": "product of the gates along the memory's direct path, mean over units",
    "direct": "norm of what comes along the direct path alone",
    "additive": "share of the gradient in the memory that comes along the direct path",
}
_PROBE = {
    "accuracy": "accuracy of the linear probe on new sentences",
    "control": "accuracy of a probe for random labels",
    "chance": "share of the most frequent label",
    "bits": "bits about the property that the probe reads",
    "control_bits": "bits about the random labels that a probe reads",
}
_UNIT = {
    "unit": "unit, as layer.state[number]",
    "chosen": "AUC (of a number: correlation) on the half that chose the unit",
    "held_out": "the same on the other half",
    "direction": "1 where the unit is higher when the property holds, -1 where it is lower",
}
_GROUPS = {
    "distance": "words between the two that agree",
    "attractors": "nouns of the other number between them",
    "congruence": "whether the last noun between them has the number of the first",
}


def _along(axes: str, meanings: Mapping[str, str]) -> dict[str, str]:
    """Arrays that all have the same axes."""
    return {name: f"[{axes}] {meaning}" for name, meaning in meanings.items()}


_AGREEMENT = {
    f"{count}_{group}": f"[{group}] {words} by {group}"
    for group in _GROUPS
    for count, words in (("right", "right answers, ties as half"), ("total", "sentences"))
} | {group: f"[{group}] {meaning}" for group, meaning in _GROUPS.items()}

_ARRAYS: dict[str, dict[str, str]] = {
    "gradient-flow": {
        "norm": "[layer, distance, field] mean norm of d loss / d state",
        **_along("layer, distance", _PATHS),
        "low": "[layer, distance, field] its 10th percentile",
        "high": "[layer, distance, field] its 90th",
    },
    "last-loss": {
        "norm": "[layer, step, field] norm of d loss / d state",
        **_along("layer, step", _PATHS),
        "size": "[layer, step, field] norm of the state",
        "token": "[step] id of the token at that step",
        "share": "[length] norm of the gradient cut after so many steps, as a share of the whole",
    },
    "jacobians": {
        "full": "[layer, span] root mean square singular value of the product, memory's block (c, else h)",
        "singular": "[layer, step, rank] singular values of the Jacobian of one step",
        "radius": "[layer, step] spectral radius of the Jacobian of one step",
        "gain": "[layer, span] largest singular value of the product of the Jacobians",
        "direct": "[layer, span] the same of the product of gates alone",
    },
    "truncation": {
        "share": "[layer, length] norm of the truncated gradient as a share of the whole",
        "cosine": "[layer, length] cosine between the truncated and the whole gradient",
        "length": "[length] steps after which gradients are cut",
    },
    "activation-stability": {
        "state": "[activation, radius, step] largest value of the state",
        "gradient": "[activation, radius, distance] gain of the gradient by distance",
        "shut": "[activation, radius] share of units and steps whose slope is at most 0.01",
        "activation": "[activation] activation function",
    },
    "repeated-multiplication": {
        "power": "[radius, step] norm of W^k x as a share of that of x",
        "linear": "[radius, step] gain of the gradient in a linear RNN",
        "tanh": "[radius, step] gain of the gradient in a tanh RNN",
        "lstm": "[radius, step] gain of the gradient along c of an LSTM",
        "gates": "[radius, step] product of its forget gates alone",
    },
    "growth": {
        "seconds": "[model, length] seconds of one training pass",
        "saved": "[model, length] bytes kept for the backward pass",
        "state": "[model, length] bytes of the state that is carried to the next token",
    },
    "bptt-memory": {
        "states": "[truncation, length] bytes of hidden states kept",
        "autograd": "[truncation, length] bytes that autograd keeps",
        "truncation": "[truncation] steps after which gradients are cut; 0: not at all",
    },
    "caption-attention": {
        "weight": "[word, row, column] attention of the word to a place of the picture",
        "word": "[word] word of the caption",
        "probability": "[word] probability of the word given those before it",
        "pixel": "[height, width, colour] pixels of the picture, 0 to 255; none where it was given as features",
    },
    "clip-belief": {
        "belief": "[step, label] probability of the label given the frames so far",
        "frame": "[step, height, width] pixels of each frame, 0 to 255",
        "column": "[label] what the label is of",
        "label": "[label] label",
        "right": "[label] 1 where it is the right one, as far as that is known",
    },
    "frames-ahead": {
        "nats": "[step] cross-entropy of the pixels of the frame, in nats",
        "read": "[frame, height, width] pixels of the frames that were read, 0 to 255",
        "came": "[step, height, width] pixels of the frames that came",
        "predicted": "[step, height, width] the chance of each pixel to be lit, as 0 to 255",
    },
    "frame-nats": {
        "nats": "[step] cross-entropy of the pixels of a frame, in nats, mean over clips",
        "step": "[step] frames ahead",
        "squared_error": "[step] squared error of a frame, summed over its pixels",
    },
    "glimpse-path": {
        "belief": "[glimpse, label] probability of the label given the glimpses so far",
        "pixel": "[height, width, colour] pixels of the picture, 0 to 255",
        "place": "[glimpse, coordinate] column and row of the middle of each glimpse, in pixels",
        "side": "[scale] pixels on the side of the square of each scale",
        "label": "[label] label",
        "right": "[label] 1 where it is the right one, as far as that is known",
    },
    "drawn-strokes": {
        "latent": "[stroke] nats of the stroke's z: its KL from the prior",
        "pixel": "[height, width, colour] pixels of the picture, 0 to 255",
        "canvas": "[stroke, height, width, colour] the chance of each pixel to be lit after the stroke, as 0 to 255",
        "window": "[attended, window, place] row and column of the middle of a window, and its side, in pixels; none "
        "without attention",
    },
    "trajectory": {
        "point": "[step | component] the state in its first principal components",
        "share": "[component] share of the variance in each component",
        "stride": "[step] how far the state moved, as a share of its mean length",
        "token": "[step] token at that step",
    },
    "saturation": {
        "low": "[gate] share of the gate's values under 0.1",
        "high": "[gate] share of the gate's values over 0.9",
        "histogram": "[gate, bin] share of the values in each bin",
        "edge": "[edge] borders of the bins",
        "unit_low": "[gate, unit] share of each unit's steps under 0.1",
        "unit_high": "[gate, unit] share of each unit's steps over 0.9",
    },
    "timescales": {
        "steps": "[layer, unit] steps until the gate alone has left 1/e of a unit's memory",
    },
    "gates-by-class": {
        "mean": "[gate, class] mean of the gate after words of the class",
        "spread": "[gate, class] standard deviation over words",
        "count": "[class] words of the class",
    },
    "senses": {
        "point": "[sentence | component] state after the word in two principal components",
        "share": "[component] share of the variance in each component",
        "sense": "[sentence] sense of the word",
        "context": "[sentence] beginning that ends with the word",
        "cosine": "[sentence, sentence] cosine between the states after two contexts, their mean taken off",
        "static": "[sentence, sentence] cosine between the word's own vectors",
        "within": "[] mean cosine within a sense",
        "between": "[] mean cosine between senses",
    },
    "gate-surface": {
        "met": "[step | part] both sums in the text, the word's first",
        "word_part": "[word_part] what the word adds to the gate's sum",
        "state_part": "[state_part] what the state before adds to it",
        "value": "[state_part, word_part] the gate over both sums",
        "gate": "[step] the gate in the text",
        "token": "[step] token at that step",
    },
    "prediction-surface": {
        "likeliest_probability": "[second, first] its probability",
        "share": "[component] share of the variance in each component",
        "first": "[first] place along the first component",
        "second": "[second] place along the second component",
        "probability": "[word, second, first] probability of each word there",
        "likeliest": "[second, first] likeliest token there",
        "point": "[step, component] where the states of the text lie",
        "token": "[step] token at that step",
    },
    "sparsity": {
        "counted": "[order] different n-grams in the training text",
        "possible": "[order] n-grams that could be: V^n",
        "seen": "[order] share of the n-grams of a new text that were counted",
    },
    "probe-number": {
        **_along("layer, distance", _PROBE),
        "distance": "[distance] words after the subject",
    },
    "probe-class": {
        **_along("layer", _PROBE),
        "share": "[class] share of the words that have the class",
    },
    "memory": {
        "accuracy": "[n] share of right answers, ties divided",
        "n": "[n] steps to remember over",
        "chance": "[n] share that guessing gets",
        "total": "[n] questions",
    },
    "pairs": {
        "accuracy": "[group] share of pairs whose good sentence is likelier, ties as half",
        "group": "[group] name of the group; all: every pair",
        "by": "[group] what it is a group of",
        "nats": "[group] mean of log p(good) - log p(bad)",
        "total": "[group] pairs",
        "judged": "[group] pairs that count: their difference is no unknown word",
        "low": "[group] lower end of the accuracy's 95 % interval (Wilson)",
        "high": "[group] upper end of it",
        "unknown": "[group] pairs whose difference is an unknown word",
        "same": "[group] pairs whose sentences become the same tokens",
    },
    "expectation": {
        "probability": "[step | word] probability of the word to come next",
        "step": "[step] word just read",
    },
    "units": {
        **_along("property, rank", _UNIT),
        "yes_no": "[property] whether the property holds or not, rather than being a number",
        "control": "[property] best held-out value for the property moved along the text",
        "value": "[property, step] value of the best unit in a stretch of text",
        "truth": "[property, step] the property there",
        "token": "[property, step] token at that step",
    },
    "number-unit": {
        **_along("rank", _UNIT),
        "against": "[rank] held-out AUC after a noun of the other number",
        "singular": "[rank] mean after a singular subject",
        "plural": "[rank] mean after a plural subject",
        "control": "[shuffle] held-out AUC of the best unit for shuffled numbers",
    },
    "alignment": {
        "weight": "[said, source] attention weight",
        "source": "[source] token of the source",
        "said": "[said] token of the output",
    },
    "bleu-by-length": {
        "bleu": "[bin] corpus BLEU over them",
        "bin": "[bin] words of the source",
        "low": "[bin] fewest words in the bin",
        "sentences": "[bin] sentences in the bin",
    },
    "confusion": {
        "count": "[is, given] how often",
        "is": "[is] right class",
        "given": "[given] predicted class",
    },
    "surprisal": {
        "bits": "[step | model] -log2 p of it",
        "text": "[step] word (or token, sentence, line) as written",
        "line": "[step] line it is in",
        "spelling_bits": "[model, step] what its unknown forms pay for their spelling",
        "unknown": "[model, step] unknown tokens in it",
        "rank": "[model, step] rank of its first token among all, 1 is the likeliest",
        "entropy": "[model, step] entropy of the prediction, in bits",
        "context": "[model, step] length of the model's own context",
    },
    "steps-ahead": {
        "rmse": "[ahead] root mean squared error over the rows that every number of steps reaches",
        "ahead": "[ahead] how many steps before a row its forecast was made",
        "time": "[row] time of the row",
        "actual": "[row] value that came",
        "predicted": "[ahead, row] value forecast for the row, so many steps before; not a number where that is "
        "too early",
        "mae": "[ahead] mean absolute error over them",
        "last_value_rmse": "[ahead] the same of the value that came so many steps before",
    },
    "comparison": {
        "bits_per_byte": "[model] bits per byte, mean over seeds",
        "spread": "[model] standard deviation over seeds; not a number with one seed",
        "seconds": "[model] seconds of training, of one seed",
        "parameters": "[model] learned numbers, or n-grams stored",
    },
    "agreement": _AGREEMENT,
    "dependency": _AGREEMENT,
}


@dataclass(frozen=True)
class KindOfMeasurement:
    """`main`: the array whose axes make the rows of the table; places along `across` become columns of it."""

    main: str
    across: tuple[str, ...] = ()
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)


def _read(arrays: Mapping[str, str]) -> KindOfMeasurement:
    """A kind from its rows, such as "[step | word] probability of the word to come next"."""
    axes, meanings = {}, {}
    across: tuple[str, ...] = ()
    for name, row in arrays.items():
        listed, _, meanings[name] = row.removeprefix("[").partition("] ")
        if "|" in listed:
            across = tuple(re.findall(r"\w+", listed.partition("|")[2]))
        axes[name] = tuple(re.findall(r"\w+", listed))
    return KindOfMeasurement(next(iter(arrays)), across, axes, meanings)


KINDS = {kind: _read(arrays) for kind, arrays in _ARRAYS.items()}


def kind_of(
    kind: str, arrays: Mapping[str, NDArray[generic]], axes: Mapping[str, tuple[str, ...]]
) -> KindOfMeasurement:
    """The row of a kind; for one that is not known here, a table around its first array that is no axis."""
    if kind in KINDS:
        return KINDS[kind]
    return KindOfMeasurement(next((name for name in arrays if axes[name] != (name,)), next(iter(arrays), "")))
