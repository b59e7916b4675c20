"""What the arrays mean of measurements of gradients, stability, time and memory: a part of `meanings`."""

from __future__ import annotations

from thereafter.inspection.kind_of_measurement import KindOfMeasurement

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
