"""C functions called from compiled loops by their addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thereafter.base.compiled import intrinsic
from thereafter.kernels.loops.llvm import Builder, Context, Intrinsic, Signature, Value
from thereafter.kernels.loops.tiles import ir, types

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def caller(numbers: int) -> Callable[..., None]:
    """An intrinsic `call(address, given)`: the C function there gets so many whole numbers, a tuple; what it returns is
    dropped."""

    @intrinsic
    def call(typing: object, function: object, given: object) -> Intrinsic:
        def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
            kind = ir.FunctionType(ir.VoidType(), [_I64] * numbers)
            values = [builder.extract_value(args[1], index) for index in range(numbers)]
            builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)
            return context.get_dummy_value()

        return types.void(types.int64, given), generate

    called: Callable[..., None] = call
    return called


@intrinsic
def whole_number_from(typing: object, address: object) -> Intrinsic:
    """Call a C function without arguments that returns an int, by its address."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        kind = ir.FunctionType(_I32, [])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), []), _I64)

    return types.int64(types.int64), generate


@intrinsic
def pointer(typing: object, address: object) -> Intrinsic:
    """An address as a pointer, which `carray` takes."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate
