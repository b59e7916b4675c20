"""Weights to and from other libraries, by the names of gates, never by their position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from thereafter.layers.recurrent import Recurrent

GATE_ORDERS: dict[tuple[str, str], tuple[str, ...]] = {
    ("lstm", "torch"): ("input", "forget", "cell", "output"),
    ("lstm", "keras"): ("input", "forget", "cell", "output"),
    ("lstm", "onnx"): ("input", "output", "forget", "cell"),
    ("lstm", "tensorflow1"): ("input", "cell", "forget", "output"),
    ("lstm", "dynet"): ("input", "forget", "output", "cell"),
    ("gru", "torch"): ("reset", "update", "new"),
    ("gru", "keras"): ("update", "reset", "new"),
    ("gru", "onnx"): ("update", "reset", "new"),
}
"""The blocks of the weight rows by cell and library. What a gate does may differ too: Keras and ONNX multiply the old
state by z, as torch does; their biases and transposed matrices are the caller's to bring into [rows, columns]."""


def reorder_gates(weight: Tensor, order: Sequence[str], wanted: Sequence[str]) -> Tensor:
    """A weight or bias whose row blocks stand in `order`, with the blocks in the wanted order.

    >>> reorder_gates(torch.tensor([1, 2, 3, 4]), gate_order("lstm", "onnx"), gate_order("lstm", "torch")).tolist()
    [1, 3, 4, 2]
    """
    if sorted(order) != sorted(wanted):
        raise OptionError(
            f"the gates are {', '.join(order)}; expected the same as {', '.join(wanted)} in another order"
        )
    if len(weight) % len(order):
        raise OptionError(f"the weight has {len(weight)} rows; expected a multiple of {len(order)}, one block a gate")
    blocks = dict(zip(order, weight.chunk(len(order)), strict=True))
    return torch.cat([blocks[gate] for gate in wanted])


def gate_order(cell: str, library: str) -> tuple[str, ...]:
    """How a library orders the gates of a cell."""
    if (cell, library) not in GATE_ORDERS:
        raise UnknownNameError("gate order", f"{cell} of {library}", [f"{c} of {lib}" for c, lib in GATE_ORDERS])
    return GATE_ORDERS[cell, library]


def arguments_of(module: nn.RNNBase) -> dict[str, Any]:
    """The constructor's arguments of a torch module, but device and type."""
    names = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"]
    names += {"LSTM": ["proj_size"], "RNN": ["nonlinearity"]}.get(type(module).__name__, [])
    return {name: getattr(module, name) for name in names}


def copy_weights(source: nn.RNNBase, target: Recurrent) -> None:
    """Copy a torch module's weights into ours, by name; weights that only ours has keep their values."""
    weights, own = dict(source.named_parameters()), dict(target.named_parameters())
    missing = sorted(set(weights) - set(own))
    if missing:
        raise OptionError(f"the torch module has {', '.join(missing)}, which the layer has not; try the same options")
    with torch.no_grad():
        for name, weight in weights.items():
            if own[name].shape != weight.shape:
                raise OptionError(f"{name} has the shape {tuple(weight.shape)}; expected {tuple(own[name].shape)}")
            own[name].copy_(weight)


def to_torch(module: Recurrent) -> nn.RNNBase:
    """The torch module that computes the same, with the same weights; an OptionError gives the reason if there is none.

    A single bias becomes `bias_ih` beside a `bias_hh` of zeros; a GRU with update="new" turns the sign of its update
    rows (1 - sigmoid(a) is sigmoid(-a)). Dropout inside the recurrence has no counterpart and must be 0.
    """
    reason = _not_torch(module)
    if reason is not None:
        raise OptionError(f"torch has no such layer: {reason}")
    cell = module.lanes[0].cell
    weight = next(module.parameters())
    common: dict[str, Any] = {
        "input_size": module.input_size,
        "hidden_size": module.hidden_size,
        "num_layers": module.num_layers,
        "bias": cell.bias != "none",
        "batch_first": module.batch_first,
        "dropout": module.dropout,
        "bidirectional": module.bidirectional,
        "device": weight.device,
        "dtype": weight.dtype,
    }
    layer: nn.RNNBase
    if isinstance(cell, LSTM):
        layer = nn.LSTM(**common, proj_size=cell.options.proj_size)
    elif isinstance(cell, GRU):
        layer = nn.GRU(**common)
    elif isinstance(cell, Elman):
        layer = nn.RNN(**common, nonlinearity=cell.options.nonlinearity)
    else:
        raise OptionError(f"torch has no such layer: it does not know the cell {cell.name!r}")
    own = dict(module.named_parameters())
    with torch.no_grad():
        for name, target in layer.named_parameters():
            target.copy_(own[name]) if name in own else target.zero_()
            if isinstance(cell, GRU) and cell.options.update == "new":
                target[cell.rows("update")] *= -1
    layer.train(module.training)
    return layer


def _not_torch(module: Recurrent) -> str | None:
    cell = module.lanes[0].cell
    if type(cell) not in (LSTM, GRU, Elman):  # a subclass may compute something else
        return f"it does not know the cell {cell.name!r}"
    checks: list[tuple[bool, str]] = [
        (cell.layer_norm, "layer norm"),
        (isinstance(cell, LSTM) and cell.options.peephole, "peepholes"),
        (isinstance(cell, LSTM) and cell.options.coupled, "coupled gates"),
        (isinstance(cell, GRU) and cell.options.reset == "before", "reset before the product"),
        (isinstance(cell, Elman) and cell.options.nonlinearity not in ("tanh", "relu"), "this nonlinearity"),
        (module.ragged, "a list of sizes"),
        (module.connect is not None, f"{module.connect} connections"),
        (module.initial == "learned", "a learned initial state"),
        (module.zoneout != (0.0, 0.0), "zoneout"),
    ]
    return next((f"it has no way to express {what}" for wrong, what in checks if wrong), None)
