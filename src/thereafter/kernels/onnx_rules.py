"""What torch computes as operators of ONNX, one rule for each function of torch: one table for networks that are
written whole (`export/onnx`) and for layers in torch's own exporter (`onnx_table`).

The code of a cell or network runs once, over tensors that have shapes and no numbers (on torch's meta device), and each
function of torch on them is written down. So what a graph computes is said in one place, the network. Weights, and what
is computed of weights alone, are constants. What is asked of numbers ("is a row shorter than the others?") is answered
with yes. A function without a rule is refused only where the graph needs what it gives.

Shapes: B rows, T steps, I inputs, H features, K heads, D = H / K.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import EllipsisType
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from thereafter.errors import ExportError

Value = object
"""A value of a graph: its name, or an object of the package that writes the graph."""
Operand = Tensor | float
"""What an operator is given: a tensor, or a number for every place of one."""
Index = int | slice | Tensor | EllipsisType | None
V = TypeVar("V")
Rule = Callable[..., Value | list[Value] | Tensor]
ONNX_TYPES = {torch.float32: 1, torch.int32: 6, torch.int64: 7, torch.bool: 9, torch.float64: 11}
"""The numbers that ONNX has for types."""


_DEVICE = Tensor.device.__get__


def _without_numbers(operand: object) -> object:
    """An operand with tensors that have shapes alone."""
    if isinstance(operand, list | tuple):
        return type(operand)(map(_without_numbers, operand))
    if isinstance(operand, torch.device):
        return torch.device("meta")
    return operand.to("meta") if isinstance(operand, Tensor) and not operand.is_meta else operand


def numpy_type(kind: torch.dtype) -> np.dtype[np.generic]:
    """The type of an array."""
    return np.dtype(str(kind).removeprefix("torch."))


class GraphWriter(ABC, Generic[V]):
    """Writes operators one after the other."""

    @abstractmethod
    def ops(self, kind: str, inputs: Sequence[V], outputs: int, **attributes: object) -> list[V]:
        """The outputs of an operator."""

    @abstractmethod
    def constant(self, value: ArrayLike, dtype: type[np.generic] | np.dtype[np.generic] = np.int64) -> V:
        """A small constant."""

    @abstractmethod
    def weight(self, array: NDArray[np.generic], name: str = "weight") -> V:
        """An array of the model."""

    def op(self, kind: str, *inputs: V, **attributes: object) -> V:
        """The only output of an operator, or its first."""
        return self.ops(kind, inputs, 1, **attributes)[0]

    def axes(self, value: V, *axes: int) -> V:
        """A value with axes of size 1 at these places."""
        return self.op("Unsqueeze", value, self.constant(axes))

    def squeezed(self, value: V, *axes: int) -> V:
        """A value without these axes of size 1; of [1] a number, where none are named."""
        return self.op("Squeeze", value, *([self.constant(axes)] if axes else []))

    def slice(self, value: V, axis: int, begin: int | V, end: int | V) -> V:
        """begin to end of an axis; each a number or a value [1]."""
        ends = [self.constant([one]) if isinstance(one, int) else one for one in (begin, end)]
        return self.op("Slice", value, *ends, self.constant([axis]))

    def split(self, value: V, sizes: Sequence[int], axis: int = -1) -> list[V]:
        """The parts of an axis."""
        if len(sizes) == 1:
            return [value]
        return self.ops("Split", [value, self.constant(sizes)], len(sizes), axis=axis)

    def size(self, value: V, axis: int) -> V:
        """The size of an axis, [1]."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def shape(self, *parts: int | V) -> V:
        """A shape from numbers and values [1]."""
        listed = [self.constant([part]) if isinstance(part, int) else part for part in parts]
        return self.op("Concat", *listed, axis=0)


