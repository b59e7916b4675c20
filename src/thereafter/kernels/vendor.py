"""torch's own recurrent operators (cuDNN on a GPU, oneDNN or ATen on a CPU), where their semantics are the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from thereafter.cells.base import Cell, HCState
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM, ConvLSTM
from thereafter.kernels.jobs import Job, SameBits, Unrolled, torch_products
from thereafter.kernels.second import twice_differentiable
from thereafter.kernels.switches import backends, is_unread, keeping_switch, uses_onednn


class Vendor:
    """torch.lstm, torch.gru, torch.rnn_tanh and torch.rnn_relu behind the common door."""

    name = "vendor"

    def refuses(self, job: Job) -> str | None:
        if job.record:
            return "the vendor's cells do not show their gates"
        if job.hold or job.reset_BT is not None:
            return "the vendor's cells have neither zoneout nor state reset"
        if not job.x_BTI.shape[1]:
            return "the vendor's cells refuse sequences of no steps"
        if job.lengths_B is not None and is_unread(job.lengths_B):
            return "the vendor's cells take lengths from the host, and these are on the device for a graph to read"
        if job.lengths_B is not None and int(job.lengths_B.min()) < 1:
            return "the vendor's cells refuse rows of no steps"
        if type(job.cell) is ConvLSTM:
            return conv_lstm_refuses(job.cell, job)
        return differs(job.cell) or _lacks(job)

    def status(self) -> str:
        cells = "plain lstm, gru (reset after, update old), elman (tanh, relu)"
        if torch.cuda.is_available():
            version, device = backends().cudnn.version(), torch.cuda.get_device_name()
            return f"runs here: cuDNN {version} through torch on {device}, for {cells}"
        onednn = backends().mkldnn.is_available()
        with torch.autocast("cpu", torch.bfloat16):
            lacks = _failure(LSTM, (("bias", "two"),), torch.float32, torch.bfloat16, uses_onednn())
        low = "" if lacks is None else "; no lstm in bfloat16 on this processor (tried)"
        return f"runs here: {'oneDNN' if onednn else 'ATen'} through torch, for {cells}{low}"

    def deterministic(self, job: Job) -> SameBits:
        return torch_products(job)

    def run(self, job: Job) -> Unrolled:
        if type(job.cell) is ConvLSTM:
            return run_conv_lstm(job.cell, job)
        made = self._run_steps(job)
        # torch differentiates a single step twice by itself; cuDNN and oneDNN have first derivatives only
        return made if _is_one_step(job) else twice_differentiable(job, made)

    def _run_steps(self, job: Job) -> Unrolled:
        on_gpu = job.x_BTI.device.type == "cuda"
        if not on_gpu and job.cell.output_size == job.cell.hidden_size:
            return _run(job)
        with warnings.catch_warnings():
            # Weights that were dropped, widened or cast lie apart, and cuDNN copies them together: as it should.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
            # oneDNN has no projections, so torch runs its own loop, and says so: as it should.
            warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")
            wide = widen(job) if on_gpu else job
            return _run(job) if wide is job else narrow(_run(wide), job)


def _run(job: Job) -> Unrolled:
    cell = job.cell
    flat = _flat_weights(job)
    if _is_one_step(job):
        h_BU, c_BU = torch.lstm_cell(job.x_BTI[:, 0], tuple(job.state), *flat)
        return Unrolled(h_BU.unsqueeze(1), HCState(h_BU, c_BU))
    parts = tuple(part.unsqueeze(0).contiguous() for part in _within_half(job))
    operator: Callable[..., Any] = getattr(torch, _mode(cell).lower())  # torch.lstm, gru, rnn_tanh, rnn_relu
    has_bias = cell.bias != "none"
    # Without dropout, training mode changes nothing but that cuDNN keeps what gradients need.
    train = torch.is_grad_enabled()
    if job.lengths_B is None:
        y_BTO, *last = operator(job.x_BTI, _one_or_all(parts), flat, has_bias, 1, 0.0, train, False, True)
    else:
        packed = pack_padded_sequence(job.x_BTI, job.lengths_B.cpu(), batch_first=True, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        initial = _one_or_all(_pick_rows(parts, order))
        data, *last = operator(packed.data, packed.batch_sizes, initial, flat, has_bias, 1, 0.0, train, False)
        y_BTO, _ = pad_packed_sequence(
            PackedSequence(data, packed.batch_sizes, order, back), batch_first=True, total_length=job.x_BTI.shape[1]
        )
        last = list(_pick_rows(tuple(last), back))
    return Unrolled(y_BTO, cell.state_type(*(part.squeeze(0) for part in last)))


def _is_one_step(job: Job) -> bool:
    """Whether torch's operator of a single step computes the same: two products and one kernel for all gates, where
    cuDNN first copies the weights together. A layer whose input depends on its own output is called step by step."""
    one = job.x_BTI.device.type == "cuda" and job.x_BTI.shape[1] == 1 and job.lengths_B is None
    return one and type(job.cell) is LSTM and "weight_hr" not in job.weights and not torch.is_autocast_enabled("cuda")


_MOST_HALF = 2.0**15


def _within_half(job: Job) -> tuple[Tensor, ...]:
    """The state, and in mixed precision a cell state that float16 can hold and go on with.

    An LSTM that reads a long text without starting afresh may count in c, one a step. Beyond 65,504 float16 has
    infinity: tanh(c) is 1 as before and so the loss looks well, but the forget gate's gradient, dc times c, is 0 times
    infinity. tanh has been 1 to the last digit since c = 10, so half of the largest number is as good as any.
    """
    halved = job.x_BTI.device.type == "cuda" and torch.is_autocast_enabled("cuda")
    if not halved or not isinstance(job.state, HCState):
        return tuple(job.state)
    return job.state[0], job.state[1].clamp(-_MOST_HALF, _MOST_HALF)


def _pick_rows(states: tuple[Tensor, ...], order: Tensor | None) -> tuple[Tensor, ...]:
    """The rows of states [1, B, size] in another order, if one is given."""
    return states if order is None else tuple(part.index_select(1, order) for part in states)


def _one_or_all(states: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    """The state as torch's operators take it: h, or (h, c)."""
    return states[0] if len(states) == 1 else states


