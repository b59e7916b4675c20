"""Products of a few rows with an int8 matrix, by the instruction of ARM processors that multiplies bytes by fours.

`sdot` adds four products of int8 numbers to each of four int32 sums. To widen an int8 to a float32 takes two
instructions for four numbers, of which the conversion alone takes as long as eight of these, so here the row is made of
bytes instead: for BLOCK columns it is a whole number of 24 bits, in three signed digits of base 256, times one scale
(`step.storing.cut_into_digits` is the readable twin). That is as exact as float32 is for the largest number of the
block. Sums of whole numbers have no error; they become float32 at the end of a block, where the scales are multiplied
in.

A panel is [K / 4, V, L, 4] (`step.storing`): the bytes of a vector are four columns of L = 4 rows of the matrix. The
digits of a row are records, one a block: its scale, then for each GROUP of columns three vectors of digits, from the
highest to the lowest. Columns beyond the last are zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from thereafter.base.compiled import CFunction, c_function, compiled_once, intrinsic
from thereafter.base.packages import require
from thereafter.base.processor import processor
from thereafter.kernels.arrays import Builder, Context, Intrinsic, IrType, Signature, Value
from thereafter.kernels.loops.tiles import VECTOR_BYTES, cgutils, ir, spread, types, write_cases
from thereafter.kernels.step.storing import BLOCK, DIGITS, GROUP, LARGEST, SMALLEST

binding = require("llvmlite.binding", "a compiled loop")

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_SCALE = VECTOR_BYTES  # bytes of a record before its digits
RECORD = _SCALE + BLOCK * DIGITS
"""Bytes of a record."""
_BYTES, _WORDS, _FLOATS = ir.VectorType(_I8, 16), ir.VectorType(_I32, 4), ir.VectorType(ir.FloatType(), 4)
_GROUP_FLOATS, _GROUP_WORDS = ir.VectorType(ir.FloatType(), GROUP), ir.VectorType(_I32, GROUP)
_PANELS = (3, 4)
_LANES = 4


def usable() -> bool:
    """Whether this processor has the instruction, and vectors of its length are in use."""
    return VECTOR_BYTES == 4 * _LANES and bool((processor().features or {}).get("dot product"))


@compiled_once
def cut() -> CFunction:
    """The records of one row of float32 numbers: a C function of how many there are and the addresses of both."""

    def cut_into_digits(depth: int, x: int, records: int) -> None:
        for start in range(0, depth, BLOCK):
            _cut_block(x + 4 * start, min(BLOCK, depth - start), records)
            records += RECORD

    return c_function(types.void(*[types.int64] * 3), cut_into_digits)


@compiled_once
def product() -> CFunction:
    """As `step.passes.product` has it: z[r] += the sum over k of a[r, k] b[k], for all rows r and one panel b; here a
    is the records of the rows."""

    binding.initialize_native_asmparser()  # of `sdot`; numba itself has no use for it

    def fours_product(vectors: int, rows: int, depth: int, a: int, a_row: int, b: int, scales: int, z: int) -> None:
        for start in range(0, depth, BLOCK):
            groups = (min(BLOCK, depth - start) + GROUP - 1) // GROUP
            for row in range(rows):
                _block_product(vectors, groups, a + row * a_row, b, scales, z + row * vectors * VECTOR_BYTES)
            a += RECORD
            b += groups * GROUP * vectors * _LANES
            scales += vectors * VECTOR_BYTES

    return c_function(types.void(*[types.int64] * 8), fours_product)


@intrinsic
def _cut_block(typing: object, x: object, count: object, record: object) -> Intrinsic:
    """The record of up to BLOCK numbers."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        x, count, record = args
        groups = builder.sdiv(builder.add(count, _I64(GROUP - 1)), _I64(GROUP))
        last = _last_group(builder, x, count)

        def numbers(group: Value) -> Value:
            whole = builder.icmp_signed("<=", builder.mul(builder.add(group, _I64(1)), _I64(GROUP)), count)
            place = builder.select(whole, builder.add(x, builder.mul(group, _I64(4 * GROUP))), last)
            return _load(builder, place, _GROUP_FLOATS)

        largest = cgutils.alloca_once(builder, _GROUP_FLOATS)
        builder.store(_all(_GROUP_FLOATS, SMALLEST), largest)
        with cgutils.for_range(builder, groups, intp=_I64) as loop:
            size = _call(builder, "llvm.fabs", numbers(loop.index))
            builder.store(_call(builder, "llvm.maximum", builder.load(largest), size), largest)
        most = _largest_of(builder, builder.load(largest))
        scale = builder.fmul(most, _all(_GROUP_FLOATS, 1.0 / LARGEST))
        builder.store(builder.extract_element(scale, _I32(0)), _at(builder, record, ir.FloatType()))
        times = builder.fdiv(_all(_GROUP_FLOATS, LARGEST), most)
        with cgutils.for_range(builder, groups, intp=_I64) as loop:
            nearest = _call(builder, "llvm.rint", builder.fmul(numbers(loop.index), times))
            whole = _whole_numbers(builder, nearest)
            place = builder.add(builder.add(record, _I64(_SCALE)), builder.mul(loop.index, _I64(GROUP * DIGITS)))
            for digit in reversed(range(DIGITS)):
                there = _at(builder, builder.add(place, _I64(digit * GROUP)), _BYTES)
                builder.store(builder.trunc(whole, _BYTES), there, align=1)
                carried = builder.add(whole, _all(_GROUP_WORDS, 128))
                whole = builder.ashr(carried, _all(_GROUP_WORDS, 8))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


