"""The convolutional LSTM on real maps: against a loop over torch's own convolution, in double precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from refusals import assert_refused
from thereafter.cells.base import HCState
from thereafter.cells.lstm import LSTM, ConvLSTM
from thereafter.errors import OptionError
from thereafter.kernels.jobs import Job
from thereafter.kernels.plain import REFERENCE
from thereafter.kernels.scan import unroll
from thereafter.kernels.vendor import conv_lstm_refuses, run_conv_lstm
from thereafter.layers.recurrent import Recurrent

HEIGHT, WIDTH, INPUTS, UNITS, KERNEL = 3, 4, 2, 3, 3
PLACES = HEIGHT * WIDTH


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def on_maps(kernel: int = KERNEL, **options: Any) -> ConvLSTM:
    sizes: dict[str, Any] = {"height": HEIGHT, "width": WIDTH, "kernel_size": kernel}
    return ConvLSTM(INPUTS * PLACES, UNITS * PLACES, **sizes, **options)


def weights_of(cell: LSTM) -> dict[str, Tensor]:
    return {name: 0.4 * drawn(*shape, seed=7 + n) for n, (name, shape) in enumerate(cell.shapes().items())}


def looped(x_BTCHW: Tensor, weights: dict[str, Tensor], kernel: int) -> tuple[Tensor, Tensor]:
    """h of every step and the last c, as Shi et al. 2015 write it: maps, conv2d, Hadamard products."""
    rows, steps = x_BTCHW.shape[:2]
    w = weights["weight_ih"].view(4 * UNITS, INPUTS, kernel, kernel)
    u = weights["weight_hh"].view(4 * UNITS, UNITS, kernel, kernel)
    p = {
        gate: weights.get(f"peephole_{gate}", torch.zeros(UNITS * PLACES, dtype=torch.float64)).view(
            UNITS, HEIGHT, WIDTH
        )
        for gate in ("input", "forget", "output")
    }
    h = c = torch.zeros(rows, UNITS, HEIGHT, WIDTH, dtype=torch.float64)
    outputs = []
    for t in range(steps):
        total = F.conv2d(x_BTCHW[:, t], w, weights["bias_ih"], padding="same")
        total = total + F.conv2d(h, u, weights["bias_hh"], padding="same")
        i, f, g, o = (total[:, n * UNITS : (n + 1) * UNITS] for n in range(4))
        i, f = torch.sigmoid(i + p["input"] * c), torch.sigmoid(f + p["forget"] * c)
        c = f * c + i * torch.tanh(g)
        h = torch.sigmoid(o + p["output"] * c) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs, 1), c


@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_convolutional_lstm_equals_a_loop_over_conv2d(kernel: int, peephole: bool):
    cell = on_maps(kernel, peephole=peephole)
    weights, x_BTCHW = weights_of(cell), drawn(2, 5, INPUTS, HEIGHT, WIDTH)
    h_BTCHW, c_BCHW = looped(x_BTCHW, weights, kernel)
    done = unroll(cell, x_BTCHW.flatten(2), cell.zero_state(2, x_BTCHW), weights)
    torch.testing.assert_close(done.y_BTO.view_as(h_BTCHW), h_BTCHW, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(done.state.c.view_as(c_BCHW), c_BCHW, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"peephole": True}, {"coupled": True, "layer_norm": True}], ids=str)
def test_gradients_on_maps_equal_finite_differences(options: dict[str, Any]):
    cell = ConvLSTM(2 * 2, 2 * 2, height=2, width=1, kernel_size=3, **options)
    weights = {name: weight.requires_grad_() for name, weight in weights_of(cell).items()}
    state = [drawn(1, 4, seed=n).requires_grad_() for n in (1, 2)]

    def run(x_BTI: Tensor, h: Tensor, c: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        done = unroll(cell, x_BTI, HCState(h, c), dict(zip(weights, given, strict=True)))
        return (done.y_BTO, *done.state)

    assert torch.autograd.gradcheck(run, (drawn(1, 2, 4, seed=3).requires_grad_(), *state, *weights.values()))


@pytest.mark.parametrize("options", [{}, {"peephole": True}, {"coupled": True}, {"layer_norm": True}], ids=str)
def test_on_a_map_of_one_place_it_is_the_lstm(options: dict[str, Any]):
    dense, maps = LSTM(3, 4, **options), ConvLSTM(3, 4, **options)
    assert dense.shapes() == maps.shapes()
    weights, x = weights_of(dense), drawn(2, 6, 3)
    expected = unroll(dense, x, dense.zero_state(2, x), weights, kernel="reference")
    torch.testing.assert_close(unroll(maps, x, maps.zero_state(2, x), weights).y_BTO, expected.y_BTO)


def test_a_shifted_picture_gives_a_shifted_memory_away_from_the_border():
    cell = ConvLSTM(49, 2 * 49, height=7, width=7, kernel_size=3)
    frames = torch.zeros(1, 2, 7, 7, dtype=torch.float64)
    frames[:, :, 3, 2] = 1.0
    weights = weights_of(cell)

    def memory(x_BTHW: Tensor) -> Tensor:
        return unroll(cell, x_BTHW.flatten(2), cell.zero_state(1, x_BTHW), weights).state.c.view(2, 7, 7)

    here, there = memory(frames), memory(frames.roll(1, dims=3))
    torch.testing.assert_close(here[:, 1:6, 1:5], there[:, 1:6, 2:6])


def stack(**options: Any) -> Recurrent:
    torch.manual_seed(5)
    sizes = {"height": HEIGHT, "width": WIDTH, "kernel_size": KERNEL, "peephole": True}
    return Recurrent(
        "conv_lstm",
        INPUTS * PLACES,
        UNITS * PLACES,
        2,
        batch_first=True,
        cell_options=sizes,
        dtype=torch.float64,
        **options,
    )


def test_frame_by_frame_equals_the_whole_clip():
    layers, x = stack(connect="residual"), drawn(2, 5, INPUTS * PLACES)
    whole, state = layers(x)
    stream = layers.stream(batch=2)
    for t in range(5):
        torch.testing.assert_close(stream.step(x[:, t]), whole[:, t])
    torch.testing.assert_close(stream.state, tuple(part.detach() for part in state))


def test_clips_of_several_lengths_are_read_to_their_own_ends():
    layers, x = stack(bidirectional=True), drawn(3, 5, INPUTS * PLACES)
    together, (h, _) = layers(x, lengths=[5, 2, 3])
    assert together.shape == (3, 5, 2 * UNITS * PLACES)
    for row, length in enumerate((5, 2, 3)):
        alone, (last, _) = layers(x[row : row + 1, :length])
        torch.testing.assert_close(together[row, :length], alone[0])
        torch.testing.assert_close(h[:, row], last[:, 0])
        assert not together[row, length:].any()


def test_a_trace_shows_every_gate_at_every_place():
    layers, x = stack(), drawn(2, 4, INPUTS * PLACES)
    traced, (plain, _) = layers.trace(x), layers(x)
    torch.testing.assert_close(traced.output, plain)
    shown = traced.records["l0"]
    assert set(shown) == {"input", "forget", "cell", "output", "c", "h"}
    maps = {name: array.view(2, 4, UNITS, HEIGHT, WIDTH) for name, array in shown.items()}
    torch.testing.assert_close(maps["h"], maps["output"] * torch.tanh(maps["c"]))
    torch.testing.assert_close(
        maps["c"][:, 1:], maps["forget"][:, 1:] * maps["c"][:, :-1] + maps["input"][:, 1:] * maps["cell"][:, 1:]
    )


def test_fresh_weights_are_drawn_for_the_size_of_the_kernel():
    cell = ConvLSTM(16 * 64, 8 * 64, height=8, width=8, kernel_size=5)
    weights = {name: torch.empty(shape) for name, shape in cell.shapes().items()}
    cell.initialise(weights)
    bound = (8 * 25) ** -0.5
    assert 0.99 * bound < float(weights["weight_hh"].abs().max()) <= bound
    assert weights["bias_ih"][cell.rows("forget")].tolist() == [1.0] * 8
    assert float(weights["bias_ih"][cell.rows("output")].abs().max()) <= bound


def torchs_gates(z_BG: Tensor, r_BG: Tensor, c_BO: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What torch computes in one kernel on a GPU (aten/src/ATen/native/cuda/RNN.cu)."""
    assert z_BG.is_contiguous()
    assert r_BG.is_contiguous()
    i, f, g, o = (z_BG + r_BG).chunk(4, 1)
    c_BO = torch.sigmoid(f) * c_BO + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c_BO), c_BO, z_BG


