"""What truncation keeps, against backpropagation written by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from breadth import core
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.jacobians import truncation_effect
from thereafter.layers.bptt import bptt
from thereafter.models.build import build, settings_of

V = 11


def test_an_rnn_keeps_what_the_hand_written_way_back_finds() -> None:
    torch.manual_seed(0)
    model = build("rnn", settings_of("rnn")(hidden=6, layers=1, tied=False), vocabulary_size=V).double().eval()
    ids = np.random.default_rng(0).integers(0, V, 24)
    found = truncation_effect(model, ids, lengths=(1, 3, 8, 100), rows=1)
    assert found["length"].tolist() == [1, 3, 8, 24]

    x = model.embedding(torch.tensor([[V, *ids[:-1]]])).detach()
    weights = model.layers
    b = (weights.bias_ih_l0 + weights.bias_hh_l0).detach()

    def of_loss(h_BSH: torch.Tensor, start: int) -> torch.Tensor:
        with torch.enable_grad():
            h = h_BSH.detach().requires_grad_()
            nats = model.head.nll(h.flatten(0, 1), torch.tensor(ids[start : start + h.shape[1]])).sum()
            return torch.autograd.grad(nats, h)[0]

    def by_hand(truncation: int | None) -> torch.Tensor:
        W, U = weights.weight_ih_l0.detach(), weights.weight_hh_l0.detach()
        return bptt(x, torch.zeros(1, 6).double(), W, U, b, of_loss, truncation=truncation).U.flatten()

    full = by_hand(None)
    for place, length in enumerate((1, 3, 8, None)):
        part = by_hand(length)
        assert found["share"][0, place] == pytest.approx(float(part.norm() / full.norm()), rel=1e-9)
        cosine = float(torch.nn.functional.cosine_similarity(part, full, dim=0))
        assert found["cosine"][0, place] == pytest.approx(cosine, rel=1e-9)
    np.testing.assert_array_equal(found["share"][0], found["share"][1])  # one layer is all there is


@pytest.mark.parametrize("kind", core(["lstm", "gru", "mingru"], ["lstm"]))
def test_every_recurrent_model_keeps_all_at_full_length(kind: str) -> None:
    torch.manual_seed(0)
    model = build(kind, settings_of(kind)(hidden=6, layers=2), vocabulary_size=V, context="line", line_end=0)
    lines = [[1, 2, 3, 4, 5, 6, 7, 8, 0], [5, 4, 3, 2, 1, 0], [1, 0]]
    found = truncation_effect(model, np.concatenate(lines), lengths=(1, 4))
    assert found["layer"].tolist() == ["l0", "l1", "all"]
    assert found["length"].tolist() == [1, 4, 9]
    assert found.about["rows"] == 2  # lines of at least half the longest
    np.testing.assert_allclose(found["share"][:, -1], 1.0)
    np.testing.assert_allclose(found["cosine"][:, -1], 1.0)
    assert (found["cosine"][:, 0] < 0.9999).all()


def test_mistakes() -> None:
    model = build("window", settings_of("window")(hidden=6), vocabulary_size=V)
    with assert_refused(OptionError, "recurrent"):
        truncation_effect(model, np.arange(10))
    rnn = build("rnn", settings_of("rnn")(hidden=6), vocabulary_size=V)
    with assert_refused(OptionError, 1):
        truncation_effect(rnn, np.arange(10), lengths=(0, 5))
