"""Products with weights: y = x W^T + b, the weights in float32, or in int8 with one scale a row.

    W ~ s q,   s_r = max |W_r| / 127,   q in -127 .. 127

Products are taken in int8 too in a step (`products`), where weights are read from memory once for each token and that
is what a step costs: x becomes uint8 (DynamicQuantizeLinear), x q^T is a whole number (MatMulInteger). In a sequence
they are turned into float32 first.

Shapes: N places, I inputs, O outputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.export.onnx.graph import Graph
from thereafter.export.parts import Array

FEWEST = 1024
"""Arrays of fewer numbers stay in float32: gains, biases, peepholes."""


def quantised(weight_OI: Array) -> tuple[NDArray[np.int8], Array]:
    """q [O, I] and s [O].

    >>> quantised(np.array([[0.5, -1.0]], dtype=np.float32))[0].tolist()
    [[64, -127]]
    """
    scale_O = np.maximum(np.abs(weight_OI).max(axis=1), np.finfo(np.float32).tiny) / np.float32(127)
    q_OI = np.clip(np.rint(weight_OI / scale_O[:, None]), -127, 127).astype(np.int8)
    return q_OI, scale_O.astype(np.float32)


class GraphWeights:
    """The weights of a graph in one precision.

    `int8`: weights are stored as int8. `products`: and multiplied as such.
    """

    def __init__(self, graph: Graph, *, int8: bool = False, products: bool = False) -> None:
        self.graph, self.int8, self.products = graph, int8, products
        self._stored: dict[int, tuple[Array, NDArray[np.int8], Array]] = {}

    def inside(self, graph: Graph) -> GraphWeights:
        """The same weights for a graph inside this one."""
        other = GraphWeights(graph, int8=self.int8, products=self.products)
        other._stored = self._stored
        return other

    def rows(self, matrix_RI: Array, index: str) -> str:
        """Rows of a matrix, in float32."""
        g = self.graph
        if not self._small(matrix_RI):
            q_RI, scale_R = self._quantised(matrix_RI)
            rows = g.op("Cast", g.op("Gather", g.weight(q_RI, "rows"), index), to=1)
            return g.op("Mul", rows, g.axes(g.op("Gather", g.weight(scale_R, "scale"), index), -1))
        return g.op("Gather", g.weight(matrix_RI, "rows"), index)

    def matrix(self, weight_OI: Array) -> str:
        """A matrix in float32, for operators that take nothing else."""
        g = self.graph
        if self._small(weight_OI):
            return g.weight(weight_OI)
        q_OI, scale_O = self._quantised(weight_OI)
        return g.op("DequantizeLinear", g.weight(q_OI), g.weight(scale_O, "scale"), axis=0)

    def linear(self, x_NI: str, weight_OI: Array, bias_O: Array | None = None, rows: int | None = None) -> str:
        """y_NO, of any number of axes before the last; `rows`: by so many of the weight's first rows alone."""
        g = self.graph
        if self.products and not self._small(weight_OI):
            y = self._whole_product(x_NI, weight_OI, rows)
        else:
            matrix = self.matrix(weight_OI)
            if rows is not None and rows < len(weight_OI):
                matrix = g.slice(matrix, 0, 0, rows)
            y = g.op("MatMul", x_NI, g.op("Transpose", matrix, perm=[1, 0]))
        return y if bias_O is None else g.op("Add", y, g.weight(bias_O, "bias"))

    def _whole_product(self, x_NI: str, weight_OI: Array, rows: int | None) -> str:
        g = self.graph
        q_OI, scale_O = self._quantised(weight_OI)
        q, scale = g.weight(q_OI), g.weight(scale_O, "scale")
        if rows is not None and rows < len(weight_OI):
            q, scale = g.slice(q, 0, 0, rows), g.slice(scale, 0, 0, rows)
        small, step, zero = g.ops("DynamicQuantizeLinear", [x_NI], 3)
        whole = g.op("MatMulInteger", small, g.op("Transpose", q, perm=[1, 0]), zero)
        return g.op("Mul", g.op("Cast", whole, to=1), g.op("Mul", step, scale))

    def _small(self, weight: Array) -> bool:
        return not self.int8 or weight.ndim != 2 or weight.size < FEWEST

    def _quantised(self, weight: Array) -> tuple[NDArray[np.int8], Array]:
        if id(weight) not in self._stored:
            self._stored[id(weight)] = (weight, *quantised(weight))
        return self._stored[id(weight)][1:]
