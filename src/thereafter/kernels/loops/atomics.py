"""What threads need to speak to each other, in machine code: numbers that are set, read and added to in one piece."""

from __future__ import annotations

from collections.abc import Sequence

from thereafter.compiled import intrinsic
from thereafter.kernels.loops.llvm import Builder, Context, Intrinsic, Signature, Value
from thereafter.kernels.loops.tiles import ir, types


@intrinsic
def publish(typing: object, address: object, value: object) -> Intrinsic:
    """Set the number at an address, visibly to all threads together with all that was written before."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        builder.store_atomic(args[1], _place(builder, args[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def read_published(typing: object, address: object) -> Intrinsic:
    """The number at an address, and with it all that its thread wrote before."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        return builder.load_atomic(_place(builder, args[0]), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def add_to(typing: object, address: object, value: object) -> Intrinsic:
    """Add to the number at an address in one piece, as `publish` and `read_published` together; returns what it was."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        return builder.atomic_rmw("add", _place(builder, args[0]), args[1], "acq_rel")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def add_if(typing: object, address: object, expected: object, value: object) -> Intrinsic:
    """As `add_to`, but only if the number is still the one expected; returns what it was."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        place, wanted = _place(builder, args[0]), builder.add(args[1], args[2])
        return builder.extract_value(builder.cmpxchg(place, args[1], wanted, "acq_rel", "acquire"), 0)

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def whole_number_from(typing: object, address: object) -> Intrinsic:
    """Call a C function without arguments that returns an int, by its address."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        kind = ir.FunctionType(ir.IntType(32), [])
        got = builder.call(builder.inttoptr(args[0], kind.as_pointer()), [])
        return builder.sext(got, ir.IntType(64))

    return types.int64(types.int64), generate


def _place(builder: Builder, address: Value) -> Value:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())
