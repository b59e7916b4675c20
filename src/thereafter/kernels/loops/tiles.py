"""The inner loop of a matrix product, C = S + A B, with a tile of C kept in the processor's vector registers.

A library's product must copy B into the order its inner loop reads it in, each time it is called. The recurrent matrix
is the same at every step, so here it is packed once a sequence, and a step does nothing but multiply and add.

B is packed in panels. A panel is `depth` rows of V vectors of LANES numbers each; the vectors of a panel need not be
neighbours in C, so that one panel can hold the same units of several gates. How long vectors are, how many rows and
vectors a tile has and how many rows of a panel are gone through at a time follows from the processor (`tiling`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from functools import partial, wraps

import numpy as np

from thereafter.base.compiled import CFunction, c_function, compiled_once, intrinsic
from thereafter.base.packages import require
from thereafter.base.processor import PANEL, tiling
from thereafter.kernels.arrays import Builder, Context, FloatType, Intrinsic, IrType, Signature, Value

ir = require("llvmlite.ir", "a compiled loop")
types, cgutils = (require(f"numba.{name}", "a compiled loop") for name in ("types", "core.cgutils"))

MOST_VECTORS = PANEL  # in a panel
LINE = 64  # bytes that come from memory together
VECTOR_BYTES, _DEPTH = tiling().vectors.bytes, tiling().depth
MOST_ROWS = tiling().most_rows(MOST_VECTORS)  # of a tile as wide as a panel
LANES32, LANES64 = VECTOR_BYTES // 4, VECTOR_BYTES // 8
# of a tile, by the vectors of the panel; there is none of 0
_WIDTHS = (1, *(tiling().width(panel) for panel in range(1, PANEL + 1)))
_HEIGHTS = (1, *(tiling().rows(panel) for panel in range(1, PANEL + 1)))
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_BYTE = ir.IntType(8).as_pointer()
_TILES = sorted({(rows, width) for width, most in zip(_WIDTHS, _HEIGHTS, strict=True) for rows in range(1, most + 1)})


def instruction(result: Callable[..., object], count: int) -> Callable[[Callable[..., object]], Callable[..., int]]:
    """Decorator: `write(builder, *numbers)` writes the machine code of a function of so many whole numbers, which
    gives what `write` does, of the type `result`."""

    def compiled(write: Callable[..., object]) -> Callable[..., int]:
        @wraps(write)
        def typed(typing: object, *numbers: object) -> tuple[object, Callable[..., object]]:
            def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> object:
                value = write(builder, *args)
                return context.get_dummy_value() if value is None else value

            return result(*[types.int64] * count), generate

        function: Callable[..., int] = intrinsic(typed)
        return function

    return compiled


@intrinsic
def call(typing: object, address: object, numbers: Sized) -> Intrinsic:
    """Call a C function by its address with a tuple of whole numbers; what it returns is dropped."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        kind = ir.FunctionType(ir.VoidType(), [_I64] * len(numbers))
        values = [builder.extract_value(args[1], index) for index in range(len(numbers))]
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)
        return context.get_dummy_value()

    return types.void(types.int64, numbers), generate


def write_cases(builder: Builder, number: Value, cases: Mapping[int, Callable[[], None]]) -> None:
    """Code that does what the case of a number writes, and nothing where it has none."""
    after = builder.append_basic_block("after")
    switch = builder.switch(number, after)
    blocks = {case: builder.append_basic_block(f"case_{case}") for case in cases}
    for case, write in cases.items():
        switch.add_case(_I64(case), blocks[case])
        builder.position_at_end(blocks[case])
        write()
        builder.branch(after)
    builder.position_at_end(after)


@intrinsic
def _tile(
    typing: object, dtype: object, height: object, vectors: object, depth: object, a: object, a_row: object,
    b: object, b_row: object, s: object, s_row: object, c: object, c_row: object, c_vector: object, ahead: object,
) -> Intrinsic:  # fmt: skip
    """The product of one tile: C[r, v] = S[r, v] + sum over k of A[r, k] B[k, v].

    Given are depth; the addresses of the first numbers of A, of the panel, of S and of C, each followed by its bytes a
    row, C's also from one vector to the next; the address from which to fetch for later, a line a k.
    """

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        size = signature.args[0].dtype.bitwidth // 8
        # one stretch of code for each size of tile, since what is held in registers must be named when it is compiled
        tiles = {
            rows * MOST_VECTORS + columns: partial(_write_tile, builder, rows, columns, size, args[3:])
            for rows, columns in _TILES
        }
        write_cases(builder, builder.add(builder.mul(args[1], _I64(MOST_VECTORS)), args[2]), tiles)
        return context.get_dummy_value()

    return types.void(dtype, *[types.int64] * 13), generate


def spread(builder: Builder, number: Value, vector: IrType) -> Value:
    """A number in all places of a vector."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), number, _I32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count))


def multiply_and_add(builder: Builder, vector: IrType, size: int) -> Value:
    """a b + c, one instruction where the processor has it; `llvm.fma` would elsewhere call a function for each
    number."""
    kind = ir.FunctionType(vector, [vector] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{vector.count}f{8 * size}")


def _unknown(builder: Builder, value: Value) -> Value:
    """The same whole number, of which the compiler does not know where it comes from."""
    return builder.asm(ir.FunctionType(_I64, [_I64]), "", "=r,0", [value], False)


def _write_tile(builder: Builder, rows: int, vectors: int, size: int, args: Sequence[Value]) -> None:
    """The code of a tile of one size."""
    depth, a, a_row, b, b_row, s, s_row, c, c_row, c_vector, ahead = args
    lanes = VECTOR_BYTES // size
    number = ir.DoubleType() if size == 8 else ir.FloatType()
    vector, prefetch = ir.VectorType(number, lanes), _prefetch(builder)

    def at(address: Value, kind: IrType) -> Value:
        return builder.inttoptr(address, kind.as_pointer())

    def move_by(address: Value, times: int, step: Value) -> Value:
        return builder.add(address, builder.mul(step, _I64(times)))

    fma = multiply_and_add(builder, vector, size)
    # Each row is found by one addition: LLVM, if it knew, would go from row to row in the inner loop.
    rows_at = [_unknown(builder, builder.mul(a_row, _I64(r))) for r in range(1, rows)]
    tile = [(r, v) for r in range(rows) for v in range(vectors)]
    places = {(r, v): at(move_by(move_by(c, r, c_row), v, c_vector), vector) for r, v in tile}
    sums = {place: cgutils.alloca_once(builder, vector) for place in tile}
    for r, v in tile:
        start = at(move_by(move_by(s, r, s_row), v, c_vector), vector)
        builder.store(builder.load(start, align=size), sums[r, v])
    with cgutils.for_range(builder, depth, intp=_I64) as loop:
        k = loop.index
        row = builder.add(b, builder.mul(b_row, k))
        numbers = [
            builder.load(at(builder.add(row, _I64(v * VECTOR_BYTES)), vector), align=size) for v in range(vectors)
        ]
        fetched = builder.inttoptr(move_by(ahead, LINE, k), _BYTE)
        if rows > 1:  # one row does little else than read B, as fast as the L2 cache gives it
            builder.call(prefetch, [fetched, _I32(0), _I32(2), _I32(1)])  # a read, into the L2 cache
        a_k = move_by(a, size, k)
        for r in range(rows):
            number_of_a = builder.load(at(builder.add(a_k, rows_at[r - 1]) if r else a_k, number))
            everywhere = spread(builder, number_of_a, vector)
            for v in range(vectors):
                builder.store(builder.call(fma, [everywhere, numbers[v], builder.load(sums[r, v])]), sums[r, v])
    for place in tile:
        builder.store(builder.load(sums[place]), places[place], align=size)


@compiled_once
def product(dtype: FloatType) -> CFunction:
    """All rows of A against a panel of 1 to 4 vectors, in parts that stay in the L1 cache, as tiles of nearly equal
    height: a C function, called by its address (`multiply`). Compiled into its callers it would be compiled again with
    each of them."""
    size = np.dtype(dtype).itemsize

    def panel_product(
        vectors: int, rows: int, depth: int, a: int, a_row: int, b: int, s: int, s_row: int, c: int, c_row: int,
        c_vector: int, ahead: int,
    ) -> None:  # fmt: skip
        width, most, b_row = _WIDTHS[vectors], _HEIGHTS[vectors], vectors * VECTOR_BYTES
        for start in range(0, depth, _DEPTH):
            deep = min(_DEPTH, depth - start)
            fetch = b + deep * b_row if start + deep < depth else ahead
            for first in range(0, vectors, width):
                b_at, a_at, left, tiles = b + first * VECTOR_BYTES, a, rows, (rows + most - 1) // most
                s_at, c_at = s + first * c_vector, c + first * c_vector
                while left > 0:
                    height = (left + tiles - 1) // tiles
                    _tile(
                        dtype, height, width, deep, a_at, a_row, b_at, b_row, s_at, s_row, c_at, c_row, c_vector, fetch
                    )
                    a_at += height * a_row
                    s_at += height * s_row
                    c_at += height * c_row
                    fetch += deep * LINE  # the tiles of this part of the panel fetch the next part together
                    left -= height
                    tiles -= 1
            a += deep * size
            b += deep * b_row
            s, s_row = c, c_row  # the next part of the panel is added to this one

    return c_function(types.void(*[types.int64] * 12), panel_product)


@instruction(types.void, 13)
def multiply(
    builder: Builder, function: Value, vectors: Value, rows: Value, depth: Value, a: Value, a_row: Value, b: Value,
    s: Value, s_row: Value, c: Value, c_row: Value, c_vector: Value, ahead: Value,
) -> None:  # fmt: skip
    """Call the `product` at the address `function`."""
    kind, given = ir.FunctionType(ir.VoidType(), [_I64] * 12), [vectors, rows, depth, a, a_row, b, s, s_row]
    builder.call(builder.inttoptr(function, kind.as_pointer()), [*given, c, c_row, c_vector, ahead])


@intrinsic
def turn(typing: object, like: object, source: object, source_row: object, to: object, to_row: object) -> Intrinsic:
    """Copy as many vectors as a vector has numbers, rows becoming columns. `like` is any array of their type; then
    come the addresses, each with its bytes a row."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        number = context.get_data_type(signature.args[0].dtype)
        size = 8 if isinstance(number, ir.DoubleType) else 4
        lanes = VECTOR_BYTES // size
        vector, order = ir.VectorType(number, lanes), ir.VectorType(_I32, lanes)

        def place(start: Value, step: Value, row: int) -> Value:
            return builder.inttoptr(builder.add(start, builder.mul(step, _I64(row))), vector.as_pointer())

        rows = [builder.load(place(args[1], args[2], row), align=size) for row in range(lanes)]
        step = 1
        while step < lanes:  # of a number's place, one bit of its row and the same bit of its column change places
            low = [lane - step + lanes if lane & step else lane for lane in range(lanes)]
            high = [lane + lanes if lane & step else lane + step for lane in range(lanes)]
            for row in range(lanes):
                if not row & step:
                    a, b = rows[row], rows[row + step]
                    rows[row] = builder.shuffle_vector(a, b, ir.Constant(order, low))
                    rows[row + step] = builder.shuffle_vector(a, b, ir.Constant(order, high))
            step *= 2
        for row in range(lanes):
            builder.store(rows[row], place(args[3], args[4], row), align=size)
        return context.get_dummy_value()

    return types.void(like, *[types.int64] * 4), generate


