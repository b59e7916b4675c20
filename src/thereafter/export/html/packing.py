"""What a page holds: a description as JSON, and the numbers as one piece of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.export.parts import WordingPlan
from thereafter.export.plans import NgramPlan
from thereafter.export.steps.program import OpBlock, Program
from thereafter.export.steps.rounding import rounded
from thereafter.text.tokenizers import TOKENIZERS

ENCODED = ("char", "byte", "word", "prose", "bpe", "wordpiece")
"""The tokenizers that the page has."""
_KINDS = {"f4": "float32", "i4": "int32", "i2": "int16", "i1": "int8"}


@dataclass
class Packed:
    """The description, and the arrays one after the other, each at a multiple of four bytes."""

    about: Table
    arrays: dict[str, Table] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0

    def put(self, name: str, values: NDArray[np.number]) -> None:
        """Add an array; little endian, as every browser has it."""
        laid = np.ascontiguousarray(values)
        code = f"{laid.dtype.kind}{laid.dtype.itemsize}"
        raw = laid.astype(laid.dtype.newbyteorder("<")).tobytes()
        self.arrays[name] = {"type": _KINDS[code], "shape": list(laid.shape), "at": self.size}
        padding = bytes(-len(raw) % 4)
        self.pieces += [raw, padding]
        self.size += len(raw) + len(padding)

    def description(self) -> Table:
        return {**self.about, "arrays": self.arrays}

    def weights(self) -> bytes:
        return b"".join(self.pieces)


def pack_program(program: Program, bits: int) -> Packed:
    """A neural model, its matrices in 16 or 8 bits (`steps.rounding`)."""
    about: Table = {
        "form": "program",
        "bits": bits,
        "context": program.context,
        "buffers": dict(program.buffers),
        "body": [_block(block) for block in program.body],
        "head": _block(program.head),
        "state": {name: len(values) for name, values in program.state.items()},
        "matrices": list(program.matrices),
    }
    packed = Packed(about)
    for name, matrix in program.matrices.items():
        small = rounded(matrix, bits)
        packed.put(name, small.numbers)
        packed.put(f"{name}_scale", small.scale)
    for name, vector in program.vectors.items():
        packed.put(name, vector)
    for name, index in program.indices.items():
        packed.put(name, index)
    for name, values in program.state.items():
        if values.any():
            packed.put(f"{name}_at_first", values)
    return packed


def pack_trie(plan: NgramPlan) -> Packed:
    """An n-gram: the arrays of its trie as they are."""
    about: Table = {"form": "trie", "bits": 32, "order": plan.order, "first": plan.first, "uniform": plan.uniform}
    packed = Packed(about)
    for name in ("word", "logp", "suffix", "backoff", "first_child"):
        packed.put(name, vars(plan)[name])
    return packed


def describe_wording(wording: WordingPlan) -> Table:
    """The vocabulary and what its tokenizer needs beside it."""
    words: Table = {
        "size": wording.size,
        "start": wording.start,
        "restart": wording.restart,
        "unknown": wording.unknown,
        "tokens": wording.tokens,
        "lower": wording.lower,
        "forms": [] if wording.tokens == "byte" else list(wording.forms),
    }
    if wording.tokens in ("bpe", "wordpiece"):
        words["longest"] = TOKENIZERS.load(wording.tokens).longest_form
    if wording.tokens == "bpe":
        words["merges"] = [_pair(merge) for merge in wording.tokenizer["tokenizers"]["model"]["merges"]]
    return words


def refused_wording(wording: WordingPlan) -> str | None:
    """Why the page has no such tokenizer; None where it has."""
    if wording.tokens not in ENCODED:
        return f"a page has no {wording.tokens} tokenizer; it has {', '.join(ENCODED)}; try --to onnx"
    if wording.tokenizer.get("scripts"):
        return "a page cannot cut scripts without spaces as this prose tokenizer does; try a model over char or bpe"
    if wording.letters_only:
        return "a page does not strip texts to letters, as this model's were; try a model without letters_only"
    return None


def _pair(merge: str | list[str]) -> list[str]:
    return merge.split(" ") if isinstance(merge, str) else list(merge)


def _block(block: OpBlock) -> Table:
    ops = [
        {"op": op.name, "out": op.out, **_nonempty(op.inputs), "arrays": dict(op.arrays), **dict(op.numbers)}
        for op in block.ops
    ]
    return {
        "name": block.name,
        "ops": ops,
        "buffers": dict(block.buffers),
        "shown": block.shown,
        "gates": list(block.gates),
    }


def _nonempty(inputs: Mapping[str, str]) -> Table:
    return {"inputs": dict(inputs)} if inputs else {"inputs": {}}
