"""TorchScript: `torch.jit.script` is answered in a sentence, `torch.jit.trace` writes the operator down."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from refusals import assert_refused
from thereafter import nn
from thereafter.errors import OptionError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


class Around(torch.nn.Module):
    """A model of somebody's own with one of our layers inside."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(nn.GRU(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.inner(x)[0]
        return made


@pytest.mark.parametrize("module", [nn.LSTM(3, 4, peephole=True), nn.Recurrent("gru", 3, 4), Around()])
def test_torch_jit_script_is_told_what_to_use_instead(module: torch.nn.Module) -> None:
    with assert_refused(OptionError, "torch.jit.script", "torch.export"):
        torch.jit.script(module)


def test_a_traced_layer_takes_other_sizes() -> None:
    layer = nn.LSTM(3, 4, peephole=True, batch_first=True).eval()
    trace: Callable[..., Callable[[torch.Tensor], tuple[torch.Tensor, object]]] = torch.jit.trace
    traced = trace(layer, torch.randn(2, 5, 3), check_trace=False)
    x = torch.randn(3, 7, 3)
    torch.testing.assert_close(traced(x)[0], layer(x)[0])
