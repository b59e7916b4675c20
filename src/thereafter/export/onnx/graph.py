"""A graph as it is written: operators by their names, constants where they are needed, subgraphs that see all of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.packages import require
from thereafter.kernels.onnx_rules import GraphWriter

OPSET = 17
IR = 8
"""What onnxruntime reads since 1.12 (June 2022)."""
Shape = Sequence[str | int] | None


def onnx_package() -> ModuleType:
    """The package that writes graphs."""
    return require("onnx", "writing an ONNX file", install="thereafter[export]")


class Graph(GraphWriter[str]):
    """One graph; `sub` begins one inside it, for a branch or a loop, whose constants stand in the outermost one.

    Names of values are unique throughout, as the format asks.
    """

    def __init__(self, name: str, outer: Graph | None = None) -> None:
        self.name, self._outer = name, outer
        self._onnx = onnx_package()
        self._nodes: list[Any] = []
        self._inputs: list[object] = []
        self._outputs: list[Any] = []
        self._root: Graph = self if outer is None else outer._root
        if outer is None:
            self._count = 0
            self._constants: dict[object, str] = {}
            self._kept: list[NDArray[np.generic]] = []
            self._weights: list[Any] = []

    def sub(self, name: str) -> Graph:
        """A graph inside this one."""
        return Graph(name, self)

    def fresh(self, what: str) -> str:
        """A name that no value has yet."""
        self._root._count += 1
        return f"{what}_{self._root._count}"

    def ops(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: object) -> list[str]:
        """The outputs of an operator; an input "" is one that is left out."""
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def constant(self, value: ArrayLike, dtype: type[np.generic] | np.dtype[np.generic] = np.int64) -> str:
        """A small constant; equal ones are one."""
        array = np.asarray(value, dtype=dtype)
        return self._constant((str(array.dtype), array.shape, array.tobytes()), array, "constant")

    def weight(self, array: NDArray[np.generic], name: str = "weight") -> str:
        """An array of the model; one that is asked for twice stands in the file once."""
        return self._constant((*place_of(array), array.dtype), array, name)

    def _constant(self, key: object, array: NDArray[np.generic], what: str) -> str:
        root = self._root
        if key not in root._constants:
            name = root._constants[key] = root.fresh(what)
            root._kept.append(array)  # so that no other array is given its place in memory, by which it is known
            root._weights.append(self._onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
        return root._constants[key]

    def input(self, name: str, dtype: type[np.generic] | np.dtype[np.generic], shape: Shape) -> str:
        """An input, under its own name."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, value: str, name: str, dtype: type[np.generic] | np.dtype[np.generic], shape: Shape) -> None:
        """A value as an output, under its own name."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, dtype, shape))

    def _value(self, name: str, dtype: type[np.generic] | np.dtype[np.generic], shape: Shape) -> object:
        helper = self._onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    def prune(self) -> None:
        """Take away the operators and weights that no output needs."""
        needed = {value.name for value in self._outputs}
        kept = []
        for node in reversed(self._nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed |= _read_by(node)
        self._nodes = kept[::-1]
        self._weights = [weight for weight in self._weights if weight.name in needed]

    def made(self) -> object:
        """The graph as the format has it."""
        weights = self._weights if self._outer is None else []
        return self._onnx.helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, weights)


def _read_by(node: Any) -> set[str]:
    """The values that an operator reads, and those that its graphs read."""
    inner = [read for attribute in node.attribute for part in attribute.g.node for read in _read_by(part)]
    return {*node.input, *inner}


def place_of(array: NDArray[np.generic]) -> tuple[object, ...]:
    """What arrays over the same memory have in common."""
    return array.ctypes.data, array.shape, array.strides
