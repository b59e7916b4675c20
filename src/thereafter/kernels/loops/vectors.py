"""Loops over rows in which the processor's vectors are written out, for formulas of many arrays.

The compiler's own vectoriser must prove, or check at run time, that no two arrays overlap, and gives up beyond a few.
Here a formula is a Python function of `Lanes`, written once with plain operators; it is compiled for whole vectors, and
once more for a vector of which only some numbers are left. A `step_loop` applies it to all rows of a step, its operands
found by name in the arrays of a task:

    def doubled(v: Lanes) -> None:
        v["new"] = v["old"] * 2.0 + tanh(v["old"])

    run = step_loop(Arrays, [doubled], {"old": At("h"), "new": At("h", later=1)})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from thereafter.base.compiled import intrinsic
from thereafter.kernels.arrays import (
    ArrayType,
    Builder,
    Context,
    Intrinsic,
    IrType,
    Signature,
    Value,
    axes_of,
    field_with,
)
from thereafter.kernels.loops.tiles import (
    VECTOR_BYTES,
    cgutils,
    first_lanes,
    ir,
    masked_load,
    masked_store,
    spread,
    types,
    write_cases,
)

_FUSED = ("contract", "nsz", "arcp")  # a product and a sum may become one instruction; a NaN stays a NaN


class Number:
    """A number, or a vector of them, in a formula."""

    def __init__(self, lanes: Lanes, value: Value) -> None:
        self.lanes, self.value = lanes, value

    def _with(self, other: Number | float, operation: str, swapped: bool = False) -> Number:
        there = self.lanes.constant(other) if isinstance(other, float | int) else other
        left, right = (there, self) if swapped else (self, there)
        return Number(self.lanes, getattr(self.lanes.builder, operation)(left.value, right.value, flags=_FUSED))

    def __add__(self, other: Number | float) -> Number:
        return self._with(other, "fadd")

    def __sub__(self, other: Number | float) -> Number:
        return self._with(other, "fsub")

    def __mul__(self, other: Number | float) -> Number:
        return self._with(other, "fmul")

    def __truediv__(self, other: Number | float) -> Number:
        return self._with(other, "fdiv")

    def __radd__(self, other: float) -> Number:
        return self._with(other, "fadd")

    def __rmul__(self, other: float) -> Number:
        return self._with(other, "fmul")

    def __rsub__(self, other: float) -> Number:
        return self._with(other, "fsub", swapped=True)

    def __rtruediv__(self, other: float) -> Number:
        return self._with(other, "fdiv", swapped=True)

    def at_most(self, limit: float) -> Number:
        """The smaller of this and a limit; a NaN stays."""
        return self._bound(limit, ">")

    def at_least(self, limit: float) -> Number:
        """The larger of this and a limit; a NaN stays."""
        return self._bound(limit, "<")

    def _bound(self, limit: float, beyond: str) -> Number:
        bound = self.lanes.constant(limit).value
        builder = self.lanes.builder
        return Number(self.lanes, builder.select(builder.fcmp_ordered(beyond, self.value, bound), bound, self.value))


class Lanes:
    """The arrays of a formula by name, at the place the loop has come to."""

    def __init__(
        self,
        builder: Builder,
        starts: dict[str, Value],
        places: dict[str, Value],
        number: IrType,
        lanes: int,
        mask: Value | None = None,
    ) -> None:
        self.builder, self.exact, self._mask = builder, isinstance(number, ir.DoubleType), mask
        self._starts, self._places, self._number, self._lanes = starts, places, number, lanes
        self._size = 8 if self.exact else 4
        self._kind = ir.VectorType(number, lanes) if lanes > 1 else number

    def constant(self, value: float) -> Number:
        exact = float(value)
        return Number(self, ir.Constant(self._kind, [exact] * self._lanes if self._lanes > 1 else exact))

    def __getitem__(self, name: str) -> Number:
        if self._mask is not None:
            return Number(self, masked_load(self.builder, self._at(name), self._mask, self._kind, self._size))
        return Number(self, self.builder.load(self._at(name), align=self._size))

    def __setitem__(self, name: str, number: Number) -> None:
        if self._mask is not None:
            masked_store(self.builder, number.value, self._at(name), self._mask, self._size)
            return
        self.builder.store(number.value, self._at(name), align=self._size)

    def same(self, name: str) -> Number:
        """The one number at an address, for all places of the row."""
        number = self.builder.load(self.builder.inttoptr(self._starts[name], self._number.as_pointer()))
        return Number(self, number if self._lanes == 1 else spread(self.builder, number, self._kind))

    def _at(self, name: str) -> Value:
        return self.builder.inttoptr(self._places[name], self._kind.as_pointer())


Formula = Callable[[Lanes], None]


class At(NamedTuple):
    """Where a formula finds an operand in a row of a step: the name of an array, and a place along its axes (`arrays`).

    `block`: which gate of a row of gates, counted from the end below 0; which of two or three rows; which of plain
    numbers. `later`: so many steps after this one; an array of one or two steps is used in a circle. `beyond`: the
    array that has it after the last step.
    """

    array: str
    block: int = 0
    later: int = 0
    beyond: str = ""


def step_loop(
    kind: type[NamedTuple], formulas: Sequence[Formula], operands: Mapping[str, At], *, cleared: Sequence[str] = (),
    copied: Mapping[str, str] | None = None,
) -> Callable[..., None]:  # fmt: skip
    """A loop of compiled code over rows of a step: `run(arrays, lengths, where, rows, units, which)` applies one of the
    formulas, by its number, to some units (from, to) of each row (from, to, step).

    `where` is the step, the part of the rows and the thread. In rows that are finished the operands `cleared` become 0,
    and then those `copied` are copied to others. In float64, where tanh is the library's, numbers go one by one.
    """

    @intrinsic
    def run(
        typing: object, arrays: object, lengths: object, where: object, rows: object, units: object, which: object
    ) -> Intrinsic:
        def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
            where, rows, (first, last) = (
                cgutils.unpack_tuple(builder, part, size) for part, size in zip(args[2:5], (3, 3, 2), strict=True)
            )
            types_of = signature.args[0].types
            starts = _Starts(context, builder, kind, types_of, args[0], where, first)
            operands_at = {name: starts.of(at) for name, at in operands.items()}
            number = next(context.get_data_type(of.dtype) for of in types_of if of.dtype in types.real_domain)
            count = builder.sub(last, first)
            size = builder.mul(count, _I64(8 if isinstance(number, ir.DoubleType) else 4))
            ends = context.make_array(signature.args[1])(context, builder, args[1])
            ragged = builder.icmp_signed(">", ends.nitems, _I64(0))
            is_over = cgutils.alloca_once(builder, ir.IntType(1))
            with cgutils.for_range_slice(builder, *rows, _I64) as (row, _):
                at = {name: builder.add(start, builder.mul(row, each)) for name, (start, each) in operands_at.items()}
                builder.store(ir.IntType(1)(0), is_over)
                with builder.if_then(ragged):
                    end = builder.load(builder.gep(ends.data, [row]))
                    builder.store(builder.icmp_signed(">=", where[0], end), is_over)
                with builder.if_else(builder.load(is_over)) as (finished, live):
                    with finished:
                        for name in cleared:
                            cgutils.memset(builder, builder.inttoptr(at[name], cgutils.voidptr_t), size, 0)
                        for source, to in (copied or {}).items():
                            copied_at = [builder.inttoptr(at[name], cgutils.voidptr_t) for name in (to, source)]
                            cgutils.raw_memcpy(builder, *copied_at, size, 1)
                    with live:
                        loops = [partial(write_rows, builder, formula, at, count, number) for formula in formulas]
                        write_cases(builder, args[5], dict(enumerate(loops)))
            return context.get_dummy_value()

        return types.void(arrays, lengths, where, rows, units, types.int64), generate

    loop: Callable[..., None] = run
    return loop


_I64 = ir.IntType(64)


class _Starts:
    """The addresses of operands in row 0, at one step, for one part of the rows and one thread."""

    def __init__(
        self, context: Context, builder: Builder, kind: type[NamedTuple], types_of: Sequence[ArrayType], record: Value,
        where: Sequence[Value], first: Value,
    ) -> None:  # fmt: skip
        self.builder, self.first = builder, first
        self.step, self.part, self.thread = where
        self.arrays: dict[str, tuple[Value, list[tuple[str, Value, Value]]]] = {}
        for index, ((name, (letters, *_)), of) in enumerate(zip(axes_of(kind).items(), types_of, strict=True)):
            array = context.make_array(of)(context, builder, builder.extract_value(record, index))
            sizes, strides = (cgutils.unpack_tuple(builder, part, of.ndim) for part in (array.shape, array.strides))
            axes = list(zip(letters, sizes, strides, strict=True))
            self.arrays[name] = (builder.ptrtoint(array.data, _I64), axes)
        index, axis = field_with(kind, "H")
        self.units = self.arrays[kind._fields[index]][1][axis][1]

    def of(self, at: At) -> tuple[Value, Value]:
        """The address of an operand, and the bytes from row to row."""
        builder, block = self.builder, at.block
        address, axes = self.arrays[at.array]
        step, each, there = builder.add(self.step, _I64(at.later)), _I64(0), ir.IntType(1)(1)
        for letter, size, stride in axes:
            if letter == "B":
                each = stride
                continue
            if letter == "T":
                there = builder.icmp_signed("<", step, size)
                place = builder.select(there, step, builder.and_(step, builder.sub(size, _I64(1))))
            elif letter in "PM":
                place = self.part if letter == "P" else self.thread
            elif letter in "123N":
                place, block = _I64(block), 0
            else:
                place = builder.add(self.first, builder.mul(self.units, _I64(block)))
                place = builder.add(place, size) if block < 0 else place
            address = builder.add(address, builder.mul(place, stride))
        if not at.beyond:
            return address, each
        after = self.of(At(at.beyond, at.block, at.later))
        return builder.select(there, address, after[0]), builder.select(there, each, after[1])


def write_rows(builder: Builder, formula: Formula, starts: dict[str, Value], count: Value, number: IrType) -> None:
    """The code of a formula along `count` numbers of the rows that begin at the given addresses."""
    lanes = 1 if isinstance(number, ir.DoubleType) else VECTOR_BYTES // 4
    size = 8 if isinstance(number, ir.DoubleType) else VECTOR_BYTES

    def write(index: Value, mask: Value | None = None) -> None:
        step = builder.mul(index, ir.IntType(64)(size))
        places = {name: builder.add(start, step) for name, start in starts.items()}
        formula(Lanes(builder, starts, places, number, lanes, mask))

    whole = builder.sdiv(count, ir.IntType(64)(lanes))
    with cgutils.for_range(builder, whole, intp=ir.IntType(64)) as loop:
        write(loop.index)
    if lanes > 1:
        left = builder.srem(count, ir.IntType(64)(lanes))
        with builder.if_then(builder.icmp_signed(">", left, ir.IntType(64)(0))):
            write(whole, first_lanes(builder, left, lanes))


# tanh in float32 is the quotient of two polynomials, x (a1 + a3 x^2 + ... + a13 x^12) / (b0 + b2 x^2 + ... + b6 x^6),
# for |x| up to 7.9, where the function is 1 in float32: no branch, no table, error below 3e-7. (The coefficients are
# the minimax fit that Eigen uses.) A NaN stays a NaN.
_LIMIT = 7.90531110763549805
_TOP = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05,
        6.37261928875436e-04, 4.89352455891786e-03)  # fmt: skip
_BOTTOM = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def tanh(x: Number) -> Number:
    """tanh, and in float64 the library's."""
    return _tanhs([x])[0]


