"""Products of some rows with a matrix that is laid out once: torch's own numbers, rows that do not see each other."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from thereafter import nn as recurrent
from thereafter.kernels.switches import FEWEST, can_pack_for_rows, multiply_rows, pack_for_rows
from thereafter.layers.heads import AdaptiveSoftmax, Softmax
from thereafter.models.build import build, settings_of
from thereafter.models.quiet import RowHead

PACKS = can_pack_for_rows(torch.zeros(1, FEWEST))
needs_layout = pytest.mark.skipif(not PACKS, reason="torch has no such products on this processor")


@needs_layout
def test_products_are_torchs_own_and_rows_are_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    for outputs, inputs in ((513, 700), (2000, 130), (600, 1300)):
        weight, x = (torch.randn(rows, inputs, generator=generator) for rows in (outputs, 64))
        bias = torch.randn(outputs, generator=generator)
        packed = pack_for_rows(weight)
        whole = multiply_rows(x, packed, bias)
        torch.testing.assert_close(whole, F.linear(x, weight, bias), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(multiply_rows(x[:3], packed), x[:3] @ weight.t(), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(multiply_rows(x[5:6], packed, bias), whole[5:6], rtol=1e-4, atol=1e-3)
        for rows in (2, 3, 7, 16, 33):
            order = torch.randperm(64, generator=generator)[:rows]
            assert torch.equal(multiply_rows(x[order], packed, bias), whole[order])


def test_what_cannot_be_laid_out_is_not() -> None:
    assert not can_pack_for_rows(torch.zeros(1, FEWEST - 1))
    assert not can_pack_for_rows(torch.zeros(1, FEWEST, dtype=torch.float64))
    assert not can_pack_for_rows(torch.zeros(1, FEWEST, device="meta"))
    enabled = torch.backends.mkldnn.enabled
    try:
        torch.backends.mkldnn.enabled = False
        assert not can_pack_for_rows(torch.zeros(1, FEWEST))
    finally:
        torch.backends.mkldnn.enabled = enabled


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "MinGRU", "RNN"])
def test_a_stream_of_rows_gives_the_numbers_of_the_layer(kind: str) -> None:
    torch.manual_seed(1)
    layer = getattr(recurrent, kind)(300, 600, 2, batch_first=True)
    x_BTI = torch.randn(5, 4, 300)
    with torch.no_grad():
        whole_BTO, _ = layer(x_BTI)
        several, two = layer.stream(batch=5), layer.stream(batch=2)
        for t in range(4):
            y_BO = several.step(x_BTI[:, t])
            torch.testing.assert_close(y_BO, whole_BTO[:, t], rtol=1e-4, atol=1e-4)
            if PACKS:
                assert torch.equal(two.step(x_BTI[3:, t]), y_BO[3:])


def test_a_head_follows_its_weights_and_is_copied_without_its_layout() -> None:
    torch.manual_seed(2)
    row_head, head, f_BH = RowHead(), Softmax(300, 1000), torch.randn(4, 300)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(row_head.log_prob(head, f_BH), head.log_prob(f_BH), rtol=1e-4, atol=1e-4)
            head.weight.mul_(0.5)
        assert torch.equal(row_head.log_prob(head, f_BH[:1]), head.log_prob(f_BH[:1]))
        adaptive = AdaptiveSoftmax(300, 1000, cutoffs=(500,))
        assert torch.equal(row_head.log_prob(adaptive, f_BH), adaptive.log_prob(f_BH))
        make, given = row_head.__reduce__()
        for copy in (deepcopy(row_head), make(*given)):
            torch.testing.assert_close(copy.log_prob(head, f_BH), head.log_prob(f_BH), rtol=1e-4, atol=1e-4)
    assert row_head.log_prob(head, f_BH).requires_grad


@needs_layout
@pytest.mark.parametrize("tied", [True, False])
def test_rows_of_a_model_do_not_depend_on_who_is_beside_them(tied: bool) -> None:
    torch.manual_seed(3)
    settings = settings_of("lstm")(hidden=300, layers=2, tied=tied)
    model = build("lstm", settings, vocabulary_size=1000, context="stream", line_end=0).eval()
    with torch.no_grad():
        nn.init.uniform_(model.embedding.weight, -0.5, 0.5)
    tokens_BT = np.random.default_rng(0).integers(0, 1000, (20, 6))

    def read(rows: list[int]) -> np.ndarray:
        state, steps = model.start(len(rows)), []
        for token_B in tokens_BT[rows].T:
            logp_BV, state = model.step(token_B, state)
            steps.append(logp_BV)
        return np.stack(steps, axis=1)

    whole_BTV = read(list(range(20)))
    for rows in ([3, 4], [19, 0, 7], list(range(17))):
        np.testing.assert_array_equal(read(rows), whole_BTV[rows])
    np.testing.assert_allclose(read([5]), whole_BTV[[5]], rtol=1e-4, atol=1e-5)
