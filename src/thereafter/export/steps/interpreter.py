"""The program run by numpy, one row at a time: the readable twin of what `c` and `html` write.

Matrices may have 16 or 8 bits: whole numbers with a scale for each row, or for each 32 numbers of a row.

    q = round(w / s),   s = max |w| of the row, or of its part, / 32767 (or 127)

At 16 bits with a scale for 32 numbers this is several times nearer to a trained network than float16 is, whose steps
are a share of each number and not of the largest; a browser has an array of its own for it. (Jacob et al. 2018,
Quantization and training of neural networks for efficient integer-arithmetic-only inference, with one scale a matrix.)

Shapes: V words, C context or columns, H features, K heads, D = H / K, N tokens in sight; of `Rounded` R rows, N parts
of a row (1, or C / 32 rounded up).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from thereafter.export.plan import EPSILON, Array
from thereafter.export.steps.lowering import Op, OpBlock, Program

Buffers = dict[str, Array]

_erf = np.vectorize(math.erf, otypes=[np.float32])


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    half: Array = np.tanh(np.float32(0.5) * x) + np.float32(1.0)
    return half * np.float32(0.5)


def log_softmax(x: Array) -> Array:
    """x - log of the sum of exp x, the sum in 64 bits."""
    moved = x.astype(np.float64) - x.max()
    logs: Array = (moved - np.log(np.exp(moved).sum())).astype(np.float32)
    return logs


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, np.float32(0.01) * x),
    "gelu": lambda x: np.float32(0.5) * x * (np.float32(1.0) + _erf(x / np.float32(math.sqrt(2.0)))),
    "gelu_tanh": lambda x: _gelu_tanh(x),
}


def _gelu_tanh(x: Array) -> Array:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), gelu as GPT-2 has it."""
    inner: Array = np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3))
    return np.float32(0.5) * x * (np.float32(1.0) + inner)


