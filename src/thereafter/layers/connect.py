"""Ways round a layer, for stacks too deep to train without.

Shapes: B rows, T steps, F features: a layer's input and output must be of one size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.layers.lanes import Lane

CONNECTIONS = (None, "residual", "highway")
CARRY_BIAS = -1.0
"""Initial bias of the highway gate: a fresh stack mostly carries (Srivastava et al. 2015 use -1 to -3)."""


def connection_shapes(connect: str | None, layers: Sequence[tuple[Lane, ...]]) -> dict[str, tuple[int, ...]]:
    """The weights the connections need, by name. The first layer has none: its input is not a layer's output."""
    if connect not in CONNECTIONS:
        raise OptionError(f"connect is {connect!r}; expected None, 'residual' or 'highway'")
    shapes: dict[str, tuple[int, ...]] = {}
    if connect is None:
        return shapes
    for index, lanes in enumerate(layers[1:], start=1):
        before, after = lanes[0].cell.input_size, sum(lane.cell.output_size for lane in lanes)
        if before != after:
            raise OptionError(
                f"connect={connect!r} adds a layer's input to its output, but layer {index} reads {before} features "
                f"and gives {after}; try the same hidden_size for all layers"
            )
        if connect == "highway":
            shapes |= {f"highway_weight_l{index}": (after, after), f"highway_bias_l{index}": (after,)}
    return shapes


def join(connect: str | None, x_BTF: Tensor, y_BTF: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """residual: y + x (He et al. 2016). highway: t y + (1 - t) x, t = sigmoid(W x + b) (Srivastava et al. 2015)."""
    if connect == "residual":
        return y_BTF + x_BTF
    if connect == "highway" and weight is not None:
        gate_BTF = torch.sigmoid(F.linear(x_BTF, weight, bias))
        # under autocast the three may have different types
        return torch.lerp(x_BTF.to(y_BTF.dtype), y_BTF, gate_BTF.to(y_BTF.dtype))
    return y_BTF
