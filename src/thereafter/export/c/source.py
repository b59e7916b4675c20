"""The C file and the header of a neural model: its operations as calls of the functions in `parts.c`.

Tables are constant arrays, so in read-only memory, and with them the vocabulary of a model and its tokenizer: it says
what each token appends; characters and bytes are also cut from a text. Functions come from `parts.c`, with those they
call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import NDArray

from thereafter.export.plan import WordingPlan
from thereafter.export.steps.interpreter import rounded
from thereafter.export.steps.lowering import Op, OpBlock, Program

ENCODED = ("char", "byte")
"""The tokenizers that are written in C."""


def tokens_text(name: str, wording: WordingPlan) -> Iterator[str]:
    """Tables and functions of a vocabulary."""
    ends = np.cumsum([0, *map(len, wording.pieces)])
    spelled = np.frombuffer(b"".join(wording.pieces) or b"\0", np.uint8)
    yield from array_text("pieces", spelled, "unsigned char")
    yield from ints("piece_ends", ends)
    yield filled("decode", name=name, size=wording.size)
    if wording.tokens not in ENCODED:
        return
    if wording.tokens == "char":
        points = {ord(form): token for token, form in enumerate(wording.forms) if token != wording.unknown}
        yield from ints("character_points", np.array(sorted(points)))
        yield from ints("character_tokens", np.array([points[point] for point in sorted(points)]))
        yield filled("put_character", known=len(points), unknown=wording.unknown)
    else:
        yield filled("put_bytes")
    yield from _encode_text(name, wording)


def _encode_text(name: str, wording: WordingPlan) -> Iterator[str]:
    """Text to tokens: read as files are (`text/reading.py`), normalised as the training text was."""
    used, flags, lower, letters = {"next_point"}, "", "", ""
    if wording.lower:
        (cased, passed), changed = cased_ranges(), lower_ranges()
        for table, ranges in (("lower_points", changed), ("cased_points", cased), ("passed_points", passed)):
            yield from ints(table, ranges)
        used |= {"in_ranges", "lower_case", "cased_next"}
        flags += ", cased = 0"
        lower = filled("lower", lower=len(changed), cased=len(cased), passed=len(passed))
    if wording.letters_only:
        yield from ints("letter_points", letter_ranges())
        used.add("in_ranges")
        flags += ", spaced = 0"
        letters = filled("letters", letters=len(letter_ranges()))
    yield "\n" + functions(used)
    yield filled("encode", name=name, flags=flags, lower=lower, letters=letters)


SIGMA, FINAL_SIGMA = 0x3A3, 0x3C2
DOTTED = 0x130
"""Its lower case, unlike all others, is two characters: i and U+0307."""
_CODE_POINTS = 0x110000
_SPACE, _A = ord(" "), ord("A")
_LETTER_RUNS = re.compile(r"[^\W\d_]+")
Ints = NDArray[np.int64]


@cache
def lower_ranges() -> Ints:
    """Characters with another lower case, [N, 4]: the first, the last, the step between them, what is added.

    >>> lower_ranges()[0].tolist(), DOTTED in lower_ranges()
    ([65, 90, 1, 32], False)
    """
    points = np.delete(np.arange(_CODE_POINTS), DOTTED)
    shifts = _lowered(np.stack([points, np.full_like(points, _SPACE)], 1))[:, 0] - points
    changed = np.flatnonzero(shifts)
    ranges: list[list[int]] = []
    for point, shift in zip(points[changed].tolist(), shifts[changed].tolist(), strict=True):
        first, last, step, added = ranges[-1] if ranges else (0, 0, 0, 0)
        if added == shift and point - last in ((1, 2) if first == last else (step,)):
            ranges[-1] = [first, point, point - last, added]
        else:
            ranges.append([point, point, 1, shift])
    return np.array(ranges)


@cache
def cased_ranges() -> tuple[Ints, Ints]:
    """Characters that are cased, and those that are passed over beside a sigma: each [N, 2], the first and the last.

    A capital sigma is final where a cased character stands before it and none after it, others passed over.
    """
    points = np.delete(np.arange(_CODE_POINTS), DOTTED)
    sigma, space, letter = (np.full_like(points, point) for point in (SIGMA, _SPACE, _A))
    cased = _lowered(np.stack([points, sigma, space], 1))[:, 1] == FINAL_SIGMA
    passed = _lowered(np.stack([letter, points, sigma, space], 1))[:, 2] == FINAL_SIGMA
    return _ranges(np.append(points[cased], DOTTED)), _ranges(points[passed & ~cased])


@cache
def letter_ranges() -> Ints:
    """Characters that `letters_only` keeps, [N, 2]: the first and the last."""
    every = "".join(map(chr, range(_CODE_POINTS)))
    return np.array([(run.start(), run.end() - 1) for run in _LETTER_RUNS.finditer(every)])


def _lowered(points: Ints) -> Ints:
    """The lower case of all rows as one text, in the same shape."""
    text = points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass").lower()
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64).reshape(points.shape)


def _ranges(points: Ints) -> Ints:
    """Runs of code points that follow each other."""
    points = np.sort(points)
    starts = np.flatnonzero(np.diff(points, prepend=-2) > 1)
    return np.stack([points[starts], points[np.append(starts[1:], len(points)) - 1]], 1)


_A_LINE = 12
_AT_ONCE = 12 * 4096


def array_text(name: str, values: NDArray[np.number], kind: str) -> Iterator[str]:
    """The definition of an array, in pieces: `kind` is its type in C.

    Nine digits are enough to bring every float32 back to the bit.
    """
    flat = np.asarray(values).reshape(-1)
    form = "%.9g" if flat.dtype.kind == "f" else "%d"
    shape = " * ".join(str(size) for size in np.shape(values)) or "1"
    yield f"static const {kind} {name}[{shape}] = {{\n"
    line = ",".join([form] * _A_LINE) + ",\n"
    for begin in range(0, len(flat), _AT_ONCE):
        piece = flat[begin : begin + _AT_ONCE].tolist()
        lines = line * (len(piece) // _A_LINE) + ",".join([form] * (len(piece) % _A_LINE))
        yield lines % tuple(piece)
    yield "};\n"


def floats(name: str, values: NDArray[np.floating]) -> Iterator[str]:
    """Floats; an infinity is written as C writes it."""
    if np.isfinite(values).all():
        yield from array_text(name, values, "float")
        return
    for piece in array_text(name, values, "float"):
        yield piece.replace("-inf", "-INFINITY")


def ints(name: str, values: NDArray[np.integer]) -> Iterator[str]:
    return array_text(name, values, "int")


_HEAD = re.compile(r"^/\* --- (\w+)(?:: ([\w ]+))? \*/\n", re.MULTILINE)


@cache
def sections(file: str) -> dict[str, tuple[str, str]]:
    """The sections of a file beside this one by name: the functions that each calls, and its text."""
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {head[1]: (head[2] or "", text[head.end() : end]) for head, end in zip(heads, ends, strict=True)}


def filled(template: str, **values: object) -> str:
    """A text of `templates.c` with these values in it."""
    return Template(sections("templates.c")[template][1]).substitute(values)


def functions(names: set[str]) -> str:
    """The text of these functions of `parts.c` and of all they call, in the order of the file."""
    parts = sections("parts.c")
    wanted = names.union(*(parts[name][0].split() for name in names))
    return "\n".join(text.strip() + "\n" for name, (_, text) in parts.items() if name in wanted)


def header_text(name: str, about: str, wording: WordingPlan, state: list[str], size: int) -> str:
    """The header: the state as a struct, and what can be done with it."""
    upper = name.upper()
    normal = ["a byte order mark is left out, CR LF and CR are LF"]
    normal += ["the text is lower-cased"] * wording.lower
    normal += ["what is no letter becomes a space"] * wording.letters_only
    encode = filled("declared", name=name, normal=", ".join(normal)) if wording.tokens in ENCODED else ""
    return filled(
        "header",
        name=name,
        upper=upper,
        about=about,
        words=wording.size,
        longest=max(map(len, wording.pieces), default=1) or 1,
        state="\n".join(f"    {line};" for line in state),
        bytes=size,
        encode=encode,
    )


def state_lines(program: Program) -> list[str]:
    lines = [f"float {name}[{len(values)}]" for name, values in program.state.items()]
    return [*lines, f"int tokens[{program.context}]", "int in_sight"] if program.context else lines


def stack_bytes(program: Program) -> int:
    """What a step needs on the stack beside the frames of its calls."""
    own = max(sum(block.buffers.values()) for block in (*program.body, program.head))
    return 4 * (sum(program.buffers.values()) + own + program.context)


def source_text(name: str, header: str, program: Program, int8: bool) -> Iterator[str]:
    """The C file, in pieces."""
    calls = Calls(program, int8)
    body = _body(name, program, calls)
    lines = "\n".join(_block(program.head, calls, "    "))
    head = f"\nvoid {name}_predict(const {name}_state *state, float *logits)\n{{\n{lines}\n}}\n"
    start = _start(name, program, calls)
    calls.used.add("log_softmax")
    wording = program.wording
    yield filled("top", header=header)
    yield from _arrays(program, calls, int8)
    yield "\n" + functions(calls.used) + "\n" + body + head + start
    restart = "" if wording.restart is None else filled("restart", name=name, restart=wording.restart)
    context = program.context
    room = filled("room", context=context, half=context - context // 2) if context else ""
    yield filled("public", name=name, words=wording.size, restart=restart, room=room) + "\n"
    yield from tokens_text(name, wording)


def _arrays(program: Program, calls: Calls, int8: bool) -> Iterator[str]:
    for name, matrix in program.matrices.items():
        by_column = name in calls.by_column
        if int8:
            small = rounded(matrix, 8)
            numbers = small.numbers.T if by_column else small.numbers
            yield from array_text(name, np.ascontiguousarray(numbers), "signed char")
            yield from floats(f"{name}_scale", small.scale.reshape(-1))
        else:
            yield from floats(name, np.ascontiguousarray(matrix.T if by_column else matrix))
    for name, vector in program.vectors.items():
        yield from floats(name, vector)
    for name, index in program.indices.items():
        yield from ints(name, index)
    for name, values in program.state.items():
        if values.any():
            yield from floats(f"{name}_at_first", values)


def _block(block: OpBlock, calls: Calls, indent: str) -> list[str]:
    lines = [f"{indent}float {name}[{size}];" for name, size in block.buffers.items()]
    return lines + [indent + line for op in block.ops for line in calls.lines(op)]


def _body(name: str, program: Program, calls: Calls) -> str:
    shared = {**program.buffers, **({"scores": program.context} if program.context else {})}
    lines = [f"    float {buffer}[{size}];" for buffer, size in shared.items()]
    for block in program.body:
        lines += [f"    {{ /* {block.name} */", *_block(block, calls, "        "), "    }"]
    if program.context:
        lines.append("    state->tokens[state->in_sight++] = token;")
    return f"static void body({name}_state *state, int token)\n{{\n" + "\n".join(lines) + "\n}\n"


def _start(name: str, program: Program, calls: Calls) -> str:
    lines = []
    for part, values in program.state.items():
        if values.any():
            calls.used.add("copy")
            lines.append(f"copy(state->{part}, {part}_at_first, {len(values)});")
        else:
            calls.used.add("zero")
            lines.append(f"zero(state->{part}, {len(values)});")
    lines += ["state->in_sight = 0;"] if program.context else []
    lines.append(f"body(state, {program.wording.start}); /* <s> */")
    return f"\nvoid {name}_start({name}_state *state)\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


_CALLS = {
    "norm": "norm({out}, {gain}, {shift}, {size})",
    "act": "act_{f}({out}, {n})",
    "log_softmax": "log_softmax({out}, {n})",
    "add": "add({out}, {x}, {n})",
    "copy": "copy({out}, {x}, {n})",
    "scale": "scale({out}, {by!r}f, {n})",
    "lift": "lift({out}, {x}[{at}], {n})",
    "take": "take({out}, {x}, {index}, {n})",
    "shift": "shift({out}, {x}, {n}, {size})",
    "mean": "mean({out}, {x}, {count}, {n}, {size})",
    "highway": "highway({out}, {x}, {t}, {n})",
    "position": "add({out}, {table} + state->in_sight * {n}, {n})",
    "attend": "attend({out}, {q}, {keys}, {values}, scores, {heads}, {n}, state->in_sight)",
    "lstm_memory": "lstm_memory({out}, {z}, {input}, {forget}, {output}, {coupled}, {n})",
    "lstm_output": "lstm_output({out}, {z} + {place} * {n}, {c}, {n})",
    "gru": "gru({out}, {z}, {r}, {keeps}, {n})",
    "gru_reset": "gru_reset({out}, {z}, {r}, {h}, {n})",
    "gru_new": "gru_new({out}, {z}, {q}, {keeps}, {n})",
    "mingru": "mingru({out}, {z}, {n})",
    "minlstm": "minlstm({out}, {z}, {n})",
    "diagonal": "diagonal({out}, {z}, {decay}, {factor}, {n})",
}
"""Operations as calls; `linear` and `row` depend on how their matrix is stored."""
_NO_ARRAYS = {"shift": "0", "input": "0", "forget": "0", "output": "0"}
"""What stands for the shift of a norm and for peepholes where there are none."""


class Calls:
    """Writes operations as C; `used` are the functions that they call."""

    def __init__(self, program: Program, int8: bool) -> None:
        self.program = program
        self.int8 = int8
        self.used: set[str] = set()
        ops = [op for block in (*program.body, program.head) for op in block.ops]
        self.by_column = {op.arrays["weight"] for op in ops if op.name == "linear"}
        """The matrices that are stored column by column."""

    def lines(self, op: Op) -> list[str]:
        """The calls of one operation."""
        out = self._buffer(op.out)
        if op.name == "linear":
            return self._linear(op, out, self._buffer(op.inputs["x"]))
        if op.name == "row":
            return self._row(op, out)
        if op.numbers.get("f") == "identity":
            return []
        fields: dict[str, object] = {role: self._buffer(name) for role, name in op.inputs.items()}
        fields |= {"at": 0, **_NO_ARRAYS, **op.arrays, **op.numbers, "out": out}
        state = self.program.state
        if op.name == "norm":
            fields["size"] = len(self.program.vectors[op.arrays["gain"]])
        elif op.name == "shift":
            fields["size"] = len(state[op.out])
        elif op.name == "mean":
            fields["size"] = len(state["window"]) // int(op.numbers["n"])
        elif op.name == "copy" and fields["at"]:
            fields["out"] = f"{out} + {fields['at']}"
        elif op.name == "scale":
            fields["by"] = float(op.numbers["by"])
        elif op.name == "lstm_output":
            fields["place"] = 2 if op.numbers["coupled"] else 3
        if "keeps" in fields:
            fields["keeps"] = int(fields["keeps"] == "old")
        name, _, arguments = _CALLS[op.name].format(**fields).partition("(")
        self.used.add(name)
        return [f"{name}({arguments};"]

    def _linear(self, op: Op, out: str, x: str) -> list[str]:
        weight, bias = op.arrays["weight"], op.arrays.get("bias")
        matrix = self.program.matrices[weight]
        rows = self.program.wording.size if op.out == "logits" else len(matrix)
        lines = []
        if not op.numbers["add"]:
            lines = [self._call("copy", out, bias, rows)] if bias else [self._call("zero", out, rows)]
        elif bias:
            lines = [self._call("add", out, bias, rows)]
        sizes = (rows, matrix.shape[1], len(matrix))
        if self.int8:
            return [*lines, self._call("linear_int8", out, weight, f"{weight}_scale", x, *sizes)]
        return [*lines, self._call("linear_float", out, weight, x, *sizes)]

    def _row(self, op: Op, out: str) -> list[str]:
        table = op.arrays["table"]
        rows, size = self.program.matrices[table].shape
        by_column = table in self.by_column
        first = f"{table} + token" if by_column else f"{table} + (size_t)token * {size}"
        numbers = (size, rows if by_column else 1)
        if self.int8:
            return [self._call("row_int8", out, first, f"{table}_scale[token]", *numbers)]
        return [self._call("row_float", out, first, *numbers)]

    def _buffer(self, name: str) -> str:
        return f"state->{name}" if name in self.program.state else name

    def _call(self, name: str, *given: object) -> str:
        self.used.add(name)
        return f"{name}({', '.join(map(str, given))});"