def sigmoid(x: Number) -> Number:
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2."""
    return gates_of([x], [])[0]


def gates_of(logistic: Sequence[Number], hyperbolic: Sequence[Number]) -> list[Number]:
    """The logistic function of some numbers and tanh of others, in this order, with one division among them."""
    tanhs = _tanhs([*(0.5 * x for x in logistic), *hyperbolic])
    return [0.5 * y + 0.5 if index < len(logistic) else y for index, y in enumerate(tanhs)]


def _tanhs(numbers: Sequence[Number]) -> list[Number]:
    if numbers[0].lanes.exact:
        return [_library_tanh(x) for x in numbers]
    bounded = [x.at_most(_LIMIT).at_least(-_LIMIT) for x in numbers]
    tops = [x * _polynomial(_TOP, x * x) for x in bounded]
    bottoms = [_polynomial(_BOTTOM, x * x) for x in bounded]
    return [top * one_over for top, one_over in zip(tops, _inverses(bottoms), strict=True)]


def _inverses(numbers: Sequence[Number]) -> list[Number]:
    """1 / x of each with a single division, which takes as long as ten products; they lie between 0.0048 and 1."""
    upto = [numbers[0]]
    for x in numbers[1:]:
        upto.append(upto[-1] * x)
    rest = 1.0 / upto[-1]
    inverses = []
    for index in range(len(numbers) - 1, 0, -1):
        inverses.append(rest * upto[index - 1])
        rest = rest * numbers[index]
    return [rest, *reversed(inverses)]


def _library_tanh(x: Number) -> Number:
    builder, number = x.lanes.builder, ir.DoubleType()
    library = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number]), "tanh")
    return Number(x.lanes, builder.call(library, [x.value]))


def _polynomial(coefficients: Sequence[float], x: Number) -> Number:
    value = x.lanes.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value
