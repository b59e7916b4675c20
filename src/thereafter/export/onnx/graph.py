"""A graph as it is written: operators by their names, constants where they are needed, subgraphs that see all of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.packages import require

OPSET = 17
IR = 8
"""What onnxruntime reads since 1.12 (June 2022)."""
Shape = Sequence[str | int] | None


def onnx_package() -> ModuleType:
    """The package that writes graphs."""
    return require("onnx", "writing an ONNX file", install="thereafter[export]")


class Graph:
    """One graph; `sub` begins one inside it, for a branch or a loop, whose constants stand in the outermost one.

    Names of values are unique throughout, as the format asks.
    """

    def __init__(self, name: str, outer: Graph | None = None) -> None:
        self.name, self._outer = name, outer
        self._onnx = onnx_package()
        self._nodes: list[object] = []
        self._inputs: list[object] = []
        self._outputs: list[object] = []
        self._root: Graph = self if outer is None else outer._root
        if outer is None:
            self._count = 0
            self._constants: dict[object, str] = {}
            self._kept: list[NDArray[np.generic]] = []
            self._weights: list[object] = []

    def sub(self, name: str) -> Graph:
        """A graph inside this one."""
        return Graph(name, self)

    def fresh(self, what: str) -> str:
        """A name that no value has yet."""
        self._root._count += 1
        return f"{what}_{self._root._count}"

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        """The only output of an operator, or its first."""
        return self.ops(kind, inputs, 1, **attributes)[0]

    def ops(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: object) -> list[str]:
        """The outputs of an operator; an input "" is one that is left out."""
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def constant(self, value: ArrayLike, dtype: type[np.generic] = np.int64) -> str:
        """A small constant; equal ones are one."""
        array = np.asarray(value, dtype=dtype)
        return self._constant((str(array.dtype), array.shape, array.tobytes()), array, "constant")

    def weight(self, array: NDArray[np.generic], name: str = "weight") -> str:
        """An array of the model; one that is asked for twice stands in the file once."""
        return self._constant((id(array), array.dtype), array, name)

    def _constant(self, key: object, array: NDArray[np.generic], what: str) -> str:
        root = self._root
        if key not in root._constants:
            name = root._constants[key] = root.fresh(what)
            root._kept.append(array)  # so that no other array is given its place in memory, by which it is known
            root._weights.append(self._onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
        return root._constants[key]

    def input(self, name: str, dtype: type[np.generic], shape: Shape) -> str:
        """An input, under its own name."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, value: str, name: str, dtype: type[np.generic], shape: Shape) -> None:
        """A value as an output, under its own name."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, dtype, shape))

    def _value(self, name: str, dtype: type[np.generic], shape: Shape) -> object:
        helper = self._onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    def made(self) -> object:
        """The graph as the format has it."""
        weights = self._weights if self._outer is None else []
        return self._onnx.helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, weights)

    # ---- what is written often

    def axes(self, value: str, *axes: int) -> str:
        """A value with axes of size 1 at these places."""
        return self.op("Unsqueeze", value, self.constant(axes))

    def squeezed(self, value: str, *axes: int) -> str:
        """A value without these axes of size 1; of [1] a number, where none are named."""
        return self.op("Squeeze", value, *([self.constant(axes)] if axes else []))

    def slice(self, value: str, axis: int, begin: int | str, end: int | str) -> str:
        """begin to end of an axis; each a number or a value [1]."""
        ends = [self.constant([one]) if isinstance(one, int) else one for one in (begin, end)]
        return self.op("Slice", value, *ends, self.constant([axis]))

    def split(self, value: str, sizes: Sequence[int], axis: int = -1) -> list[str]:
        """The parts of an axis."""
        if len(sizes) == 1:
            return [value]
        return self.ops("Split", [value, self.constant(sizes)], len(sizes), axis=axis)

    def size(self, value: str, axis: int) -> str:
        """The size of an axis, [1]."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def shape(self, *parts: str | int) -> str:
        """A shape from numbers and values [1]."""
        listed = [self.constant([part]) if isinstance(part, int) else part for part in parts]
        return self.op("Concat", *listed, axis=0)

    def one_minus(self, value: str) -> str:
        return self.op("Sub", self.constant(1.0, np.float32), value)
