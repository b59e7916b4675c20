"""The network that predicts frames: against its equations written out, frame by frame, and that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.vision.clips.next_frames import FrameBatch, FramePredictor, FramePredictorSettings, equal_units

EVERY = [{"model": model, "feedback": feedback} for model in ("conv-lstm", "lstm") for feedback in (False, True)]
every = pytest.mark.parametrize("options", EVERY, ids=str)


def predictor(**options: Any) -> FramePredictor:
    torch.manual_seed(4)
    settings = FramePredictorSettings(**({"hidden": 3, "layers": 2, "kernel": 3, "patch": 2} | options))
    return FramePredictor(settings, height=7, width=8, ahead=3)


def frames(rows: int = 2, read: int = 4, ahead: int = 3, seed: int = 0) -> FrameBatch:
    draw = torch.Generator().manual_seed(seed)
    both = torch.randint(0, 256, (rows, read + ahead, 7, 8), generator=draw, dtype=torch.uint8)
    return FrameBatch(both[:, :read], both[:, read:])


def by_conv2d(net: FramePredictor, read_BTHW: Tensor, ahead: int, feedback: bool) -> Tensor:
    """The equations of the module over torch's own convolutions, maps all the way."""
    rows = len(read_BTHW)
    x_BTHW = F.pad(read_BTHW.double() / 255, (0, 0, 0, 1))  # 7 rows to 8
    states = [[torch.zeros(rows, 3, 4, 4, dtype=torch.float64) for _ in range(2)] for _ in range(2)]

    def step(part: str, frame_BHW: Tensor) -> Tensor:
        given = F.pixel_unshuffle(frame_BHW[:, None], 2)
        for layer, state in enumerate(states):
            w, u, b = (net.get_parameter(f"{part}.{n}_l{layer}") for n in ("weight_ih", "weight_hh", "bias_ih"))
            total = F.conv2d(given, w.view(12, -1, 3, 3), b, padding=1)
            total = total + F.conv2d(state[0], u.view(12, 3, 3, 3), padding=1)
            i, f, g, o = total.chunk(4, 1)
            state[1] = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
            state[0] = torch.sigmoid(o) * torch.tanh(state[1])
            given = state[0] + given if layer else state[0]
        z = F.conv2d(given, net.get_parameter("head.weight"), net.get_parameter("head.bias"))
        return F.pixel_shuffle(z, 2)[:, 0]

    for t in range(x_BTHW.shape[1]):
        step("encoder", x_BTHW[:, t])
    made, before = [], x_BTHW[:, -1]
    for _ in range(ahead):
        z_BHW = step("forecaster", before)
        made.append(z_BHW[:, :7])
        if feedback:
            before = F.pad(torch.sigmoid(z_BHW[:, :7]), (0, 0, 0, 1))
    return torch.stack(made, 1)


@pytest.mark.parametrize("feedback", [False, True])
def test_predicted_frames_equal_a_loop_over_conv2d(feedback: bool):
    net, batch = predictor(feedback=feedback).double(), frames()
    expected = by_conv2d(net, batch.read_BTHW, 3, feedback)
    torch.testing.assert_close(net.logits(batch), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(net.predict_frames(batch), expected.sigmoid().float().detach(), rtol=1e-5, atol=1e-6)


@every
def test_the_loss_of_frames_is_their_bernoulli_cross_entropy(options: dict[str, Any]):
    net, batch = predictor(**options), frames()
    assert batch.future_BKHW is not None
    p, x = net.predict_frames(batch).double(), batch.future_BKHW.double() / 255
    expected = -(x * p.log() + (1 - x) * (1 - p).log()).sum((2, 3))
    torch.testing.assert_close(net.nats_by_frame(batch).double(), expected, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(net.nats(batch).detach().double(), expected.sum(), rtol=1e-4, atol=1e-3)


@every
def test_frames_further_ahead_continue_those_before(options: dict[str, Any]):
    net, batch = predictor(**options), frames()
    further = net.predict_frames(batch, 6)
    assert further.shape == (2, 6, 7, 8)
    torch.testing.assert_close(further[:, :3], net.predict_frames(FrameBatch(batch.read_BTHW)))
    alone = net.predict_frames(FrameBatch(batch.read_BTHW[1:]), 6)
    torch.testing.assert_close(further[1:], alone, rtol=1e-4, atol=1e-5)


@every
def test_every_weight_of_a_frame_predictor_learns(options: dict[str, Any]):
    net = predictor(**options, peephole=True, dropout=0.0)
    net.nats(frames()).backward()
    assert not [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()]


@pytest.mark.parametrize(
    ("hidden", "layers", "kernel", "peephole"), [(8, 1, 3, False), (16, 3, 5, False), (6, 2, 3, True)]
)
def test_a_dense_lstm_gets_the_parameters_of_the_convolutional_one(
    hidden: int, layers: int, kernel: int, peephole: bool
):
    settings = FramePredictorSettings(hidden=hidden, layers=layers, kernel=kernel, peephole=peephole)
    units = equal_units(settings, height=16, width=16)

    def count(**options: Any) -> int:
        chosen = FramePredictorSettings(**(vars(settings) | options))
        return FramePredictor(chosen, height=16, width=16, ahead=1).parameters_count()

    most = count()
    assert count(model="lstm") == count(model="lstm", units=units) <= most < count(model="lstm", units=units + 1)


def test_a_small_frame_predictor_learns_to_move_a_spot():
    torch.manual_seed(0)
    settings = FramePredictorSettings(hidden=8, layers=1, kernel=3, patch=2)
    net = FramePredictor(settings, height=8, width=8, ahead=2)
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    draw = torch.Generator().manual_seed(1)

    def moving(rows: int) -> FrameBatch:
        start, way = torch.randint(8, (rows, 2), generator=draw), torch.randint(2, (rows,), generator=draw)
        clip = torch.zeros(rows, 5, 8, 8, dtype=torch.uint8)
        for t in range(5):  # to the right or downward, and in again on the other side
            y, x = (start[:, 0] + t * way) % 8, (start[:, 1] + t * (1 - way)) % 8
            clip[torch.arange(rows), t, y, x] = 255
        return FrameBatch(clip[:, :3], clip[:, 3:])

    for _ in range(120):
        optimizer.zero_grad()
        (net.nats(moving(32)) / 64).backward()
        optimizer.step()
    test = moving(64)
    assert test.future_BKHW is not None
    wrong = (net.predict_frames(test) > 0.5) != (test.future_BKHW > 0)
    assert float(net.nats_by_frame(test).detach().mean()) < 3.0  # a spot anywhere costs log 64 = 4.2 nats and more
    assert float(wrong.float().sum((2, 3)).mean()) < 0.6


@pytest.mark.usefixtures("bfloat16")
@every
def test_a_frame_predictor_runs_under_autocast(options: dict[str, Any]):
    net, batch = predictor(**options), frames()
    plain = net.nats(batch).detach()
    with torch.autocast("cpu", torch.bfloat16):
        halved = net.nats(batch)
    assert halved.dtype == torch.float32
    torch.testing.assert_close(halved.detach(), plain, rtol=0.02, atol=1.0)
    halved.backward()


def test_mistakes_about_frames_are_named():
    with pytest.raises(OptionError, match="a batch without the frames that came next has no loss"):
        predictor().nats(FrameBatch(frames().read_BTHW))
    with assert_refused(OptionError, "model", "copy"):
        predictor(model="copy")
    for options, words in (
        ({"model": "gru"}, "model is 'gru'"),
        ({"kernel": 2}, "kernel is 2; expected an odd number"),
        ({"ahead": -1}, "ahead is -1; expected 1 or more, or 0"),
        ({"patch": 0}, "patch"),
    ):
        with pytest.raises(OptionError, match=words):
            FramePredictorSettings(**options)  # type: ignore[arg-type]
