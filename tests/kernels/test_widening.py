"""A widened cell computes the same outputs, states and gradients."""

import pytest
import torch

from thereafter import nn
from thereafter.kernels import vendor


@pytest.mark.parametrize("module", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("sizes", [(5, 7), (8, 3), (6, 16), (8, 8)])
@pytest.mark.parametrize("lengths", [None, [4, 2, 5]])
def test_same_numbers(module, sizes, lengths, monkeypatch):
    torch.manual_seed(2)
    layer = module(*sizes, batch_first=True, kernel="vendor").double()
    x_BTI = torch.randn(3, 5, sizes[0], dtype=torch.float64, requires_grad=True)
    learned = [x_BTI, *layer.parameters()]

    def found() -> list[torch.Tensor]:
        y_BTH, state = layer(x_BTI, lengths=lengths)
        parts = [y_BTH, *(state if isinstance(state, tuple) else (state,))]
        total = sum((part * torch.linspace(-1, 1, part.numel()).view(part.shape)).sum() for part in parts)
        return [*parts, *torch.autograd.grad(total, learned)]

    plain, own, widths = found(), vendor._run, set()

    def wide(job):
        job = vendor.widen(job)
        widths.add(job.weights["weight_hh"].shape[1])
        return own(job)

    monkeypatch.setattr(vendor, "_run", lambda job: vendor.narrow(wide(job), job))
    for expected, got in zip(plain, found(), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    assert widths == {-(-sizes[1] // 8) * 8}
