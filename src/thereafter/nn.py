"""For torch users: recurrent layers that take the place of torch's own.

    import thereafter.nn as nn
    lstm = nn.LSTM(256, 512, num_layers=2, dropout=0.5)        # as torch.nn.LSTM: arguments, shapes, weight names
    lstm.load_state_dict(torch_lstm.state_dict())
    lstm = nn.LSTM(256, 512, peephole=True, weight_drop=0.5)   # and what torch lacks

Positional arguments, defaults and returned values are those of the torch module of the same name; keyword-only ones are
ours. The options that all layers share are explained in `Recurrent`, those of a cell in `thereafter.cells`. One default
differs in value: a fresh LSTM's forget gate starts with bias 1 (`forget_bias=None` draws it as torch does).

torch.compile (fullgraph=True too), torch.export with free batch and length, and torch's ONNX exporter (see
`onnx_translations`) take every layer and option: the kernels are operators to them (`thereafter::scan`). Under
torch.func (vmap, grad, jvp, hessian) and forward derivatives `kernel="auto"` is the plain loop. docs/torch-tools.md
says what was tried. Derivatives of derivatives (`create_graph=True`) come from the plain loop, automatically, whatever
kernel ran forward. torch.jit.trace works, torch.jit.script is refused with an explanation.
`quantize_dynamic` of torch.ao converts torch's own modules by their type and silently skips these: give it
`to_torch(layer)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import torch

from thereafter.cells.options import ElmanOptions, GRUOptions, LSTMOptions
from thereafter.errors import OptionError
from thereafter.layers.bptt import bptt, saved_for_backward
from thereafter.layers.convert import arguments_of, copy_weights, gate_order, reorder_gates, to_torch
from thereafter.layers.dropout import LockedDropout
from thereafter.layers.inputs import Sizes
from thereafter.layers.recurrent import Bias, Extras, Recurrent, Traced, count_parameters
from thereafter.layers.stream import Stream

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Diagonal",
    "LockedDropout",
    "MinGRU",
    "MinLSTM",
    "Recurrent",
    "Stream",
    "Traced",
    "bptt",
    "count_parameters",
    "from_torch",
    "gate_order",
    "onnx_translations",
    "reorder_gates",
    "saved_for_backward",
    "to_torch",
]


def __dir__() -> list[str]:
    return __all__


class RNN(Recurrent):
    """h_t = f(W x_t + U h_{t-1} + b); f: tanh, relu, leaky_relu, relu6, sigmoid or identity.

    `input_size`: numbers of an input step. `hidden_size`: units, or a list with one entry per layer. `num_layers`:
        number of stacked layers.
    `nonlinearity`: f. `layer_norm`: W x and U h are each normalised, with learned gains (Ba et al. 2016).
    `bias`: True or "two" for torch's pair, "one", False or "none". `batch_first`: inputs and outputs are [B, T, .]
        and not [T, B, .]; states never are. `dropout`: between layers. `bidirectional`: a second cell from the end to
        the beginning in every layer. `device`, `dtype`: of the weights.
    `locked`, `input_dropout`, `output_dropout`, `weight_drop`, `zoneout`, `initial`, `connect`, `kernel`, `check`: what
        all layers have, explained in `Recurrent`.

    >>> output, h_n = RNN(3, 4)(torch.zeros(5, 2, 3))
    >>> output.shape, h_n.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: Sizes,
        num_layers: int = 1,
        nonlinearity: str = ElmanOptions.nonlinearity,
        bias: Bias = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        layer_norm: bool = ElmanOptions.layer_norm,
        **extras: Unpack[Extras],
    ) -> None:
        super().__init__(
            "elman", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype,
            cell_options=vars(ElmanOptions(nonlinearity, layer_norm)),
            **extras,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(Recurrent):
    """Long short-term memory, with peepholes, coupled gates, layer norm and projection as options.

    `input_size`: numbers of an input step. `hidden_size`: units, or a list with one entry per layer. `num_layers`:
        number of stacked layers.
    `proj_size`: h_t = W_hr (o tanh(c_t)), of that size; 0 for none (Sak et al. 2014).
    `peephole`: gates also see the cell, one weight per unit (Gers and Schmidhuber 2000). `coupled`: f = 1 - i, one gate
        less (Greff et al. 2017). `layer_norm`: W x, U h and c are each normalised (Ba et al. 2016).
    `forget_bias`: the bias a fresh forget gate starts with; None draws it as torch does.
    `bias`: True or "two" for torch's pair, "one", False or "none". `batch_first`: inputs and outputs are [B, T, .]
        and not [T, B, .]; states never are. `dropout`: between layers. `bidirectional`: a second cell from the end to
        the beginning in every layer. `device`, `dtype`: of the weights.
    `locked`, `input_dropout`, `output_dropout`, `weight_drop`, `zoneout`, `initial`, `connect`, `kernel`, `check`: what
        all layers have, explained in `Recurrent`.

    >>> output, (h_n, c_n) = LSTM(3, 4, peephole=True)(torch.zeros(5, 2, 3), lengths=[5, 3])
    >>> c_n.shape
    torch.Size([1, 2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: Sizes,
        num_layers: int = 1,
        bias: Bias = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = LSTMOptions.proj_size,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        peephole: bool = LSTMOptions.peephole,
        coupled: bool = LSTMOptions.coupled,
        layer_norm: bool = LSTMOptions.layer_norm,
        forget_bias: float | None = LSTMOptions.forget_bias,
        **extras: Unpack[Extras],
    ) -> None:
        super().__init__(
            "lstm", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype,
            cell_options=vars(LSTMOptions(peephole, coupled, layer_norm, forget_bias, proj_size)),
            **extras,
        )  # fmt: skip
        self.proj_size = proj_size


class GRU(Recurrent):
    """Gated recurrent unit; `reset` before or after the recurrent product, `update` says what z multiplies.

    `input_size`: numbers of an input step. `hidden_size`: units, or a list with one entry per layer. `num_layers`:
        number of stacked layers.
    `reset`: "after" (torch) or "before" the recurrent product (Cho et al. 2014). `update`: z multiplies the "old" state
        (torch) or the "new" one. `update_bias`: how strongly a fresh layer keeps its state, with the sign that `update`
        needs; None draws it as torch does. `layer_norm`: W x and U h are each normalised (Ba et al. 2016).
    `bias`: True or "two" for torch's pair, "one", False or "none". `batch_first`: inputs and outputs are [B, T, .]
        and not [T, B, .]; states never are. `dropout`: between layers. `bidirectional`: a second cell from the end to
        the beginning in every layer. `device`, `dtype`: of the weights.
    `locked`, `input_dropout`, `output_dropout`, `weight_drop`, `zoneout`, `initial`, `connect`, `kernel`, `check`: what
        all layers have, explained in `Recurrent`.

    >>> output, h_n = GRU(3, 4, reset="before", update="new")(torch.zeros(5, 2, 3))
    >>> h_n.shape
    torch.Size([1, 2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: Sizes,
        num_layers: int = 1,
        bias: Bias = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        reset: str = GRUOptions.reset,
        update: str = GRUOptions.update,
        update_bias: float | None = GRUOptions.update_bias,
        layer_norm: bool = GRUOptions.layer_norm,
        **extras: Unpack[Extras],
    ) -> None:
        super().__init__(
            "gru", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype,
            cell_options=vars(GRUOptions(reset, update, layer_norm, update_bias)),
            **extras,
        )  # fmt: skip


class _Linear(Recurrent):
    """What the layers whose state is linear share: GRU's arguments, one bias for each gate."""

    cell_type: str

    def __init__(
        self,
        input_size: int,
        hidden_size: Sizes,
        num_layers: int = 1,
        bias: Bias = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **extras: Unpack[Extras],
    ) -> None:
        super().__init__(
            self.cell_type, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device,
            dtype, **extras,
        )  # fmt: skip


class MinGRU(_Linear):
    """minGRU: the gate sees the input alone, so all steps are computed at once (Feng et al. 2024).

    `input_size`: numbers of an input step. `hidden_size`: units, or a list with one entry per layer. `num_layers`:
        number of stacked layers.
    Nothing recurs but the state: there is no `weight_drop`, and `bias` is one for each gate or none.
    `bias`: True or "two" for torch's pair, "one", False or "none". `batch_first`: inputs and outputs are [B, T, .]
        and not [T, B, .]; states never are. `dropout`: between layers. `bidirectional`: a second cell from the end to
        the beginning in every layer. `device`, `dtype`: of the weights.
    `locked`, `input_dropout`, `output_dropout`, `weight_drop`, `zoneout`, `initial`, `connect`, `kernel`, `check`: what
        all layers have, explained in `Recurrent`.

    >>> MinGRU(3, 4)(torch.zeros(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    cell_type = "mingru"


class MinLSTM(_Linear):
    """minLSTM: input and forget gates see the input alone (Feng et al. 2024).

    `input_size`: numbers of an input step. `hidden_size`: units, or a list with one entry per layer. `num_layers`:
        number of stacked layers.
    Nothing recurs but the state: there is no `weight_drop`, and `bias` is one for each gate or none.
    `bias`: True or "two" for torch's pair, "one", False or "none". `batch_first`: inputs and outputs are [B, T, .]
        and not [T, B, .]; states never are. `dropout`: between layers. `bidirectional`: a second cell from the end to
        the beginning in every layer. `device`, `dtype`: of the weights.
    `locked`, `input_dropout`, `output_dropout`, `weight_drop`, `zoneout`, `initial`, `connect`, `kernel`, `check`: what
        all layers have, explained in `Recurrent`.

    >>> MinLSTM(3, 4)(torch.zeros(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    cell_type = "minlstm"


class Diagonal(_Linear):
    """A learned decay for each unit and nothing else: the simplest state-space layer.

    `input_size`: numbers of an input step. `hidden_size`: units, or a list with one entry per layer. `num_layers`:
        number of stacked layers.
    Nothing recurs but the state: there is no `weight_drop`, and `bias` is one for each gate or none.
    `bias`: True or "two" for torch's pair, "one", False or "none". `batch_first`: inputs and outputs are [B, T, .]
        and not [T, B, .]; states never are. `dropout`: between layers. `bidirectional`: a second cell from the end to
        the beginning in every layer. `device`, `dtype`: of the weights.
    `locked`, `input_dropout`, `output_dropout`, `weight_drop`, `zoneout`, `initial`, `connect`, `kernel`, `check`: what
        all layers have, explained in `Recurrent`.

    >>> Diagonal(3, 4)(torch.zeros(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    cell_type = "diagonal"


def onnx_translations() -> dict[Callable[..., object], Callable[..., object]]:
    """How torch's ONNX exporter writes layers of this module in standard operators, for every cell and option, with
    free batch and length.

    `torch.onnx.export(model, (x,), "model.onnx", dynamo=True, dynamic_shapes=...)` takes this table by itself (tried
    with torch 2.13). If a version of torch says that it has no function for `thereafter.scan`, give it the table:
    `custom_translation_table=thereafter.nn.onnx_translations()`.
    """
    from thereafter.kernels.onnx_table import onnx_table

    return onnx_table()


def from_torch(module: torch.nn.RNNBase, **options: Any) -> RNN | LSTM | GRU:
    """Our layer with the arguments and weights of a torch one; `options` add ours.

    >>> ours = from_torch(torch.nn.GRU(3, 4), zoneout=0.1)
    >>> sorted(ours.state_dict())
    ['bias_hh_l0', 'bias_ih_l0', 'weight_hh_l0', 'weight_ih_l0']
    """
    makers: dict[str, type[RNN] | type[LSTM] | type[GRU]] = {"RNN": RNN, "LSTM": LSTM, "GRU": GRU}
    kind = type(module).__name__
    if kind not in makers:
        raise OptionError(f"got a {kind}; expected a torch.nn.RNN, LSTM or GRU")
    weight = next(module.parameters())
    layer = makers[kind](**arguments_of(module), device=weight.device, dtype=weight.dtype, **options)
    copy_weights(module, layer)
    layer.train(module.training)
    return layer
