"""The order of the text: complete, reproducible, and cut into blocks as it says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from thereafter.training.blocks import Blocks, Plan, lines, partition, stream

START = 99


def pairs_of(plan: Plan, ids: np.ndarray, device: str = "cpu") -> list[tuple[int, int, int]]:
    """(place, input, target) of everything that counts, in the order of training."""
    blocks = Blocks(ids, START, torch.device(device))
    found = []
    for k in range(len(plan)):
        block = blocks.cut(plan, k)
        rows, width = block.targets_BT.shape
        mask = torch.ones(rows, width, dtype=torch.bool) if block.mask_BT is None else block.mask_BT
        assert int(mask.sum()) == block.count == plan.count(k)
        for b, t in mask.nonzero().tolist():
            place = int(plan.starts_R[plan.rows(k)][b]) + t
            found.append((place, int(block.inputs_BT[b, t]), int(block.targets_BT[b, t])))
    return found


@pytest.mark.parametrize("jitter", [False, True])
@pytest.mark.parametrize(("tokens", "batch", "steps"), [(1, 1, 1), (7, 3, 2), (100, 7, 9), (64, 4, 16), (50, 80, 3)])
def test_stream_gives_every_target_once(tokens: int, batch: int, steps: int, jitter: bool):
    ids = np.random.default_rng(0).integers(0, 90, tokens).astype(np.int32)
    plan = stream(tokens, batch, steps, jitter=jitter, seed=1, epoch=2)
    found = pairs_of(plan, ids)
    assert sorted(place for place, _, _ in found) == list(range(tokens))
    for place, given, target in found:
        assert target == ids[place]
        assert given == (START if place == 0 else ids[place - 1])
    assert plan.carried


def test_rows_of_a_stream_go_on_where_they_stopped():
    plan = stream(103, 4, 10)
    for k in range(len(plan) - 1):
        ended = plan.starts_R[plan.rows(k)] + plan.lengths_R[plan.rows(k)]
        begun = plan.starts_R[plan.rows(k + 1)]
        assert (ended == begun).all()
    assert [plan.width(k) for k in range(len(plan))] == [10, 10, 6]


def test_jitter_varies_the_steps_about_their_mean():
    widths = [
        w for e in range(4) for p in [stream(70_000, 1, 70, jitter=True, epoch=e)] for w in map(p.width, range(len(p)))
    ]
    assert 62 < np.mean(widths) < 72
    assert np.mean(np.array(widths) < 45) == pytest.approx(0.05, abs=0.02)
    assert min(widths) >= 1


@pytest.mark.parametrize(("tokens", "batch", "steps"), [(100, 4, 7), (20, 3, 20), (10, 4, 30), (1, 1, 1)])
def test_partition_gives_whole_pieces_at_most_once(tokens: int, batch: int, steps: int):
    ids = np.arange(tokens)
    seen: Counter[int] = Counter()
    for epoch in range(30):
        plan = partition(tokens, batch, steps, seed=0, epoch=epoch)
        found = pairs_of(plan, ids)
        places = [place for place, _, _ in found]
        assert len(places) == len(set(places))
        assert len(places) > tokens - 2 * min(steps, tokens)
        assert all(given == (START if place == 0 else place - 1) for place, given, _ in found)
        assert {plan.width(k) for k in range(len(plan))} == {min(steps, tokens)}
        seen.update(places)
    assert len(seen) == tokens  # other offsets see what one leaves over


def test_offsets_of_a_partition_are_drawn_uniformly():
    counts = np.bincount([int(partition(100, 20, 5, epoch=epoch).starts_R.min()) for epoch in range(3000)])
    assert len(counts) == 5
    assert counts.min() > 500
    assert {int(partition(7, 1, 5, epoch=epoch).starts_R.min()) for epoch in range(60)} == {0, 1, 2}


@pytest.mark.parametrize("shuffle", [False, True])
def test_lines_are_rows(shuffle: bool):
    rng = np.random.default_rng(4)
    lengths = rng.integers(0, 12, 200)
    ids = np.concatenate([np.append(rng.integers(1, 90, n), 0) for n in lengths] + [[5, 6]]).astype(np.int32)
    plan = lines(ids, 0, 8, 9, shuffle=shuffle, seed=0, epoch=1)
    found = pairs_of(plan, ids)
    assert sorted(place for place, _, _ in found) == list(range(len(ids)))
    for place, given, target in found:
        assert target == ids[place]
        assert given == (START if place == 0 or ids[place - 1] == 0 else ids[place - 1])
    places = sum(plan.width(k) * (plan.rows(k).stop - plan.rows(k).start) for k in range(len(plan)))
    assert len(ids) <= places < 1.1 * len(ids)  # lines of one length are together: little is padded
    assert not plan.carried


def test_an_epoch_is_a_function_of_seed_and_number():
    ids = np.random.default_rng(0).integers(0, 5, 3000)
    for make in (
        lambda seed, epoch: stream(3000, 4, 20, jitter=True, seed=seed, epoch=epoch),
        lambda seed, epoch: partition(3000, 4, 20, seed=seed, epoch=epoch),
        lambda seed, epoch: lines(ids, 0, 8, 30, seed=seed, epoch=epoch),
    ):
        plans = {key: make(*key) for key in [(0, 0), (0, 1), (1, 0)]}
        again = make(0, 1)
        assert (again.starts_R == plans[0, 1].starts_R).all()
        assert (again.lengths_R == plans[0, 1].lengths_R).all()
        spelled = {plan.starts_R.tobytes() for plan in plans.values()}
        assert len(spelled) == 3


def test_blocks_are_the_same_on_any_device():
    """What a GPU cuts, cut by the same code on the CPU."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 20, 500).astype(np.uint16)
    device = torch.device("cpu")
    here, there = Blocks(ids, START, device), Blocks(ids, START, device)
    on_device = torch.from_numpy(ids.astype(np.int32))
    for plan in (stream(500, 7, 9), partition(500, 7, 9), lines(ids, 0, 8, 9)):
        for k in range(len(plan)):
            one, other = here.cut(plan, k), there.cut_on_device(plan, k, on_device)
            kept = torch.ones_like(one.targets_BT, dtype=torch.bool) if one.mask_BT is None else one.mask_BT
            assert (one.mask_BT is None) == (other.mask_BT is None)
            assert torch.equal(one.targets_BT[kept], other.targets_BT[kept])
            assert torch.equal(one.inputs_BT[kept], other.inputs_BT[kept])
            assert one.inputs_BT.dtype == other.inputs_BT.dtype == torch.int64
