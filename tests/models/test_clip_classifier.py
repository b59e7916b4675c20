"""The network over labelled clips: what it reads, what it believes after each frame, and that it learns."""

from __future__ import annotations

import pytest
import torch

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.vision.clips.labels import ClipBatch, ClipClassifier, ClipClassifierSettings
from thereafter.vision.encoder import FrameEncoder, as_floats, from_patches, to_patches

CELLS = ["lstm", "gru", "mingru", "conv-lstm"]


def network(**options: object) -> ClipClassifier:
    torch.manual_seed(3)
    settings = ClipClassifierSettings(**({"hidden": 6, "width": 4, "dropout": 0.0} | options))  # type: ignore[arg-type]
    return ClipClassifier(settings, height=12, width=14, labels=(3, 2)).eval()


def clips(rows: int = 3, steps: int = 5, seed: int = 0) -> ClipBatch:
    draw = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (rows, steps, 12, 14), generator=draw, dtype=torch.uint8)
    labels = torch.stack([torch.arange(rows) % 3, torch.arange(rows) % 2], 1)
    return ClipBatch(frames, torch.full((rows,), steps), labels)


def test_patches_go_there_and_back():
    x = torch.randn(2, 10, 13)
    maps = to_patches(x, 4)
    assert maps.shape == (2, 16, 3, 4)
    torch.testing.assert_close(from_patches(maps, 4, 10, 13), x, rtol=0, atol=0)
    torch.testing.assert_close(maps[:, 5, 1, 2], x[:, 5, 9])  # row 1 and column 1 of the patch in row 1, column 2


def test_bytes_become_floats_where_they_are():
    frames = torch.tensor([0, 51, 255], dtype=torch.uint8)
    assert as_floats(frames, torch.zeros(())).tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert as_floats(torch.tensor([0.3]), torch.zeros((), dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize(("side", "stages"), [(64, 4), (32, 3), (28, 3), (8, 1), (3, 1), (128, 4)])
def test_frames_are_halved_until_few_places_are_left(side: int, stages: int):
    encoder = FrameEncoder(side, side, channels=4)
    assert sum(isinstance(module, torch.nn.Conv2d) for module in encoder.modules()) == stages
    assert tuple(encoder(torch.zeros(1, side, side)).shape[1:]) == encoder.shape


@pytest.mark.parametrize("cell", CELLS)
def test_beliefs_about_a_clip_do_not_depend_on_the_clips_beside_it(cell: str):
    net, batch = network(cell=cell), clips()
    frames = batch.frames_BTHW.clone()
    frames[1, 2:] = 0
    together = ClipBatch(frames, torch.tensor([5, 2, 5]), batch.labels_BC)
    alone = [ClipBatch(frames[row : row + 1, :n], torch.tensor([n])) for row, n in enumerate((5, 2, 5))]
    for column, belief_BTL in enumerate(net.beliefs(together)):
        torch.testing.assert_close(belief_BTL.sum(-1), torch.ones(3, 5))
        for row, one in enumerate(alone):
            own_TL = net.beliefs(one)[column][0]
            torch.testing.assert_close(belief_BTL[row, : len(own_TL)], own_TL, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(net.decide(together)[column][row], own_TL[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
def test_a_belief_is_about_the_frames_so_far(cell: str):
    net, batch = network(cell=cell), clips()
    cut = ClipBatch(batch.frames_BTHW[:, :3], torch.full((3,), 3))
    for whole, part in zip(net.beliefs(batch), net.beliefs(cut), strict=True):
        torch.testing.assert_close(whole[:, :3], part, rtol=1e-4, atol=1e-5)


def test_a_network_that_sees_the_last_frame_remembers_nothing():
    net, batch = network(sees="last"), clips()
    mixed = ClipBatch(batch.frames_BTHW.clone(), batch.lengths_B)
    mixed.frames_BTHW[:, :4] = 255 - mixed.frames_BTHW[:, :4]
    for own, other in zip(net.decide(batch), net.decide(mixed), strict=True):
        torch.testing.assert_close(own, other)
    seeing = network(sees="all")
    assert not torch.allclose(seeing.decide(batch)[0], seeing.decide(mixed)[0])


def test_the_loss_of_clips_is_what_the_beliefs_say():
    net, batch = network(), clips()
    assert batch.labels_BC is not None
    beliefs, columns = net.beliefs(batch), batch.labels_BC.T
    logs = [p.log().gather(2, y[:, None, None].expand(-1, 5, 1)) for p, y in zip(beliefs, columns, strict=True)]
    torch.testing.assert_close(net.nats(batch).detach(), -sum(log[:, -1].sum() for log in logs))
    net.train()
    torch.testing.assert_close(net.nats(batch).detach(), -sum(log.sum() for log in logs) / 5)


@pytest.mark.parametrize("cell", CELLS)
def test_every_weight_of_a_clip_classifier_learns(cell: str):
    net = network(cell=cell, layers=2).train()
    net.nats(clips()).backward()
    idle = [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not idle


def test_a_small_clip_classifier_learns_where_a_spot_goes():
    torch.manual_seed(0)
    net = ClipClassifier(
        ClipClassifierSettings(hidden=16, width=4, dropout=0.0), height=8, width=8, labels=(2, 4)
    ).train()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    draw = torch.Generator().manual_seed(1)

    def spots(rows: int) -> ClipBatch:
        size, way = torch.randint(2, (rows,), generator=draw), torch.randint(4, (rows,), generator=draw)
        steps = torch.tensor([[1, 0], [0, 1], [-1, 0], [0, -1]])
        frames = torch.zeros(rows, 4, 8, 8, dtype=torch.uint8)
        for row in range(rows):
            for t in range(4):
                y, x = (3 + t * steps[way[row]]).clamp(0, 6).tolist()
                frames[row, t, y : y + 1 + size[row], x : x + 1 + size[row]] = 255
        return ClipBatch(frames, torch.full((rows,), 4), torch.stack([size, way], 1))

    for _ in range(60):
        optimizer.zero_grad()
        (net.nats(spots(32)) / 64).backward()
        optimizer.step()
    test = spots(100)
    assert test.labels_BC is not None
    for column, p_BL in enumerate(net.decide(test)):
        assert float((p_BL.argmax(-1) == test.labels_BC[:, column]).float().mean()) > 0.95
    first = net.beliefs(test)[1][:, 0]
    assert float(first.max()) < 0.6  # one frame says nothing of a direction


@pytest.mark.usefixtures("bfloat16")
def test_a_clip_classifier_runs_under_autocast():
    net, batch = network(cell="conv-lstm").train(), clips()
    plain = net.nats(batch)
    with torch.autocast("cpu", torch.bfloat16):
        halved = net.nats(batch)
    assert halved.dtype == torch.float32
    torch.testing.assert_close(halved, plain, rtol=0.05, atol=0.05)
    halved.backward()


def test_mistakes_about_clips_are_named():
    with pytest.raises(OptionError, match="a batch without labels has no loss"):
        network().nats(ClipBatch(clips().frames_BTHW, clips().lengths_B))
    with assert_refused(OptionError, 3, 1, 2):
        ClipClassifier(ClipClassifierSettings(), height=8, width=8, labels=(3, 1))
    for options, words in (
        ({"cell": "lstmm"}, "cell is 'lstmm'"),
        ({"sees": "some"}, "sees is 'some'; expected 'all' or 'last'"),
        ({"learn": "never"}, "learn is 'never'"),
        ({"kernel": 4}, "kernel is 4; expected an odd number"),
        ({"stages": 9}, "stages is 9; expected 1 to 8, or 0"),
    ):
        with pytest.raises(OptionError, match=words):
            ClipClassifierSettings(**options)  # type: ignore[arg-type]