class OperatorWriting(TorchFunctionMode, Generic[V]):
    """Within it, what is computed of tensors that stand for values is written into a graph."""

    def __init__(self, g: GraphWriter[V]) -> None:
        super().__init__()
        self.g = g
        self._values: dict[int, tuple[Tensor, V]] = {}  # the tensors are kept: an identity is not used twice
        self._refused: dict[int, tuple[Tensor, str]] = {}
        self._stacked: dict[int, tuple[Tensor, int, list[V]]] = {}

    def known(self, value: V, sizes: Sequence[int], kind: torch.dtype = torch.float32) -> Tensor:
        """A tensor without numbers that stands for a value of the graph."""
        tensor = torch.empty(tuple(sizes), dtype=kind, device="meta")
        self._values[id(tensor)] = tensor, value
        return tensor

    def stands_for(self, tensor: object) -> bool:
        """Whether a tensor stands for a value of the graph."""
        return id(tensor) in self._values or id(tensor) in self._refused

    def value(self, operand: Operand, kind: torch.dtype | None = None) -> V:
        """The value of a tensor or number, of that type."""
        if not isinstance(operand, Tensor):
            return self.number(operand, kind or torch.float32)
        if id(operand) in self._refused:
            raise ExportError(
                f"the operation {self._refused[id(operand)][1]!r} of this network has no exported form; "
                "try torch.export on task_model.net"
            )
        if id(operand) not in self._values:
            return self.g.weight(self.array(operand if kind is None else operand.to(kind)))
        value = self._values[id(operand)][1]
        return value if kind in (None, operand.dtype) else self.g.op("Cast", value, to=ONNX_TYPES[kind])

    # ---- what a writer of whole networks does in its own way

    def free(self, number: object) -> int | None:
        """The size of the free axis that a number is counted from, if any."""
        return None

    def size(self, number: int) -> int | V:
        """A number, or the value [1] of the free axis that it is counted from."""
        return number

    def number(self, number: float, kind: torch.dtype) -> V:
        """A number as a value."""
        return self.g.constant(number, numpy_type(kind))

    def array(self, weight: Tensor) -> NDArray[np.generic]:
        """A constant tensor as an array."""
        array: NDArray[np.generic] = weight.detach().cpu().numpy()
        return array

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> V:
        """y = x W^T + b."""
        y = self.g.op("MatMul", self.value(x), self.g.op("Transpose", self.value(weight), perm=[1, 0]))
        return y if bias is None else self.g.op("Add", y, self.value(bias))

    def rows(self, weight: Tensor, index: Tensor) -> V:
        """Rows of a constant matrix."""
        return self.op("Gather", weight, index)

    # ---- how functions become operators

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        name, options = func.__name__.strip("_"), kwargs or {}
        operands = [one for part in args for one in (part if isinstance(part, list | tuple) else [part])]
        operands += options.values()
        if name == "empty" or not any(self.stands_for(one) or self.free(one) for one in operands):
            return func(*args, **options)
        if name == "bool" or func == _DEVICE:
            return True if name == "bool" else torch.device("cpu")
        with torch.device("meta"):
            bare = {option: _without_numbers(part) for option, part in options.items()}
            result = func(*map(_without_numbers, args), **bare)
        results = list(result) if isinstance(result, list | tuple) else [args[0] if name == "setitem" else result]
        tensors = [tensor for tensor in results if isinstance(tensor, Tensor)]
        if len(tensors) < len(results):
            return result
        if name not in _RULES or any(id(operand) in self._refused for operand in operands):
            self._refused |= {id(tensor): (tensor, name) for tensor in tensors}
            return result
        values = _RULES[name](self, result, *args, **options)
        if isinstance(values, Tensor):
            return values
        listed = values if isinstance(values, list) else [values]
        self._values |= {id(tensor): (tensor, value) for tensor, value in zip(tensors, listed, strict=True)}
        return result

    def stack(self, tensor: Tensor, axis: int, parts: list[V]) -> None:
        """Remember of what a tensor is stacked: whoever takes a part of it takes that."""
        self._stacked[id(tensor)] = tensor, axis, parts

    def parts(self, tensor: Tensor, axis: int = 0) -> list[V] | None:
        """What a tensor is stacked of along an axis, where that is known."""
        _, own, parts = self._stacked.get(id(tensor), (None, None, None))
        return parts if own == axis else None

    # ---- what rules often write

    def op(self, name: str, *operands: Operand, like: Tensor | None = None, **attributes: object) -> V:
        """An operator of operands of one type."""
        kind = None if like is None else like.dtype
        return self.g.op(name, *(self.value(one, kind) for one in operands), **attributes)

    def shape(self, sizes: Sequence[int]) -> V:
        """The value of a shape."""
        parts = [self.size(size) for size in sizes]
        return (
            self.g.shape(*parts) if any(not isinstance(part, int) for part in parts) else self.g.constant(list(sizes))
        )

    def reshaped(self, x: Tensor, sizes: Sequence[int]) -> V:
        """A value in a shape: free axes stay in their place, or one of them is what is left."""
        parts: list[int] = []
        for place, size in enumerate(sizes):
            same = place < x.dim() and x.shape[place] == size
            free = self.free(size) is not None
            parts.append(0 if same and free else -1 if free and -1 not in parts else size)
        return self.g.op("Reshape", self.value(x), self.shape(parts))

    def expanded(self, x: Operand, like: Tensor) -> V:
        """A value in the shape of another."""
        own = [1] * (like.dim() - x.dim()) + list(x.shape) if isinstance(x, Tensor) else [1] * like.dim()
        sizes = [1 if mine == size else size for mine, size in zip(own, like.shape, strict=True)]
        value = self.value(x, like.dtype)
        return value if set(sizes) <= {1} and isinstance(x, Tensor) else self.g.op("Expand", value, self.shape(sizes))


