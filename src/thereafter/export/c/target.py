"""The target `c`: one C99 file and a header, compiled and run for the check where there is a compiler.

An n-gram is a trie of constant arrays, in which a context is a node; `ngram/tables.py` says what the arrays are.

Shapes: V words.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from thereafter.errors import ExportError
from thereafter.export.c.source import (
    filled,
    floats,
    functions,
    header_text,
    ints,
    source_text,
    stack_bytes,
    state_lines,
    tokens_text,
)
from thereafter.export.plan import NgramPlan, Plan, arrays_of
from thereafter.export.steps.interpreter import Interpreter, as_stored
from thereafter.export.steps.lowering import lower
from thereafter.export.targets import FLOAT32, Runner, WrittenFiles
from thereafter.models.base import Floats, Ids

FLAGS = ("-O2", "-std=c99", "-Wall", "-Werror")
MOST = 12_000_000
"""The most numbers in a file: compilers take some microseconds and a hundred bytes for each."""


class CTarget:
    """NAME.c and NAME.h; NAME is that of the file."""

    ending: ClassVar[str] = ".c"
    program: ClassVar[str] = "C compiler"
    tolerance: ClassVar[float] = FLOAT32

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        numbers = sum(array.size for array in arrays_of(plan))
        if int8 and isinstance(plan, NgramPlan):
            return "an n-gram has no weights to round to int8; try it without --int8"
        if numbers > MOST:
            return (
                f"the model has {numbers:,} numbers; a C file has at most {MOST:,}; try --to onnx, or a smaller model"
            )
        return None

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        name, header = identifier(path.stem), path.with_suffix(".h")
        kind = f"{plan.kind}, {plan.wording.size} tokens ({plan.wording.tokens})"
        if isinstance(plan, NgramPlan):
            about, size, stack = f"{plan.order}-gram, {kind[7:]}", 4, 4 * plan.order
            state, pieces = ["int node"], trie_text(name, header.name, plan)
        else:
            program = lower(plan)
            about, size = f"{kind}, weights in {'int8' if int8 else 'float32'}", 4 * program.state_numbers
            stack, state = stack_bytes(program), state_lines(program)
            pieces = source_text(name, header.name, program, int8)
        about = f"A language model written by thereafter: {about}."
        header.write_text(header_text(name, about, plan.wording, state, size), encoding="utf-8", newline="\n")
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        facts: dict[str, object] = {"state bytes": size, "stack bytes": stack, "functions": f"{name}_step, ..."}
        if compiler() is None and not isinstance(plan, NgramPlan):
            facts["note"] = "no C compiler is here: numpy ran the same arrays, the C text was not run"
        return WrittenFiles((path, header), facts)

    def runner(self, plan: Plan, written: WrittenFiles) -> Runner | None:
        source = written.paths[0]
        if compiler() is not None:
            return CompiledModel(source, plan.wording.size, int(str(written.facts["state bytes"])))
        if isinstance(plan, NgramPlan):
            return None
        int8 = "static const signed char" in source.read_text(encoding="utf-8")
        return Interpreter(as_stored(lower(plan), 8 if int8 else 32))


def identifier(stem: str) -> str:
    """A name as C takes it.

    >>> identifier("my-model 2"), identifier("2nd")
    ('my_model_2', 'm2nd')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem) or "model"
    return f"m{name}" if name[0].isdigit() else name


def compiler() -> str | None:
    """The C compiler of this machine: $CC, else cc, gcc or clang."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return next((path for name in names if name and (path := shutil.which(name))), None)


def compile_library(source: Path, library: Path, flags: tuple[str, ...] = FLAGS) -> None:
    """A C file as a shared library; ExportError with the first words of the compiler where it fails."""
    command = [compiler() or "cc", *flags, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportError(f"the C compiler does not take {source.name}: {done.stderr[:400]}; please report it")


class CompiledModel:
    """The file as a shared library, called step by step: a `Runner` of one row."""

    name: ClassVar[str] = "the C compiler"

    def __init__(self, source: Path, words: int, state_bytes: int, flags: tuple[str, ...] = FLAGS) -> None:
        self._folder = tempfile.TemporaryDirectory()
        library = Path(self._folder.name) / "model.so"
        try:
            compile_library(source, library, flags)
        except ExportError:
            self._folder.cleanup()
            raise
        self._loaded, self._name = ctypes.CDLL(str(library)), identifier(source.stem)
        self._state = ctypes.create_string_buffer(state_bytes)
        self._logits_V = np.zeros(words, np.float32)
        self._out = self._logits_V.ctypes.data_as(ctypes.c_void_p)

    def start(self, rows: int) -> Floats:
        """Begin anew; log p of every first token, [1, V]."""
        self.call("start", self._state)
        self.call("predict", self._state, self._out)
        return self._log_p()

    def step(self, token_B: Ids) -> Floats:
        """Read one token; log p of every token after it, [1, V]."""
        self.call("step", self._state, int(token_B[0]), self._out)
        return self._log_p()

    def encode(self, texts: Sequence[str]) -> list[list[int]] | None:
        """The tokens of each text by the file's own encoder, which characters and bytes have."""
        if not hasattr(self._loaded, f"{self._name}_encode"):
            return None
        return [self.encode_bytes(text.encode()) for text in texts]

    def encode_bytes(self, text: bytes) -> list[int]:
        """The tokens of a text without a NUL."""
        tokens = (ctypes.c_int * (3 * len(text) + 1))()
        return tokens[: self.call("encode", text, tokens, len(tokens))]

    def close(self) -> None:
        """Remove the library."""
        self._folder.cleanup()

    def call(self, function: str, *given: object) -> int:
        """A function of the file."""
        return int(self._loaded[f"{self._name}_{function}"](*given))

    def _log_p(self) -> Floats:
        self.call("log_p", self._out)
        return self._logits_V[None].copy()


TARGET = CTarget()


def trie_text(name: str, header: str, plan: NgramPlan) -> Iterator[str]:
    """The C file, in pieces."""
    yield filled("top", header=header)
    for part in ("word", "suffix", "first_child"):
        yield from ints(part, vars(plan)[part])
    yield from floats("logp", plan.logp)
    yield from floats("backoff", plan.backoff)
    words, restart = plan.wording.size, -1 if plan.wording.restart is None else plan.wording.restart
    form = "uniform" if plan.uniform else "backoff"
    predict = filled(form, name=name, words=words, order=max(1, plan.order))
    facts = {"first": plan.first, "restart": restart, "words": words, "contexts": len(plan.backoff)}
    yield "\n" + functions({"log_softmax"}) + filled("trie", name=name, predict=predict, **facts)
    yield from tokens_text(name, plan.wording)
