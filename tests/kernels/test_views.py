"""What has a backward pass or compiled loops of its own beside the kernels, given views of every kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from layouts import LAYOUTS
from parity import Situation, make_job, ready

from thereafter import nn
from thereafter.cells import CELLS
from thereafter.kernels.scan import KERNELS, unroll
from thereafter.layers.heads import softmax_nll

SETTINGS = [
    ("LSTM", {}),
    ("GRU", {}),
    ("GRU", {"reset": "before"}),
    ("RNN", {}),
    ("MinLSTM", {}),
    ("LSTM", {"proj_size": 3}),
]


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("charge", ["mean", "each"])
def test_softmax(layout: str, charge: str) -> None:
    lay = LAYOUTS[layout]
    given = [lay(drawn(*shape, seed=k)).requires_grad_() for k, shape in enumerate([(7, 5), (11, 5), (11,)])]
    targets = lay(torch.tensor([3, 0, 10, 4, 4, 9, 1]))
    incoming = torch.full((7,), 1 / 7, dtype=torch.float64) if charge == "mean" else drawn(7, seed=9)
    got = softmax_nll(*given, targets, 11, chunk=3, mean_of=7)
    expected = F.cross_entropy(F.linear(*(a.contiguous() for a in given)), targets.contiguous(), reduction="none")
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    ours = torch.autograd.grad(got, given, lay(incoming))
    theirs = torch.autograd.grad(expected, given, lay(incoming).contiguous())
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("kind", "options"), SETTINGS, ids=str)
def test_streams(kind: str, options: dict[str, Any], layout: str) -> None:
    """Weights, states and inputs that are views: a stream steps as the plain loop does from plain copies."""
    lay = LAYOUTS[layout]
    layer: Any = getattr(nn, kind)(4, 6, batch_first=True, dtype=torch.float64, kernel="reference", **options)
    for number, weight in enumerate(layer.parameters()):
        weight.data = lay(drawn(*weight.shape[::-1], seed=number).mul_(0.4)).t()
    x = lay(drawn(3, 5, 4, seed=20))
    _, state = layer(x.contiguous())
    parts = [lay(drawn(*part.shape[1:], seed=30)) for part in (state if isinstance(state, tuple) else (state,))]
    given = tuple(part.unsqueeze(0) for part in parts) if len(parts) > 1 else parts[0].unsqueeze(0)
    with torch.no_grad():
        expected, _ = layer(x.contiguous(), given)
        stream = layer.stream(batch=3)
        stream.reset(given)
        steps = [stream.step(x[:, t]).clone() for t in range(x.shape[1])]
    torch.testing.assert_close(torch.stack(steps, 1), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("label", list(KERNELS))
@pytest.mark.parametrize("name", ["lstm", "gru", "mingru"])
def test_lengths_of_any_whole_type(name: str, label: str) -> None:
    at = Situation("plain")
    job = make_job(CELLS.load(name)(4, 5), at, torch.float64, "cpu")
    if KERNELS.load(label).refuses(ready(job, at)) is not None:
        pytest.skip("another kernel's work")
    run = {"kernel": label, "reverse": True}
    long, short = (
        unroll(job.cell, job.x_BTI, job.state, job.weights, lengths=torch.tensor([4, 6, 1], dtype=dtype), **run)
        for dtype in (torch.int64, torch.int32)
    )
    assert torch.equal(long.y_BTO, short.y_BTO)
