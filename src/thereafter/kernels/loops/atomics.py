"""What threads need to speak to each other, in machine code: numbers that are set, read and added to in one piece."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from thereafter.base.compiled import intrinsic
from thereafter.kernels.loops.llvm import Builder, Context, Intrinsic, Signature, Value
from thereafter.kernels.loops.tiles import cgutils, ir, types

_X86_PAUSE, _ARM_PAUSE = ("llvm.x86.sse2.pause", ()), ("llvm.aarch64.isb", (15,))  # 15: for the whole system
_PAUSE = {"x86_64": _X86_PAUSE, "amd64": _X86_PAUSE, "aarch64": _ARM_PAUSE, "arm64": _ARM_PAUSE}.get(
    platform.machine().lower()
)


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
        return builder.atomic_rmw("add", _place(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def add_if(typing: object, address: object, expected: object, value: object) -> Intrinsic:
    """As `add_to`, but only if the number is still the one expected; returns what it was."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        place, wanted = _place(builder, args[0]), builder.add(args[1], args[2])
        return builder.extract_value(builder.cmpxchg(place, args[1], wanted, "seq_cst", "acquire"), 0)

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def read_in_turn(typing: object, address: object) -> Intrinsic:
    """As `read_published`, and never before what this thread added by `add_to` ahead of it: of two threads that each
    add to one number and then read the other's, one at least sees the other."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        return builder.load_atomic(_place(builder, args[0]), "seq_cst", 8)

    return types.int64(types.int64), generate


@intrinsic
def pause(typing: object) -> Intrinsic:
    """What a processor wants to be told between two looks at a number that another one is to change."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        if _PAUSE is not None:
            name, numbers = _PAUSE
            given = [ir.IntType(32)(number) for number in numbers]
            kind = ir.FunctionType(ir.VoidType(), [number.type for number in given])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), given)
        return context.get_dummy_value()

    return types.void(), generate


def _place(builder: Builder, address: Value) -> Value:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())
