"""Processors without instructions for bfloat16: torch's LSTM is left alone there, and oneDNN stays on for the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from refusals import assert_refused
from thereafter import nn
from thereafter.errors import OptionError
from thereafter.kernels import switches, vendor


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """What was found out about this processor is forgotten, before and after."""
    for known in (vendor._failure, switches._has_products):
        known.cache_clear()
    yield
    for known in (vendor._failure, switches._has_products):
        known.cache_clear()


def refusing(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """torch's LSTM as it is where oneDNN has no bfloat16; gathers the types it was asked in."""
    own, asked = torch.lstm, []

    def lstm(*given: Any) -> Any:
        low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else given[0].dtype
        asked.append(low)
        if low == torch.bfloat16:
            raise RuntimeError("could not create a primitive descriptor for the LSTM. Run with ONEDNN_VERBOSE=all.")
        return own(*given)

    monkeypatch.setattr(torch, "lstm", lstm)
    return asked


def test_auto_takes_the_next_kernel_and_asks_torch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = refusing(monkeypatch)
    layer, x = nn.LSTM(5, 8, batch_first=True), torch.randn(2, 6, 5)
    with switches.sparing_onednn(torch.bfloat16), torch.autocast("cpu", torch.bfloat16):
        outputs = [layer(x)[0] for _ in range(3)]
        ragged = layer(x, lengths=torch.tensor([6, 2]))[0]
        assert asked == [torch.bfloat16]
        (outputs[0].float().sum() + ragged.float().sum()).backward()
        layer.kernel = "reference"
        expected = layer(x)[0]
    assert all(torch.equal(output, expected) for output in outputs)
    assert layer.weight_hh_l0.grad is not None


def test_a_named_kernel_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch)
    layer = nn.LSTM(5, 8, kernel="vendor")
    with (
        torch.autocast("cpu", torch.bfloat16),
        assert_refused(OptionError, "lstm", "bfloat16"),
    ):
        layer(torch.randn(2, 6, 5))
    assert layer(torch.randn(2, 6, 5))[0].dtype == torch.float32  # float32 is as it was


@pytest.mark.wide
def test_without_the_instructions_it_runs_all_the_same() -> None:
    """oneDNN told to know no more than AVX2, which has no bfloat16; on other processors it is what it is."""
    code = """
import warnings, torch
warnings.simplefilter("error")
from thereafter import nn
from thereafter.kernels.switches import sparing_onednn
for kind in ("LSTM", "GRU", "RNN"):
    layer = getattr(nn, kind)(5, 8, batch_first=True)
    with sparing_onednn(torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16):
            loss = layer(torch.randn(2, 6, 5))[0].float().square().sum()
        loss.backward()
    assert all(weight.grad.isfinite().all() for weight in layer.parameters())
assert torch.backends.mkldnn.enabled == torch.backends.mkldnn.is_available()
"""
    env = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def switching_off(dtype: torch.dtype) -> None:
    """What torch does where oneDNN fails."""
    torch.backends.mkldnn.enabled = False


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
def test_onednn_is_on_again_after_products_it_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "_try_products", switching_off)
    with switches.keeping_switch():
        torch.backends.mkldnn.enabled = True
        assert switches.switches_off(torch.bfloat16)
        assert torch.backends.mkldnn.enabled
        with switches.sparing_onednn(torch.bfloat16):
            assert not torch.backends.mkldnn.enabled  # from the first product on, not from the first that fails
        assert torch.backends.mkldnn.enabled
        monkeypatch.setattr(switches, "_try_products", lambda dtype: None)
        switches._has_products.cache_clear()
        with switches.sparing_onednn(torch.bfloat16):
            assert torch.backends.mkldnn.enabled


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
@pytest.mark.parametrize("enabled", [True, False])
def test_a_training_leaves_onednn_as_it_was(enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import thereafter
    from thereafter.training.watching import watching

    monkeypatch.setattr(switches, "_try_products", switching_off)
    seen: list[bool] = []
    text = "the cat sat on the mat .\n" * 30
    looking = watching(before_step=lambda training: seen.append(torch.backends.mkldnn.enabled))
    with switches.keeping_switch(), looking:
        torch.backends.mkldnn.enabled = enabled
        thereafter.train(text=text, model="gru", hidden=8, tokens="char", precision="bfloat16", tokens_budget=300)
        assert torch.backends.mkldnn.enabled is enabled
    assert seen
    assert not any(seen)