def test_the_loop_of_the_gpu_equals_the_plain_one(monkeypatch: pytest.MonkeyPatch):
    """Its kernel for the gates is on a GPU alone: a stand-in takes its place. `parity.py cuda` runs the true one."""
    monkeypatch.setattr(torch.ops.aten, "_thnn_fused_lstm_cell", torchs_gates)
    cell = on_maps()
    weights, x = weights_of(cell), drawn(2, 5, INPUTS * PLACES)
    job = Job(cell, x, cell.zero_state(2, x), weights)
    fast, plain = run_conv_lstm(cell, job), REFERENCE.run(job)
    torch.testing.assert_close(fast.y_BTO, plain.y_BTO, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(tuple(fast.state), tuple(plain.state), rtol=1e-12, atol=1e-12)
    assert conv_lstm_refuses(cell, job) == "torch has the gates of an LSTM in one kernel on a GPU alone"


@pytest.mark.usefixtures("bfloat16")
def test_a_convolutional_lstm_keeps_its_memory_in_float32_under_autocast():
    layers, x = stack().float(), drawn(2, 3, INPUTS * PLACES).float()
    with torch.autocast("cpu", torch.bfloat16):
        y, (_, c) = layers(x)
    assert c.dtype == torch.float32
    torch.testing.assert_close(y.float(), layers(x)[0], rtol=0.05, atol=0.02)
    y.float().sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in layers.parameters() if weight.grad is not None)


def test_sizes_that_are_no_maps_are_named():
    with assert_refused(OptionError, "hidden_size", 10, "3 x 4", 12):
        ConvLSTM(24, 10, height=3, width=4)
    with assert_refused(OptionError, "kernel_size", 4):
        ConvLSTM(12, 12, height=3, width=4, kernel_size=4)
    with assert_refused(OptionError, "height", 0, 1):
        ConvLSTM(12, 12, height=0)
    with pytest.raises(OptionError, match="projects nothing"):
        ConvLSTM(12, 12, proj_size=2)
