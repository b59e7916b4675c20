"""A program's operations as calls of the functions in `parts.c`."""

from __future__ import annotations

from thereafter.export.steps.program import Op, Program


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
        out, n = self._buffer(op.out), op.numbers.get("n")
        x = self._buffer(op.inputs["x"]) if "x" in op.inputs else ""
        if op.name == "linear":
            return self._linear(op, out, x)
        if op.name == "row":
            return self._row(op, out)
        if op.name == "norm":
            gain, shift = op.arrays["gain"], op.arrays.get("shift", "0")
            return [self._call("norm", out, gain, shift, len(self.program.vectors[gain]))]
        if op.name == "act":
            return [] if op.numbers["f"] == "identity" else [self._call(f"act_{op.numbers['f']}", out, n)]
        if op.name == "copy":
            at = op.numbers.get("at", 0)
            return [self._call("copy", f"{out} + {at}" if at else out, x, n)]
        if op.name == "shift":
            return [self._call("shift", out, x, n, len(self.program.state[op.out]))]
        if op.name == "mean":
            window = len(self.program.state["window"]) // int(n or 1)
            return [self._call("mean", out, x, self._buffer("count"), n, window)]
        if op.name == "position":
            return [self._call("add", out, f"{op.arrays['table']} + state->in_sight * {n}", n)]
        if op.name == "attend":
            caches = [self._buffer(op.inputs[name]) for name in ("keys", "values")]
            numbers = (op.numbers["heads"], n, "state->in_sight")
            return [self._call("attend", out, self._buffer(op.inputs["q"]), *caches, "scores", *numbers)]
        return [self._cell(op, out, x)]

    def _cell(self, op: Op, out: str, x: str) -> str:
        n, given = op.numbers.get("n"), {role: self._buffer(name) for role, name in op.inputs.items()}
        if op.name == "scale":
            return self._call("scale", out, f"{float(op.numbers['by'])!r}f", n)
        if op.name == "lift":
            return self._call("lift", out, f"{x}[{op.numbers['at']}]", n)
        if op.name == "take":
            return self._call("take", out, x, op.arrays["index"], n)
        if op.name == "lstm_memory":
            peepholes = [op.arrays.get(name, "0") for name in ("input", "forget", "output")]
            return self._call("lstm_memory", out, given["z"], *peepholes, op.numbers["coupled"], n)
        if op.name == "lstm_output":
            place = 2 if op.numbers["coupled"] else 3
            return self._call("lstm_output", out, f"{given['z']} + {place} * {n}", given["c"], n)
        keeps = [int(op.numbers["keeps"] == "old")] if "keeps" in op.numbers else []
        return self._call(op.name, out, *given.values(), *op.arrays.values(), *keeps, n)

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