AnyWriting = OperatorWriting[Value]
"""One that writes by whatever package."""


def _axis(x: Tensor, dim: int, extra: int = 0) -> int:
    return dim % (x.dim() + extra)


def _two(name: str) -> Rule:
    return lambda t, y, a, b, **_: t.op(name, a, b, like=y)


def _turned(name: str) -> Rule:
    return lambda t, y, a, b: t.op(name, b, a, like=y)


def _compared(name: str, opposite: bool = False) -> Rule:
    def rule(t: AnyWriting, y: Tensor, a: Operand, b: Operand) -> Value:
        kind = torch.result_type(a, b)
        value = t.g.op(name, t.value(a, kind), t.value(b, kind))
        return t.g.op("Not", value) if opposite else value

    return rule


def _one(name: str, **attributes: object) -> Rule:
    return lambda t, y, x, *_, **__: t.op(name, x, like=y, **attributes)


def _linear(t: AnyWriting, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Value:
    return t.linear(x, weight, bias)


def _matmul(t: AnyWriting, y: Tensor, a: Tensor, b: Tensor) -> Value:
    return t.op("MatMul", a, b)


def _pooled(
    t: AnyWriting, y: Tensor, x: Tensor, dim: int | Sequence[int], keepdim: bool = False, *, name: str = "ReduceSum"
) -> Value:
    dims = [_axis(x, axis) for axis in ([dim] if isinstance(dim, int) else dim)]
    kind = None if name == "ReduceMax" else y.dtype
    if name == "ReduceSum":
        return t.g.op(name, t.value(x, kind), t.g.constant(dims), keepdims=int(keepdim))
    return t.g.op(name, t.value(x, kind), axes=dims, keepdims=int(keepdim))


def _argmax(t: AnyWriting, y: Tensor, x: Tensor, dim: int) -> Value:
    return t.g.op("ArgMax", t.value(x, torch.float32), axis=_axis(x, dim), keepdims=0)


def _max(t: AnyWriting, y: Sequence[Tensor], x: Tensor, dim: int) -> list[Value]:
    return [_pooled(t, y[0], x, dim, name="ReduceMax"), _argmax(t, y[1], x, dim)]


def _cummax(t: AnyWriting, y: Sequence[Tensor], x: Tensor, dim: int) -> list[Value]:
    """A running maximum of places along the middle axis is a maximum over windows that reach back to the first row."""
    steps = x.shape[dim]
    last = t.g.op("Transpose", t.value(x, torch.float32), perm=[0, 2, 1])
    largest = t.g.op("MaxPool", last, kernel_shape=[steps], pads=[steps - 1, 0])
    value = t.g.op("Cast", t.g.op("Transpose", largest, perm=[0, 2, 1]), to=ONNX_TYPES[x.dtype])
    return [value, value]


def _clamped(t: AnyWriting, y: Tensor, x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Value:
    value = t.value(x, y.dtype)
    value = value if min is None else t.g.op("Max", value, t.value(min, y.dtype))
    return value if max is None else t.g.op("Min", value, t.value(max, y.dtype))


def _where(t: AnyWriting, y: Tensor, mask: Tensor, a: Operand, b: Operand) -> Value:
    return t.g.op("Where", t.value(mask), t.value(a, y.dtype), t.value(b, y.dtype))


def _embedding(t: AnyWriting, y: Tensor, index: Tensor, weight: Tensor, *_: object, **__: object) -> Value:
    return t.op("Gather", weight, index) if t.stands_for(weight) else t.rows(weight, index)


def _expm1(t: AnyWriting, y: Tensor, x: Tensor) -> Value:
    """2 sinh(x / 2) exp(x / 2): exp(x) - 1 would lose the digits of a small x."""
    half = t.g.op("Mul", t.value(x), t.value(0.5, y.dtype))
    return t.g.op("Mul", t.value(2.0, y.dtype), t.g.op("Mul", t.g.op("Sinh", half), t.g.op("Exp", half)))


def _normalised(
    t: AnyWriting, y: Tensor, x: Tensor, _: object, weight: Tensor, bias: Tensor | None, eps: float
) -> Value:
    return t.op("LayerNormalization", *(x, weight, *([] if bias is None else [bias])), axis=-1, epsilon=eps)


def _batch_norm(
    t: AnyWriting,
    y: Tensor,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    **_: object,
) -> Value:
    return t.op("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps)


def _group_norm(t: AnyWriting, y: Tensor, x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Value:
    """The groups as channels, each normalised by itself; then gain and shift of the channels."""
    grouped = t.g.op("Reshape", t.value(x), t.g.constant([0, groups, -1]))
    ones, zeros = (t.g.constant(np.full(groups, value), np.float32) for value in (1, 0))
    alone = t.g.op("InstanceNormalization", grouped, ones, zeros, epsilon=eps)
    same = t.g.op("Reshape", alone, t.g.op("Shape", t.value(x)))
    gain, shift = (t.value(part[:, None, None]) for part in (weight, bias))
    return t.g.op("Add", t.g.op("Mul", same, gain), shift)


def _convolved(
    t: AnyWriting,
    y: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    *_: object,
) -> Value:
    parts = [x, weight] if bias is None else [x, weight, bias]
    return t.op("Conv", *parts, strides=list(stride), pads=[*padding, *padding])


def _padded(t: AnyWriting, y: Tensor, x: Tensor, pad: Sequence[int], *_: object, **__: object) -> Value:
    before, after = [0] * x.dim(), [0] * x.dim()
    for place, (first, last) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        before[-1 - place], after[-1 - place] = first, last
    return t.g.op("Pad", t.value(x), t.g.constant([*before, *after])) if any(pad) else t.value(x)


def _gelu(t: AnyWriting, y: Tensor, x: Tensor, approximate: str = "none") -> Value:
    """x Phi(x) by erf, or as GPT-2 has it: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    g, value = t.g, t.value(x)
    if approximate == "tanh":
        cube = g.op("Mul", g.op("Mul", g.op("Mul", value, value), value), t.value(0.044715))
        inner = g.op("Tanh", g.op("Mul", g.op("Add", value, cube), t.value(math.sqrt(2 / math.pi))))
    else:
        inner = g.op("Erf", g.op("Mul", value, t.value(math.sqrt(0.5))))
    return g.op("Mul", g.op("Mul", value, t.value(0.5)), g.op("Add", inner, t.value(1.0)))


def _silu(t: AnyWriting, y: Tensor, x: Tensor, inplace: bool = False) -> Value:
    return t.g.op("Mul", t.value(x), t.op("Sigmoid", x))


def _attention(
    t: AnyWriting,
    y: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
) -> Value:
    scaled = t.g.op("Mul", t.value(q), t.g.constant(1 / math.sqrt(q.shape[-1]), np.float32))
    scores = t.g.op("MatMul", scaled, t.g.op("Transpose", t.value(k), perm=[0, 1, 3, 2]))
    if is_causal:
        hidden_TT = np.triu(np.full((q.shape[2], k.shape[2]), -np.inf, np.float32), 1)
        scores = t.g.op("Add", scores, t.g.constant(hidden_TT, np.float32))
    if attn_mask is not None:
        scores = t.g.op("Where", t.value(attn_mask), scores, t.g.constant(-np.inf, np.float32))
    return t.g.op("MatMul", t.g.op("Softmax", scores, axis=-1), t.value(v))


def _cast(t: AnyWriting, y: Tensor, x: Tensor, *_: object, **__: object) -> Value | Tensor:
    return t.value(x, y.dtype) if t.stands_for(x) else x.to(y.dtype)


def _reshaped(t: AnyWriting, y: Tensor, x: Tensor, *_: object, **__: object) -> Value:
    return t.reshaped(x, y.shape)


def _expanded(t: AnyWriting, y: Tensor, x: Tensor, *_: object) -> Value:
    return t.expanded(x, y)


def _filled(number: float) -> Rule:
    return lambda t, y, *_, **__: t.expanded(number, y)


def _full(t: AnyWriting, y: Tensor, _: object, value: float, *__: object, **___: object) -> Value:
    return t.expanded(value, y)


def _range(t: AnyWriting, y: Tensor, *ends: int, device: object = None) -> Value:
    begin, end = ends if len(ends) == 2 else (0, ends[0])
    return t.g.op("Range", *(t.value(number, torch.int64) for number in (begin, end, 1)))


def _permuted(t: AnyWriting, y: Tensor, x: Tensor, *dims: int | Sequence[int]) -> Value:
    listed = [axis for part in dims for axis in ([part] if isinstance(part, int) else part)]
    return t.g.op("Transpose", t.value(x), perm=[_axis(x, axis) for axis in listed])


def _transposed(t: AnyWriting, y: Tensor, x: Tensor, first: int, second: int) -> Value:
    order, axes = list(range(x.dim())), sorted((_axis(x, first), _axis(x, second)))
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    for axis in (0, 1):
        parts = t.parts(x, axis)
        if parts is not None and axes == [0, 1]:
            t.stack(y, 1 - axis, parts)
    return t.g.op("Transpose", t.value(x), perm=order)


def _same(t: AnyWriting, y: Tensor, x: Tensor, *_: object, **__: object) -> Value:
    parts = t.parts(x)
    if parts is not None:
        t.stack(y, 0, parts)
    return t.value(x)


def _joined(t: AnyWriting, y: Tensor, parts: Sequence[Tensor], dim: int = 0) -> Value:
    values = [t.value(part, y.dtype) for part in parts if part.shape[dim]]
    return values[0] if len(values) == 1 else t.g.op("Concat", *values, axis=_axis(y, dim))


def _stacked(t: AnyWriting, y: Tensor, parts: Sequence[Tensor], dim: int = 0) -> Value:
    values = [t.value(part, y.dtype) for part in parts]
    t.stack(y, _axis(y, dim), values)
    return t.g.op("Concat", *(t.g.axes(value, _axis(y, dim)) for value in values), axis=_axis(y, dim))


def _cut(t: AnyWriting, y: Sequence[Tensor], x: Tensor, _: object, dim: int = 0) -> list[Value]:
    return t.g.split(t.value(x), [part.shape[dim] for part in y], _axis(x, dim))


def _apart(t: AnyWriting, y: Sequence[Tensor], x: Tensor, dim: int = 0) -> list[Value]:
    return t.parts(x, dim) or [t.g.squeezed(part, dim) for part in t.g.split(t.value(x), [1] * len(y), dim)]


def _taken(t: AnyWriting, y: Tensor, x: Tensor, index: Index | tuple[Index, ...]) -> Value:
    """x[...]: numbers, slices, new axes, and tensors of places in the first axes."""
    g, listed = t.g, list(index) if isinstance(index, tuple) else [index]
    places = [part for part in listed if isinstance(part, Tensor)]
    if ... in listed:
        place, missing = listed.index(...), x.dim() - sum(part is not None for part in listed) + 1
        listed[place : place + 1] = [slice(None)] * missing
    numbers = [] if places else [(axis, part) for axis, part in enumerate(listed) if part != slice(None)]
    if len(numbers) == 1 and isinstance(numbers[0][1], int) and (parts := t.parts(x, numbers[0][0])):
        return parts[numbers[0][1]]
    value, axis, own = t.value(x), 0, len(places)
    if len(places) == 1:
        value, axis = g.op("Gather", value, t.value(places[0])), places[0].dim()
    elif places:
        rows = (g.axes(t.value(place, torch.int64), 1) for place in places)
        value, axis = g.op("GatherND", value, g.op("Concat", *rows, axis=1)), 1
    for part in listed[len(places) :]:
        if part is None:
            value = g.axes(value, axis)
        elif isinstance(part, int):
            value = g.op("Gather", value, g.constant(part), axis=axis)
            axis -= 1
        elif not isinstance(part, slice):
            raise ExportError("tensors of places after other places have no exported form; try index_select")
        elif (part.start or 0, part.stop) not in ((0, None), (0, x.shape[own])):
            value = g.slice(value, axis, t.size(part.start or 0), t.size(2**31 if part.stop is None else part.stop))
        axis, own = axis + 1, own + (part is not None)
    return value


def _gathered(t: AnyWriting, y: Tensor, x: Tensor, dim: int, index: Tensor) -> Value:
    return t.g.op("GatherElements", t.value(x), t.value(index), axis=_axis(x, dim))


def _scattered(t: AnyWriting, y: Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Value:
    return t.op("ScatterElements", x, index, source, axis=_axis(x, dim))


def _unsqueezed(t: AnyWriting, y: Tensor, x: Tensor, dim: int) -> Value:
    return t.g.axes(t.value(x), _axis(x, dim, 1))


def _squeezed(t: AnyWriting, y: Tensor, x: Tensor, dim: int) -> Value:
    return t.g.squeezed(t.value(x), _axis(x, dim))


def _tiled(t: AnyWriting, y: Tensor, x: Tensor, *counts: int) -> Value:
    return t.value(x) if set(counts) == {1} else t.g.op("Tile", t.value(x), t.g.constant(counts))


def _sorted(t: AnyWriting, y: Sequence[Tensor], x: Tensor, dim: int = -1) -> list[Value]:
    return t.g.ops("TopK", [t.value(x), t.g.constant([x.shape[dim]])], 2, axis=dim, largest=0, sorted=1)


def _softmax(name: str) -> Rule:
    return lambda t, y, x, dim=-1, **_: t.op(name, x, like=y, axis=_axis(x, dim))


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "radd"), _two("Add")),
    **dict.fromkeys(("mul", "rmul"), _two("Mul")),
    **dict.fromkeys(("div", "truediv", "true_divide"), _two("Div")),
    "sub": _two("Sub"),
    **dict.fromkeys(("rsub",), _turned("Sub")),
    **dict.fromkeys(("rtruediv", "rdiv"), _turned("Div")),
    **dict.fromkeys(("matmul",), _matmul),
    **dict.fromkeys(("and", "bitwise_and"), _two("And")),
    "lt": _compared("Less"),
    "le": _compared("LessOrEqual"),
    "gt": _compared("Greater"),
    "ge": _compared("GreaterOrEqual"),
    "eq": _compared("Equal"),
    "ne": _compared("Equal", opposite=True),
    **dict.fromkeys(("invert", "bitwise_not", "logical_not"), _one("Not")),
    "neg": _one("Neg"),
    "abs": _one("Abs"),
    "sqrt": _one("Sqrt"),
    "exp": _one("Exp"),
    "expm1": _expm1,
    "square": lambda t, y, x: t.op("Mul", x, x),
    **dict.fromkeys(("tanh", "tanh_"), _one("Tanh")),
    "sigmoid": _one("Sigmoid"),
    "relu": _one("Relu"),
    "leaky_relu": _one("LeakyRelu", alpha=0.01),
    "relu6": lambda t, y, x, **_: _clamped(t, y, x, 0.0, 6.0),
    "softplus": _one("Softplus"),
    "log_sigmoid": lambda t, y, x: t.g.op("Neg", t.g.op("Softplus", t.g.op("Neg", t.value(x)))),
    "gelu": _gelu,
    "silu": _silu,
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "linear": _linear,
    "embedding": _embedding,
    "layer_norm": _normalised,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    **dict.fromkeys(("conv1d", "conv2d"), _convolved),
    "pad": _padded,
    "scaled_dot_product_attention": _attention,
    "sum": _pooled,
    "mean": partial(_pooled, name="ReduceMean"),
    "amax": partial(_pooled, name="ReduceMax"),
    "max": _max,
    "argmax": _argmax,
    "cummax": _cummax,
    "clamp": _clamped,
    "clamp_min": _clamped,
    "clamp_max": lambda t, y, x, most: _clamped(t, y, x, None, most),
    "where": _where,
    "masked_fill": lambda t, y, x, mask, value: _where(t, y, mask, value, x),
    **dict.fromkeys(("to", "float", "type_as"), _cast),
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten", "view_as"), _reshaped),
    **dict.fromkeys(("expand", "expand_as"), _expanded),
    **dict.fromkeys(("zeros_like", "new_zeros", "zeros"), _filled(0.0)),
    **dict.fromkeys(("ones_like", "new_ones", "ones"), _filled(1.0)),
    "full_like": _full,
    "full": _full,
    "new_full": lambda t, y, x, shape, value: t.expanded(value, y),
    "arange": _range,
    "permute": _permuted,
    "transpose": _transposed,
    **dict.fromkeys(("dropout", "contiguous", "detach", "clone"), _same),
    **dict.fromkeys(("cat", "concat"), _joined),
    "stack": _stacked,
    **dict.fromkeys(("chunk", "split"), _cut),
    **dict.fromkeys(("unbind", "iter"), _apart),
    "getitem": _taken,
    "gather": _gathered,
    "scatter": _scattered,
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "repeat": _tiled,
    "sort": _sorted,
}