@instruction(types.void, 3)
def copy(builder: Builder, source: Value, to: Value, size: Value) -> None:
    """Copy bytes from one address to another."""
    cgutils.raw_memcpy(builder, builder.inttoptr(to, _BYTE), builder.inttoptr(source, _BYTE), size, 1)


@instruction(types.void, 1)
def fetch(builder: Builder, address: Value) -> None:
    """Ask for the line of memory at an address, and do not wait for it."""
    builder.call(_prefetch(builder), [builder.inttoptr(address, _BYTE), _I32(0), _I32(3), _I32(1)])


def _prefetch(builder: Builder) -> object:
    kind = ir.FunctionType(ir.VoidType(), [_BYTE, _I32, _I32, _I32])
    return cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")


def first_lanes(builder: Builder, count: Value, lanes: int) -> Value:
    """A mask of the first `count` numbers of a vector."""
    order = ir.VectorType(_I64, lanes)
    return builder.icmp_signed("<", ir.Constant(order, list(range(lanes))), spread(builder, count, order))


def masked_load(builder: Builder, place: Value, mask: Value, vector: IrType, size: int) -> Value:
    """The numbers of a vector that the mask names, 0 for the others, which are not read."""
    kind = ir.FunctionType(vector, [place.type, _I32, mask.type, vector])
    load = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{vector.count}f{8 * size}.p0")
    return builder.call(load, [place, _I32(size), mask, ir.Constant(vector, [0.0] * vector.count)])


def masked_store(builder: Builder, value: Value, place: Value, mask: Value, size: int) -> None:
    """Write the numbers of a vector that the mask names."""
    kind = ir.FunctionType(ir.VoidType(), [value.type, place.type, _I32, mask.type])
    name = f"llvm.masked.store.v{value.type.count}f{8 * size}.p0"
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [value, place, _I32(size), mask])


@intrinsic
def move(typing: object, like: object, source: object, to: object, count: object) -> Intrinsic:
    """Copy up to a vector of numbers, of the type of the array `like`, from one address to another."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        number = context.get_data_type(signature.args[0].dtype)
        size = 8 if isinstance(number, ir.DoubleType) else 4
        vector = ir.VectorType(number, VECTOR_BYTES // size)
        mask = first_lanes(builder, args[3], vector.count)
        place, to = (builder.inttoptr(address, vector.as_pointer()) for address in args[1:3])
        masked_store(builder, masked_load(builder, place, mask, vector, size), to, mask, size)
        return context.get_dummy_value()

    return types.void(like, *[types.int64] * 3), generate
