"""Mini-batches against the rule written out in plain Python."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.text.chunks import as_torch, contiguous_streams, partition_batches, random_offset_partition


def test_the_partition_reproduces_the_rule_for_every_size() -> None:
    for total in range(2, 30):
        ids = list(range(100, 100 + total))
        for steps in range(1, total):
            for offset in range(steps + 1):
                inputs, targets = random_offset_partition(ids, steps, offset=offset)
                pairs = max(0, (total - offset - 1) // steps)
                assert inputs.shape == targets.shape == (pairs, steps)
                for row in range(pairs):
                    start = offset + row * steps
                    assert inputs[row].tolist() == ids[start : start + steps]
                    assert targets[row].tolist() == ids[start + 1 : start + steps + 1]


def test_offsets_are_drawn_uniformly_from_both_ends_included() -> None:
    rng = np.random.default_rng(1)
    drawn = [int(random_offset_partition(np.arange(100), 5, rng)[0][0, 0]) for _ in range(6000)]
    counts = np.bincount(drawn)
    assert len(counts) == 6
    assert counts.min() > 850
    short = {int(random_offset_partition(np.arange(7), 5, rng)[0][0, 0]) for _ in range(60)}
    assert short == {0, 1}


def test_batches_of_an_epoch_hold_every_pair_once() -> None:
    ids = np.arange(1000, dtype=np.uint16)
    batches = list(partition_batches(ids, 7, 16, np.random.default_rng(3)))
    assert {inputs.shape for inputs, _ in batches[:-1]} == {(16, 7)}
    assert all((targets == inputs + 1).all() for inputs, targets in batches)
    firsts = np.concatenate([inputs[:, 0] for inputs, _ in batches])
    assert np.array_equal(np.sort(firsts), np.arange(firsts.min(), 1000 - 7, 7)[: len(firsts)])
    assert not np.array_equal(np.sort(firsts), firsts)
    again = list(partition_batches(ids, 7, 16, np.random.default_rng(3)))
    assert all(np.array_equal(one[0], other[0]) for one, other in zip(batches, again, strict=True))


@pytest.mark.parametrize(("total", "batch", "steps"), [(101, 4, 5), (100, 4, 5), (100, 7, 3), (11, 10, 4), (2, 1, 9)])
def test_streams_carry_on_from_batch_to_batch(total: int, batch: int, steps: int) -> None:
    ids = np.arange(total)
    blocks = list(contiguous_streams(ids, batch, steps))
    length = (total - 1) // batch
    assert [inputs.shape[1] for inputs, _ in blocks[:-1]] == [steps] * (len(blocks) - 1)
    inputs = np.concatenate([block for block, _ in blocks], axis=1)
    targets = np.concatenate([block for _, block in blocks], axis=1)
    assert inputs.shape == (batch, length)
    for row in range(batch):
        assert inputs[row].tolist() == list(range(row * length, (row + 1) * length))
    assert np.array_equal(targets, inputs + 1)
    assert (total - 1) - targets.size == (total - 1) % batch


def test_views_not_copies() -> None:
    ids = np.arange(100)
    assert all(np.shares_memory(part, ids) for part in random_offset_partition(ids, 5, offset=2))
    assert all(np.shares_memory(part, ids) for pair in contiguous_streams(ids, 3, 5) for part in pair)


def test_torch_gets_int64_also_from_read_only_maps() -> None:
    import torch

    ids = np.arange(10, dtype=np.uint16)
    ids.flags.writeable = False
    tensor = as_torch(ids[::2])
    assert (tensor.dtype, tensor.tolist()) == (torch.int64, [0, 2, 4, 6, 8])


def test_too_short_or_senseless() -> None:
    rng = np.random.default_rng(0)
    with assert_refused(OptionError, 4, 6, "steps=3"):
        random_offset_partition(np.arange(4), 5, rng)
    with assert_refused(OptionError, "batch=3"):
        contiguous_streams(np.arange(4), 4, 2)
    for wrong in (
        lambda: random_offset_partition([], 5, rng),
        lambda: random_offset_partition(np.arange(9), 0, rng),
        lambda: random_offset_partition(np.arange(9), 2),
        lambda: random_offset_partition(np.arange(9), 2, rng, offset=1),
        lambda: random_offset_partition(np.arange(9), 2, offset=3),
        lambda: random_offset_partition(np.zeros((3, 3), int), 2, rng),
        lambda: random_offset_partition(np.zeros(9), 2, rng),
        lambda: partition_batches(np.arange(9), 2, 0, rng),
        lambda: contiguous_streams([], 1, 1),
        lambda: contiguous_streams(np.arange(9), 0, 1),
    ):
        with pytest.raises(OptionError):
            wrong()


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, thereafter.text.chunks, thereafter.text.encoded, thereafter.text.vocabulary\n"
        "import thereafter.text.tokenizers.subword\n"
        "assert not {'torch', 'numba', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
