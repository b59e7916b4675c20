"""Loops over rows in which the processor's vectors are written out, for formulas of many arrays.

The compiler's own vectoriser must prove, or check at run time, that no two arrays overlap, and gives up beyond a few.
Here a formula is a Python function of `Lanes`, written once with plain operators; it is compiled for whole vectors, and
once more for a vector of which only some numbers are left.

    def doubled(v: Lanes) -> None:
        v["y"] = v["x"] * 2.0 + tanh(v["x"])

    run = row_loop(doubled, "x", "y")     # in a compiled loop: run(like, count, (address of x, address of y))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from thereafter.base.compiled import intrinsic
from thereafter.kernels.arrays import Builder, Context, Intrinsic, IrType, Signature, Value
from thereafter.kernels.loops.tiles import (
    VECTOR_BYTES,
    cgutils,
    first_lanes,
    ir,
    masked_load,
    masked_store,
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
        one = self.builder.load(self.builder.inttoptr(self._starts[name], self._number.as_pointer()))
        if self._lanes == 1:
            return Number(self, one)
        first = self.builder.insert_element(ir.Constant(self._kind, ir.Undefined), one, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self._lanes), [0] * self._lanes)
        return Number(self, self.builder.shuffle_vector(first, first, zeros))

    def _at(self, name: str) -> Value:
        return self.builder.inttoptr(self._places[name], self._kind.as_pointer())


Formula = Callable[[Lanes], None]


def row_loop(formula: Formula, *names: str) -> Callable[..., None]:
    """A loop of compiled code that applies a formula along rows: `run(like, count, addresses of the rows by name)`.

    `like` is any array of the rows' type. In float64, where tanh is the library's, numbers go one by one.
    """

    @intrinsic
    def run(typing: object, like: object, count: object, addresses: object) -> Intrinsic:
        def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
            number = context.get_data_type(signature.args[0].dtype)
            write_rows(builder, formula, _starts(builder, names, args[2]), args[1], number)
            return context.get_dummy_value()

        return types.void(like, types.int64, addresses), generate

    loop: Callable[..., None] = run
    return loop


def row_loops(formulas: Sequence[Formula], *names: str) -> Callable[..., None]:
    """As `row_loop`, for several formulas over the same arrays: `run(like, which, count, addresses)` applies one, by
    its number."""

    @intrinsic
    def run(typing: object, like: object, which: object, count: object, addresses: object) -> Intrinsic:
        def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
            number = context.get_data_type(signature.args[0].dtype)
            starts = _starts(builder, names, args[3])
            loops = (partial(write_rows, builder, formula, starts, args[2], number) for formula in formulas)
            write_cases(builder, args[1], dict(enumerate(loops)))
            return context.get_dummy_value()

        return types.void(like, types.int64, types.int64, addresses), generate

    loop: Callable[..., None] = run
    return loop


def _starts(builder: Builder, names: Sequence[str], addresses: Value) -> dict[str, Value]:
    return {name: builder.extract_value(addresses, index) for index, name in enumerate(names)}


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
