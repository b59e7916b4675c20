"""A step of a neural model as a list of operations: each reads and writes named buffers of floats.

An operation is a name, an output, inputs, arrays and numbers. They are few and small, so that a language needs one
function for each of them and nothing else (V words, t the token, p the position, s sigmoid):

    row       out = table[t]                         add       out += x
    linear    out (+)= weight x + bias               copy      out[at:] = x
    norm      out = gain (out - mean) / dev + shift  scale     out *= by
    act       out = f(out), f named                  shift     out = out moved to the left, x behind
    mean      out = mean of the last n vectors of x  position  out += table[p]
    attend    out = attention of q over keys, values highway   out = x + s(t) (out - x)
    log_softmax  out = log softmax(out)              lift      out += x[at]
    take      out[i] = x[index[i]]

and one or two for each cell: lstm_memory, lstm_output; gru; gru_reset, gru_new; mingru; minlstm; diagonal. Gates are
left in the buffer of their sums, so that a page can show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.export.parts import Array, WordingPlan

Number = int | float | str
IntArray = NDArray[np.int32]


@dataclass(frozen=True)
class Op:
    """One operation. `inputs`: buffers by their role. `arrays`: names of the program's arrays by their role."""

    name: str
    out: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class OpBlock:
    """Operations that belong together, such as a layer, with the buffers that only they use.

    `gates`: what the parts of the buffer `shown` are called once the block has run, for whoever looks on.
    """

    name: str
    ops: tuple[Op, ...]
    buffers: Mapping[str, int] = field(default_factory=dict)
    shown: str = ""
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A model: what is read is a token, what comes out are logits (or log p, whose softmax is the same).

    `state`: the buffers that are kept from step to step, with what they hold at first; among them "features", of which
    the head makes logits. `body` runs for each token, `head` where a prediction is wanted. `buffers` are shared by the
    blocks of the body. `context`: for a Transformer the most tokens in sight, else 0; the state then has the tokens
    too. `matrices`, `vectors`, `indices`: the arrays by name; a matrix is used as a table of rows, as a weight, or both
    (a tied one).
    """

    kind: str
    wording: WordingPlan
    state: Mapping[str, Array]
    body: tuple[OpBlock, ...]
    head: OpBlock
    buffers: Mapping[str, int]
    matrices: Mapping[str, Array]
    vectors: Mapping[str, Array]
    indices: Mapping[str, IntArray]
    context: int = 0

    @property
    def state_numbers(self) -> int:
        """How many numbers the state has, the tokens of a Transformer and their count among them."""
        return sum(part.size for part in self.state.values()) + (self.context + 1 if self.context else 0)


class Writer:
    """Collects operations, buffers and arrays while a plan is lowered."""

    def __init__(self) -> None:
        self.state: dict[str, Array] = {}
        self.matrices: dict[str, Array] = {}
        self.vectors: dict[str, Array] = {}
        self.indices: dict[str, IntArray] = {}
        self.blocks: list[OpBlock] = []
        self.buffers: dict[str, int] = {}
        self._ops: list[Op] = []
        self._own: dict[str, int] = {}

    def op(self, name: str, out: str, *, arrays: Mapping[str, str] | None = None, **given: Number) -> None:
        """An operation; what is a string names a buffer, except for `f` and `keeps`, which are numbers as the rest."""
        inputs = {role: value for role, value in given.items() if isinstance(value, str) and role not in ("f", "keeps")}
        numbers = {role: value for role, value in given.items() if role not in inputs}
        self._ops.append(Op(name, out, inputs, dict(arrays or {}), numbers))

    def own(self, name: str, size: int) -> str:
        """A buffer of the block that is being written."""
        self._own[name] = max(size, self._own.get(name, 0))
        return name

    def shared(self, name: str, size: int) -> str:
        """A buffer of all blocks."""
        self.buffers[name] = max(size, self.buffers.get(name, 0))
        return name

    def matrix(self, name: str, values: Array) -> str:
        self.matrices[name] = np.ascontiguousarray(values, dtype=np.float32)
        return name

    def vector(self, name: str, values: Array) -> str:
        self.vectors[name] = np.ascontiguousarray(values, dtype=np.float32)
        return name

    def linear(self, out: str, weight: str, x: str, bias: str | None = None, *, add: bool = False) -> None:
        """out (+)= weight x + bias."""
        named = {"weight": weight} | ({} if bias is None else {"bias": bias})
        self.op("linear", out, x=x, add=int(add), arrays=named)

    def close(self, name: str, shown: str = "", gates: tuple[str, ...] = ()) -> OpBlock:
        """What was written since the last call, as a block."""
        block = OpBlock(name, tuple(self._ops), dict(self._own), shown, gates)
        self._ops, self._own = [], {}
        return block