_ELMAN_MODES = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}


def differs(cell: Cell) -> str | None:
    """What the vendor's cell of that name does otherwise, or that there is none; None where both compute the same.

    By the exact type: a cell that was made from one of these may compute something else.
    """
    if type(cell) not in (LSTM, GRU, Elman):
        return f"the vendor has no cell {cell.name!r}"
    if cell.layer_norm:
        return "the vendor's cells have no layer norm"
    if type(cell) is LSTM and cell.options.peephole:
        return "the vendor's LSTM has no peepholes"
    if type(cell) is LSTM and cell.options.coupled:
        return "the vendor's LSTM does not couple its gates"
    if type(cell) is GRU and cell.options.reset == "before":
        return "the vendor's GRU resets after the recurrent product"
    if type(cell) is GRU and cell.options.update == "new":
        return "in the vendor's GRU z multiplies the old state"
    if type(cell) is Elman and cell.options.nonlinearity not in _ELMAN_MODES:
        return f"the vendor's RNN knows tanh and relu, not {cell.options.nonlinearity}"
    return None


def _mode(cell: Cell) -> str:
    return _ELMAN_MODES[cell.options.nonlinearity] if type(cell) is Elman else cell.name.upper()


def cudnn_mode(cell: Cell) -> str | None:
    """cuDNN's name of a cell it has."""
    return None if differs(cell) else _mode(cell)


