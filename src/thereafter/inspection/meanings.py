"""What the arrays of each kind of measurement mean, and which of them make its table.

A row of `KINDS` belongs to a `Measurement.kind`. Names of axes mean the same everywhere (`AXES`).

A kind of measurement: what its arrays mean, and which of them make its table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numpy import generic
from numpy.typing import NDArray


@dataclass(frozen=True)
class KindOfMeasurement:
    """`main`: the array whose axes make the rows of the table; places along `across` become columns of it."""

    main: str
    meanings: Mapping[str, str]
    across: tuple[str, ...] = ()


_NORM = {
    "norm": "norm of d loss / d state",
    "gates": "product of the gates along the memory's direct path, mean over units",
    "direct": "norm of what comes along the direct path alone",
    "additive": "share of the gradient in the memory that comes along the direct path",
}

GRADIENT_KINDS: dict[str, KindOfMeasurement] = {
    "gradient-flow": KindOfMeasurement(
        "norm", _NORM | {"norm": "mean norm of d loss / d state", "low": "its 10th percentile", "high": "its 90th"}
    ),
    "last-loss": KindOfMeasurement(
        "norm",
        _NORM
        | {
            "size": "norm of the state",
            "token": "id of the token at that step",
            "share": "norm of the gradient cut after so many steps, as a share of the whole",
        },
    ),
    "jacobians": KindOfMeasurement(
        "full",
        {
            "singular": "singular values of the Jacobian of one step",
            "radius": "spectral radius of the Jacobian of one step",
            "gain": "largest singular value of the product of the Jacobians",
            "full": "root mean square singular value of the product, memory's block (c, else h)",
            "direct": "the same of the product of gates alone",
        },
    ),
    "truncation": KindOfMeasurement(
        "share",
        {
            "share": "norm of the truncated gradient as a share of the whole",
            "cosine": "cosine between the truncated and the whole gradient",
            "length": "steps after which gradients are cut",
        },
    ),
    "activation-stability": KindOfMeasurement(
        "state",
        {
            "state": "largest value of the state",
            "gradient": "gain of the gradient by distance",
            "shut": "share of units and steps whose slope is at most 0.01",
            "activation": "activation function",
        },
    ),
    "repeated-multiplication": KindOfMeasurement(
        "power",
        {
            "power": "norm of W^k x as a share of that of x",
            "linear": "gain of the gradient in a linear RNN",
            "tanh": "gain of the gradient in a tanh RNN",
            "lstm": "gain of the gradient along c of an LSTM",
            "gates": "product of its forget gates alone",
        },
    ),
    "growth": KindOfMeasurement(
        "seconds",
        {
            "seconds": "seconds of one training pass",
            "saved": "bytes kept for the backward pass",
            "state": "bytes of the state that is carried to the next token",
        },
    ),
    "bptt-memory": KindOfMeasurement(
        "states",
        {
            "states": "bytes of hidden states kept",
            "autograd": "bytes that autograd keeps",
            "truncation": "steps after which gradients are cut; 0: not at all",
        },
    ),
}
"""Measurements of gradients, stability, time and memory."""

PICTURE_KINDS: dict[str, KindOfMeasurement] = {
    "caption-attention": KindOfMeasurement(
        "weight",
        {
            "word": "word of the caption",
            "probability": "probability of the word given those before it",
            "weight": "attention of the word to a place of the picture",
            "pixel": "pixels of the picture, 0 to 255; none where it was given as features",
        },
    ),
    "clip-belief": KindOfMeasurement(
        "belief",
        {
            "frame": "pixels of each frame, 0 to 255",
            "column": "what the label is of",
            "label": "label",
            "right": "1 where it is the right one, as far as that is known",
            "belief": "probability of the label given the frames so far",
        },
    ),
    "frames-ahead": KindOfMeasurement(
        "nats",
        {
            "read": "pixels of the frames that were read, 0 to 255",
            "came": "pixels of the frames that came",
            "predicted": "the chance of each pixel to be lit, as 0 to 255",
            "nats": "cross-entropy of the pixels of the frame, in nats",
        },
    ),
    "frame-nats": KindOfMeasurement(
        "nats",
        {
            "step": "frames ahead",
            "nats": "cross-entropy of the pixels of a frame, in nats, mean over clips",
            "squared_error": "squared error of a frame, summed over its pixels",
        },
    ),
    "glimpse-path": KindOfMeasurement(
        "belief",
        {
            "pixel": "pixels of the picture, 0 to 255",
            "place": "column and row of the middle of each glimpse, in pixels",
            "side": "pixels on the side of the square of each scale",
            "label": "label",
            "right": "1 where it is the right one, as far as that is known",
            "belief": "probability of the label given the glimpses so far",
        },
    ),
    "drawn-strokes": KindOfMeasurement(
        "latent",
        {
            "pixel": "pixels of the picture, 0 to 255",
            "canvas": "the chance of each pixel to be lit after the stroke, as 0 to 255",
            "latent": "nats of the stroke's z: its KL from the prior",
            "window": "row and column of the middle of a window, and its side, in pixels; none without attention",
        },
    ),
}


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
_PLANE = {"share": "share of the variance in each component"}
_GROUPS = {
    "distance": "words between the two that agree",
    "attractors": "nouns of the other number between them",
    "congruence": "whether the last noun between them has the number of the first",
}
_AGREEMENT = _GROUPS | {
    f"{count}_{group}": f"{words} by {group}"
    for group in _GROUPS
    for count, words in (("right", "right answers, ties as half"), ("total", "sentences"))
}

KINDS: dict[str, KindOfMeasurement] = (
    GRADIENT_KINDS
    | PICTURE_KINDS
    | {
        "trajectory": KindOfMeasurement(
            "point",
            _PLANE
            | {
                "point": "the state in its first principal components",
                "stride": "how far the state moved, as a share of its mean length",
            },
            ("component",),
        ),
        "saturation": KindOfMeasurement(
            "low",
            {
                "low": "share of the gate's values under 0.1",
                "high": "share of the gate's values over 0.9",
                "histogram": "share of the values in each bin",
                "edge": "borders of the bins",
                "unit_low": "share of each unit's steps under 0.1",
                "unit_high": "share of each unit's steps over 0.9",
            },
        ),
        "timescales": KindOfMeasurement(
            "steps", {"steps": "steps until the gate alone has left 1/e of a unit's memory"}
        ),
        "gates-by-class": KindOfMeasurement(
            "mean",
            {
                "mean": "mean of the gate after words of the class",
                "spread": "standard deviation over words",
                "count": "words of the class",
            },
        ),
        "senses": KindOfMeasurement(
            "point",
            _PLANE
            | {
                "sense": "sense of the word",
                "context": "beginning that ends with the word",
                "point": "state after the word in two principal components",
                "cosine": "cosine between the states after two contexts, their mean taken off",
                "static": "cosine between the word's own vectors",
                "within": "mean cosine within a sense",
                "between": "mean cosine between senses",
            },
            ("component",),
        ),
        "gate-surface": KindOfMeasurement(
            "met",
            {
                "word_part": "what the word adds to the gate's sum",
                "state_part": "what the state before adds to it",
                "value": "the gate over both sums",
                "met": "both sums in the text, the word's first",
                "gate": "the gate in the text",
            },
            ("part",),
        ),
        "prediction-surface": KindOfMeasurement(
            "likeliest_probability",
            _PLANE
            | {
                "first": "place along the first component",
                "second": "place along the second component",
                "probability": "probability of each word there",
                "likeliest": "likeliest token there",
                "likeliest_probability": "its probability",
                "point": "where the states of the text lie",
            },
        ),
        "sparsity": KindOfMeasurement(
            "counted",
            {
                "counted": "different n-grams in the training text",
                "possible": "n-grams that could be: V^n",
                "seen": "share of the n-grams of a new text that were counted",
            },
        ),
        "probe-number": KindOfMeasurement("accuracy", _PROBE | {"distance": "words after the subject"}),
        "probe-class": KindOfMeasurement("accuracy", _PROBE | {"share": "share of the words that have the class"}),
        "memory": KindOfMeasurement(
            "accuracy",
            {
                "n": "steps to remember over",
                "accuracy": "share of right answers, ties divided",
                "chance": "share that guessing gets",
                "total": "questions",
            },
        ),
        "pairs": KindOfMeasurement(
            "accuracy",
            {
                "group": "name of the group; all: every pair",
                "by": "what it is a group of",
                "accuracy": "share of pairs whose good sentence is likelier, ties as half",
                "nats": "mean of log p(good) - log p(bad)",
                "total": "pairs",
                "judged": "pairs that count: their difference is no unknown word",
                "low": "lower end of the accuracy's 95 % interval (Wilson)",
                "high": "upper end of it",
                "unknown": "pairs whose difference is an unknown word",
                "same": "pairs whose sentences become the same tokens",
            },
        ),
        "agreement": KindOfMeasurement("right_distance", _AGREEMENT),
        "dependency": KindOfMeasurement("right_distance", _AGREEMENT),
        "expectation": KindOfMeasurement(
            "probability", {"step": "word just read", "probability": "probability of the word to come next"}, ("word",)
        ),
        "units": KindOfMeasurement(
            "unit",
            _UNIT
            | {
                "yes_no": "whether the property holds or not, rather than being a number",
                "control": "best held-out value for the property moved along the text",
                "value": "value of the best unit in a stretch of text",
                "truth": "the property there",
            },
        ),
        "number-unit": KindOfMeasurement(
            "unit",
            _UNIT
            | {
                "against": "held-out AUC after a noun of the other number",
                "singular": "mean after a singular subject",
                "plural": "mean after a plural subject",
                "control": "held-out AUC of the best unit for shuffled numbers",
            },
        ),
        "alignment": KindOfMeasurement(
            "weight", {"source": "token of the source", "said": "token of the output", "weight": "attention weight"}
        ),
        "bleu-by-length": KindOfMeasurement(
            "bleu",
            {
                "bin": "words of the source",
                "low": "fewest words in the bin",
                "sentences": "sentences in the bin",
                "bleu": "corpus BLEU over them",
            },
        ),
        "confusion": KindOfMeasurement(
            "count", {"is": "right class", "given": "predicted class", "count": "how often"}
        ),
        "surprisal": KindOfMeasurement(
            "bits",
            {
                "text": "word (or token, sentence, line) as written",
                "line": "line it is in",
                "bits": "-log2 p of it",
                "spelling_bits": "what its unknown forms pay for their spelling",
                "unknown": "unknown tokens in it",
                "rank": "rank of its first token among all, 1 is the likeliest",
                "entropy": "entropy of the prediction, in bits",
                "context": "length of the model's own context",
            },
            ("model",),
        ),
        "steps-ahead": KindOfMeasurement(
            "rmse",
            {
                "ahead": "how many steps before a row its forecast was made",
                "time": "time of the row",
                "actual": "value that came",
                "predicted": "value forecast for the row, so many steps before; not a number where that is too early",
                "rmse": "root mean squared error over the rows that every number of steps reaches",
                "mae": "mean absolute error over them",
                "last_value_rmse": "the same of the value that came so many steps before",
            },
        ),
        "comparison": KindOfMeasurement(
            "bits_per_byte",
            {
                "bits_per_byte": "bits per byte, mean over seeds",
                "spread": "standard deviation over seeds; not a number with one seed",
                "seconds": "seconds of training, of one seed",
                "parameters": "learned numbers, or n-grams stored",
            },
        ),
    }
)


def kind_of(
    kind: str, arrays: Mapping[str, NDArray[generic]], axes: Mapping[str, tuple[str, ...]]
) -> KindOfMeasurement:
    """The row of a kind; for one that is not known here, a table around its first array that is no axis."""
    if kind in KINDS:
        return KINDS[kind]
    return KindOfMeasurement(next((name for name in arrays if axes[name] != (name,)), next(iter(arrays), "")), {})