class Interpreter:
    """Runs a program: the `Runner` of a target where no outside program is."""

    name: ClassVar[str] = "our own numpy interpreter"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers: Buffers = {}
        self.tokens: list[int] = []
        self._token = 0

    def start(self, rows: int) -> Array:
        """The fresh state, which reads `<s>`; log p of the first token, [1, V]."""
        self._fresh()
        self._read(self.program.wording.start)
        return self._predict()

    def step(self, token_B: NDArray[np.integer]) -> Array:
        """Read a token; log p of the next, [1, V]."""
        token = int(token_B[0])
        if token == self.program.wording.restart:
            return self.start(1)
        self._read(token)
        return self._predict()

    def close(self) -> None:
        """Nothing is open."""

    def _fresh(self) -> None:
        program = self.program
        sizes = {**program.buffers, "logits": program.wording.size}
        self.buffers = {name: np.zeros(size, np.float32) for name, size in sizes.items()}
        self.buffers |= {name: values.copy() for name, values in program.state.items()}
        self.tokens = []

    def _read(self, token: int) -> None:
        context = self.program.context
        if context and len(self.tokens) == context:  # read the last half again
            again, self.tokens = self.tokens[context - context // 2 :], []
            for earlier in again:
                self._body(earlier)
        self._body(token)

    def _body(self, token: int) -> None:
        self._token = token
        for block in self.program.body:
            self._run(block)
        self.tokens = [*self.tokens, token] if self.program.context else []

    def _predict(self) -> Array:
        self._run(self.program.head)
        return log_softmax(self.buffers["logits"])[None]

    def _run(self, block: OpBlock) -> None:
        self.buffers |= {name: np.zeros(size, np.float32) for name, size in block.buffers.items()}
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        out, inputs = self.buffers[op.out], {role: self.buffers[name] for role, name in op.inputs.items()}
        n = int(op.numbers.get("n", len(out)))
        if op.name in ("row", "linear"):
            self._product(op, out, inputs)
        elif op.name in ("norm", "act", "log_softmax", "scale", "lift", "position", "take"):
            self._in_place(op, out[:n], inputs)
        elif op.name == "attend":
            out[:n] = self._attend(op, inputs, n)
        elif op.name in ("add", "copy", "shift", "mean", "highway"):
            _move(op, out, inputs, n)
        else:
            arrays = {role: self.program.vectors[name] for role, name in op.arrays.items()}
            _cell(op, out[:n], inputs, arrays, n)

    def _product(self, op: Op, out: Array, inputs: Buffers) -> None:
        if op.name == "row":
            row = self.program.matrices[op.arrays["table"]][self._token]
            out[: len(row)] = row
            return
        weight = self.program.matrices[op.arrays["weight"]][: len(out)]
        sums = weight @ inputs["x"][: weight.shape[1]]
        if "bias" in op.arrays:
            sums = sums + self.program.vectors[op.arrays["bias"]]
        out[: len(sums)] = out[: len(sums)] + sums if op.numbers["add"] else sums

    def _in_place(self, op: Op, out: Array, inputs: Buffers) -> None:
        vectors = self.program.vectors
        if op.name == "norm":
            gain = vectors[op.arrays["gain"]]
            own = out[: len(gain)]
            normal = (own - own.mean()) / np.sqrt(own.var() + np.float32(EPSILON)) * gain
            own[:] = normal + vectors[op.arrays["shift"]] if "shift" in op.arrays else normal
        elif op.name == "act":
            out[:] = ACTIVATIONS[str(op.numbers["f"])](out)
        elif op.name == "log_softmax":
            out[:] = log_softmax(out)
        elif op.name == "scale":
            out *= np.float32(op.numbers["by"])
        elif op.name == "lift":
            out += inputs["x"][int(op.numbers["at"])]
        elif op.name == "position":
            at = len(self.tokens) * len(out)
            out += vectors[op.arrays["table"]][at : at + len(out)]
        else:
            out[:] = inputs["x"][self.program.indices[op.arrays["index"]]]

    def _attend(self, op: Op, inputs: Buffers, n: int) -> Array:
        heads, at = int(op.numbers["heads"]), len(self.tokens)
        query, key, value = inputs["q"].reshape(3, heads, n // heads)
        keys, values = (inputs[name].reshape(-1, heads, n // heads) for name in ("keys", "values"))
        keys[at], values[at] = key, value
        scores_KN = np.einsum("kd,nkd->kn", query, keys[: at + 1]) / np.float32(math.sqrt(n // heads))
        weights_KN = np.exp(scores_KN - scores_KN.max(1, keepdims=True))
        weights_KN /= weights_KN.sum(1, keepdims=True)
        mixed_KD: Array = np.einsum("kn,nkd->kd", weights_KN, values[: at + 1])
        return mixed_KD.reshape(-1)


def _move(op: Op, out: Array, inputs: Buffers, n: int) -> None:
    x = inputs["x"]
    if op.name == "add":
        out[:n] += x[:n]
    elif op.name == "copy":
        at = int(op.numbers.get("at", 0))
        out[at : at + n] = x[:n]
    elif op.name == "shift":
        out[:-n] = out[n:].copy()
        out[-n:] = x[:n]
    elif op.name == "mean":
        window = len(x) // n
        inputs["count"][0] = min(window, inputs["count"][0] + 1)
        out[:n] = x.reshape(window, n).sum(0) / inputs["count"][0]
    else:
        out[:n] = x[:n] + sigmoid(inputs["t"][:n]) * (out[:n] - x[:n])


def _cell(op: Op, out: Array, inputs: Buffers, arrays: Buffers, n: int) -> None:
    """The gates stay in z; `out` is the part of the state that changes."""
    z = inputs["z"]
    parts = [z[begin : begin + n] for begin in range(0, len(z), n)]
    if op.name == "lstm_memory":
        i, *rest = parts
        f = None if op.numbers["coupled"] else rest.pop(0)
        g, o = rest
        i[:] = sigmoid(i + arrays.get("input", np.float32(0)) * out)
        if f is not None:
            f[:] = sigmoid(f + arrays.get("forget", np.float32(0)) * out)
        g[:] = np.tanh(g)
        out[:] = (np.float32(1) - i if f is None else f) * out + i * g
        o[:] = sigmoid(o + arrays.get("output", np.float32(0)) * out)
    elif op.name == "lstm_output":
        out[:] = parts[-1] * np.tanh(inputs["c"][:n])
    elif op.name in ("gru", "gru_new"):
        if op.name == "gru":
            parts[0][:], parts[1][:] = sigmoid(parts[0] + inputs["r"][:n]), sigmoid(parts[1] + inputs["r"][n : 2 * n])
            parts[2][:] = np.tanh(parts[2] + parts[0] * inputs["r"][2 * n :])
        else:
            parts[2][:] = np.tanh(parts[2] + inputs["q"][:n])
        keep = parts[1] if op.numbers["keeps"] == "old" else 1 - parts[1]
        out[:] = keep * out + (1 - keep) * parts[2]
    elif op.name == "gru_reset":
        z[: 2 * n] = sigmoid(z[: 2 * n] + inputs["r"][: 2 * n])
        out[:] = parts[0] * inputs["h"][:n]
    elif op.name == "mingru":
        parts[0][:] = sigmoid(parts[0])
        out[:] = (1 - parts[0]) * out + parts[0] * parts[1]
    elif op.name == "minlstm":
        forget = sigmoid(np.logaddexp(0, -parts[0]) - np.logaddexp(0, -parts[1]))
        parts[0][:], parts[1][:] = 1 - forget, forget
        out[:] = forget * out + (1 - forget) * parts[2]
    else:
        out[:] = arrays["decay"] * out + arrays["factor"] * parts[0]


PART = 32
"""How many numbers of a row share a scale in 16 bits."""


@dataclass(frozen=True)
class Rounded:
    """A matrix `numbers` [R, C] of int16 or int8, times `scale` [R, N]."""

    numbers: NDArray[np.signedinteger]
    scale: Array

    def values(self) -> Array:
        """The matrix it stands for."""
        return self.numbers.astype(np.float32) * spread(self.scale, self.numbers.shape[1])


def rounded(matrix: Array, bits: int) -> Rounded:
    """The nearest matrix of 8 bits with a scale for each row, or of 16 with one for each 32 numbers.

    >>> rounded(np.array([[0.5, -1.0]], dtype=np.float32), 8).numbers.tolist()
    [[64, -127]]
    """
    columns = matrix.shape[1]
    begins = [0] if bits == 8 else list(range(0, columns, PART))
    most = 127 if bits == 8 else 32767
    largest = np.maximum.reduceat(np.abs(matrix), begins, axis=1).astype(np.float64)
    scale = np.where(largest == 0.0, 1.0, largest / most).astype(np.float32)
    numbers = np.clip(np.rint(matrix / spread(scale, columns)), -most, most)
    return Rounded(numbers.astype(np.int8 if bits == 8 else np.int16), scale)


def spread(scale: Array, columns: int) -> Array:
    """The scale of each number, [R, C] or [R, 1], from those of its parts."""
    return scale if scale.shape[1] == 1 else np.repeat(scale, PART, axis=1)[:, :columns]


def as_stored(program: Program, bits: int) -> Program:
    """The program with every matrix as it comes back from so many bits; 32 changes nothing."""
    if bits == 32:
        return program
    return replace(
        program, matrices={name: rounded(matrix, bits).values() for name, matrix in program.matrices.items()}
    )