def _lacks(job: Job) -> str | None:
    """What torch's cell of that name cannot do on this processor: lower precision, where oneDNN has none of it."""
    if job.x_BTI.device.type != "cpu":
        return None
    low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else job.x_BTI.dtype
    if low in (torch.float32, torch.float64):
        return None
    cell = job.cell
    options: tuple[tuple[str, Any], ...] = (("bias", cell.bias),)
    if cell.output_size != cell.hidden_size:
        options += (("proj_size", _SMALL // 2),)
    return _failure(type(cell), options, job.x_BTI.dtype, low, uses_onednn())


_SMALL = 8


@cache
def _failure(
    kind: type[Any], options: tuple[tuple[str, Any], ...], dtype: torch.dtype, low: torch.dtype, onednn: bool
) -> str | None:
    """Why small jobs of that kind fail here; None where they run. Tried once a process, forward and backward, rows
    whole and not: one kernel should make them all, since types of outputs differ from kernel to kernel."""
    cell = kind(_SMALL, _SMALL, **dict(options))
    with torch.inference_mode(False), torch.enable_grad(), keeping_switch(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x_BTI = torch.ones(2, 2, _SMALL, dtype=dtype, requires_grad=True)
        weights = {name: torch.ones(shape, dtype=dtype, requires_grad=True) for name, shape in cell.shapes().items()}
        try:
            for lengths_B in (None, torch.tensor([2, 1])):
                job = Job(cell, x_BTI, cell.zero_state(2, x_BTI), weights, lengths_B)
                torch.autograd.grad(VENDOR.run(job).y_BTO.float().sum(), (x_BTI, *weights.values()))
        except RuntimeError as error:
            name, reason = str(low).removeprefix("torch."), str(error).partition(".")[0]
            return f"torch's {cell.name} does not run in {name} on this processor ({reason})"
    return None


def _flat_weights(job: Job) -> list[Tensor]:
    """The weights in the order the operators take them; a cell with one bias gets a second one of zeros.

    cuDNN's operators take no weights with gaps or other strides: such are copied.
    """
    weights = job.weights
    flat = [weights["weight_ih"], weights["weight_hh"]]
    if job.cell.bias != "none":
        first = weights["bias_ih"]
        flat += [first, weights["bias_hh"] if "bias_hh" in weights else torch.zeros_like(first)]
    if "weight_hr" in weights:
        flat.append(weights["weight_hr"])
    return [weight.contiguous() for weight in flat]


VENDOR = Vendor()


# The convolutional LSTM on a GPU: torch's convolution a step, and between two of them torch's one kernel for gates.
#
#     z = W * x of all steps at once;   r_t = U * h_{t-1};   h_t, c_t = gates(z_t + r_t, c_{t-1})
#
# The plain loop launches many short kernels a step, forward and backward, where this launches fewer. Gates are
# computed and the memory is kept in the state's type, float32 under autocast, in which only convolutions are halved.
#
# Shapes: B rows, T steps, G gate rows, O numbers of a map.


def conv_lstm_refuses(cell: ConvLSTM, job: Job) -> str | None:
    """Why torch's kernel for the gates of an LSTM cannot run a job."""
    if job.x_BTI.device.type != "cuda":
        return "torch has the gates of an LSTM in one kernel on a GPU alone"
    if cell.options.peephole or cell.options.coupled or cell.layer_norm:
        return "torch's gates of an LSTM have no peepholes, no coupling and no layer norm"
    if not job.plain or not job.x_BTI.numel():
        return "lengths, resets and records of a convolutional LSTM run in the reference loop"
    return None


def run_conv_lstm(cell: ConvLSTM, job: Job) -> Unrolled:
    """All steps of a job that is not refused."""
    z_BTG = cell.project(job.x_BTI, job.weights)
    h_BO, c_BO = job.state
    outputs = []
    for t in range(job.x_BTI.shape[1]):
        h_BO, c_BO = gates(z_BTG[:, t], cell.recur(h_BO, job.weights), c_BO)
        outputs.append(h_BO)
    return Unrolled(torch.stack(outputs, dim=1), HCState(h_BO, c_BO))


def gates(z_BG: Tensor, r_BG: Tensor, c_BO: Tensor) -> tuple[Tensor, Tensor]:
    """h and c after a step, in the type of c."""
    with torch.autocast(c_BO.device.type, enabled=False):
        given = (z_BG.to(c_BO.dtype).contiguous(), r_BG.to(c_BO.dtype).contiguous(), c_BO.contiguous())
        made: tuple[Tensor, Tensor, Tensor] = torch.ops.aten._thnn_fused_lstm_cell(*given)
    return made[0], made[1]


# Cells of awkward sizes made a little wider: the same numbers, by kernels that need their rows aligned.
#
# On a GPU a matrix product whose rows do not begin at multiples of 16 bytes runs at half the speed or less, and a
# recurrent layer is a chain of such products. Units whose weights and biases are 0 stay 0 in every cell (a gate of
# sigma(0) keeps half of nothing), so they change no other number and receive no gradient that is kept.
#
# Shapes: I inputs, H hidden units, G H rows of the weights for G gates.


ALIGNED = 8
"""Numbers of 16 bits in 16 bytes; numbers of 32 bits are aligned twice over."""


def widen(job: Job, multiple: int = ALIGNED) -> Job:
    """The job with inputs and hidden units filled up with zeros to a multiple; the job itself where they are one."""
    inputs, hidden = job.cell.input_size, job.cell.hidden_size
    more_inputs, more = -inputs % multiple, -hidden % multiple
    if not (more_inputs or more) or "weight_hr" in job.weights:
        return job

    def rows(weight: Tensor, more_columns: int) -> Tensor:
        gates = len(weight) // hidden
        split = weight.view(gates, hidden, -1)
        return F.pad(split, (0, more_columns, 0, more)).flatten(0, 1)

    weights = {
        name: rows(weight, {"weight_ih": more_inputs, "weight_hh": more}[name])
        if weight.dim() == 2
        else rows(weight, 0).squeeze(1)
        for name, weight in job.weights.items()
    }
    state = type(job.state)(*(F.pad(part, (0, more)) for part in job.state))
    return replace(job, x_BTI=F.pad(job.x_BTI, (0, more_inputs)), state=state, weights=weights)


def narrow(result: Unrolled, job: Job) -> Unrolled:
    """What the wide job gave, without the units that `job` has not."""
    hidden = job.cell.hidden_size
    state = type(job.state)(*(part[..., :hidden] for part in result.state))
    return replace(result, y_BTO=result.y_BTO[..., :hidden], state=state)