def _last_group(builder: Builder, x: Value, count: Value) -> Value:
    """The address of the numbers that are left over beyond whole groups, zeros after them."""
    room = cgutils.alloca_once(builder, _GROUP_FLOATS)
    builder.store(_all(_GROUP_FLOATS, 0.0), room)
    left = builder.srem(count, _I64(GROUP))
    source = builder.add(x, builder.mul(builder.sub(count, left), _I64(4)))
    byte = _I8.as_pointer()
    cgutils.raw_memcpy(
        builder, builder.bitcast(room, byte), builder.inttoptr(source, byte), builder.mul(left, _I64(4)), 1
    )
    return builder.ptrtoint(room, _I64)


def _largest_of(builder: Builder, vector: Value) -> Value:
    """The largest number of a vector, in all its places; a NaN is larger than all."""
    step = GROUP // 2
    while step:
        order = ir.Constant(ir.VectorType(_I32, GROUP), [lane ^ step for lane in range(GROUP)])
        vector = _call(builder, "llvm.maximum", vector, builder.shuffle_vector(vector, vector, order))
        step //= 2
    return vector


def _whole_numbers(builder: Builder, numbers: Value) -> Value:
    """As int32; a NaN is 0."""
    kind = ir.FunctionType(_GROUP_WORDS, [_GROUP_FLOATS])
    name = f"llvm.fptosi.sat.v{GROUP}i32.v{GROUP}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [numbers])


@intrinsic
def _block_product(
    typing: object, vectors: object, groups: object, record: object, b: object, scales: object, z: object
) -> Intrinsic:
    """z += the product of one row with up to BLOCK columns of a panel."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        panels = {vectors: partial(_write_block, builder, vectors, args[1:]) for vectors in _PANELS}
        write_cases(builder, args[0], panels)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


def _write_block(builder: Builder, vectors: int, args: Sequence[Value]) -> None:
    """The code for a panel of so many vectors."""
    groups, record, b, scales, z = args
    places = [(v, digit) for v in range(vectors) for digit in range(DIGITS)]
    sums = {place: cgutils.alloca_once(builder, _WORDS) for place in places}
    for place in places:
        builder.store(_all(_WORDS, 0), sums[place])
    first = builder.add(record, _I64(_SCALE))
    with cgutils.for_range(builder, groups, intp=_I64) as loop:
        at = builder.add(first, builder.mul(loop.index, _I64(GROUP * DIGITS)))
        digits = [_load(builder, builder.add(at, _I64(GROUP * digit)), _BYTES) for digit in range(DIGITS)]
        panel = builder.add(b, builder.mul(loop.index, _I64(GROUP * vectors * _LANES)))
        for four in range(GROUP // 4):
            for v in range(vectors):
                weights = _load(builder, builder.add(panel, _I64((four * vectors + v) * VECTOR_BYTES)), _BYTES)
                for digit in range(DIGITS):
                    total = _add_products(builder, builder.load(sums[v, digit]), weights, digits[digit], four)
                    builder.store(total, sums[v, digit])
    scale = spread(builder, builder.load(_at(builder, record, ir.FloatType())), _FLOATS)
    for v in range(vectors):
        high, middle, low = (builder.load(sums[v, digit]) for digit in range(DIGITS))
        # below 2^31: BLOCK times 127 times 128 times 257
        lower = builder.sitofp(builder.add(builder.shl(middle, _all(_WORDS, 8)), low), _FLOATS)
        total = _call(builder, "llvm.fma", builder.sitofp(high, _FLOATS), _all(_FLOATS, 65536.0), lower)
        both = builder.fmul(scale, _load(builder, builder.add(scales, _I64(v * VECTOR_BYTES)), _FLOATS))
        to = builder.add(z, _I64(v * VECTOR_BYTES))
        total = _call(builder, "llvm.fma", total, both, _load(builder, to, _FLOATS))
        builder.store(total, _at(builder, to, _FLOATS), align=4)


def _add_products(builder: Builder, sums: Value, weights: Value, digits: Value, four: int) -> Value:
    """sums[l] + the products of four bytes of `weights` at l with four of `digits`, the same for all l.

    As text: LLVM refuses its own name for the instruction, and with it the whole process, where it knows a processor
    less well than Linux does.
    """
    kind = ir.FunctionType(_WORDS, [_WORDS, _BYTES, _BYTES])
    code = f".arch_extension dotprod\n\tsdot $0.4s, $2.16b, $3.4b[{four}]"
    return builder.asm(kind, code, "=w,0,w,w", [sums, weights, digits], False)


def _call(builder: Builder, name: str, *args: Value) -> Value:
    """A function of LLVM's, number by number."""
    kind = args[0].type
    function = ir.FunctionType(kind, [kind] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, function, f"{name}.v{kind.count}f32"), [*args])


def _all(kind: IrType, value: float) -> Value:
    constant: Value = ir.Constant(kind, [value] * kind.count)
    return constant


def _at(builder: Builder, address: Value, kind: IrType) -> Value:
    return builder.inttoptr(address, kind.as_pointer())


def _load(builder: Builder, address: Value, kind: IrType) -> Value:
    return builder.load(_at(builder, address, kind), align=1)
