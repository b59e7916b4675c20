"""Streams: token by token equals the whole pass, in buffers that never move, with and without compiled loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from thereafter import nn
from thereafter.kernels.step import stepper

IN_PLACE: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"num_layers": 3, "bias": "one"}),
    ("LSTM", {"num_layers": 2, "connect": "residual", "bias": False}),
    ("LSTM", {"num_layers": 3, "connect": "highway"}),
    ("LSTM", {"hidden_size": [7, 4]}),
    *[("GRU", {"reset": reset, "update": update}) for reset in ("after", "before") for update in ("old", "new")],
    ("GRU", {"num_layers": 2, "bias": "one"}),
    *[("RNN", {"nonlinearity": f}) for f in ("tanh", "relu", "leaky_relu", "relu6", "sigmoid", "identity")],
    ("MinGRU", {"num_layers": 2}),
    ("MinLSTM", {"num_layers": 2}),
    ("Diagonal", {"num_layers": 2}),
]
COMPILED_ALONE: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {"peephole": True, "num_layers": 2}),
    ("LSTM", {"coupled": True}),
    ("LSTM", {"peephole": True, "coupled": True}),
]
BY_THE_CELL: list[Any] = [
    pytest.param("LSTM", {"coupled": True, "proj_size": 3, "num_layers": 2}, marks=pytest.mark.wide),
    ("LSTM", {"layer_norm": True}),
    ("GRU", {"layer_norm": True}),
    ("GRU", {"zoneout": 0.2, "initial": "learned"}),
    ("LSTM", {"zoneout": (0.0, 0.3)}),
]


def build(kind: str, options: dict[str, Any], dtype: torch.dtype) -> Any:
    torch.manual_seed(2)
    sizes = {"hidden_size": 5} | options
    module = getattr(nn, kind)(4, **sizes, batch_first=True, dtype=dtype).eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.uniform_(-0.8, 0.8)
    return module


def flat(state: Any) -> list[torch.Tensor]:
    return [part for field in state for part in flat(field)] if isinstance(state, tuple) else [state]


@pytest.mark.parametrize("loops", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("kind", "options"), IN_PLACE + COMPILED_ALONE + BY_THE_CELL, ids=str)
def test_token_by_token_equals_the_whole_pass(
    kind: str, options: dict[str, Any], dtype: torch.dtype, loops: bool, monkeypatch: pytest.MonkeyPatch
):
    if not loops:
        monkeypatch.setattr(stepper, "available", lambda: False)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-6
    for batch in (1, 3):
        module = build(kind, options, dtype)
        x = torch.randn(batch, 9, 4, dtype=dtype)
        stream = module.stream(batch)
        with torch.no_grad():
            whole, state = module(x)
            stepped = torch.stack([stream.step(x[:, t]).clone() for t in range(9)], 1)
        torch.testing.assert_close(stepped, whole, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(flat(stream.state), flat(state), rtol=tolerance, atol=tolerance)
        halfway = stream.state
        stream.reset()
        torch.testing.assert_close(stream.step(x[:, 0]), whole[:, 0], rtol=tolerance, atol=tolerance)
        stream.reset(halfway)
        on, _ = module(x[:, :1], halfway)
        torch.testing.assert_close(stream.step(x[:, 0]), on[:, 0].detach(), rtol=tolerance, atol=tolerance)


class Allocations(TorchDispatchMode):
    """Counts operations whose result is memory that was not there before."""

    def __init__(self, known: set[int]) -> None:
        super().__init__()
        self.known = known
        self.made: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in self.known:
            self.made.append(str(function))
        return result


@pytest.mark.parametrize("loops", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("kind", "options"), IN_PLACE, ids=str)
def test_a_step_allocates_nothing(
    kind: str, options: dict[str, Any], batch: int, loops: bool, monkeypatch: pytest.MonkeyPatch
):
    if not loops:
        monkeypatch.setattr(stepper, "available", lambda: False)
    stream = build(kind, options, torch.float32).stream(batch)
    tokens = torch.randn(2, batch, 4)
    first = stream.step(tokens[0])

    def storages(thing: Any, seen: set[int]) -> set[int]:
        """The memory a stream already owns."""
        if isinstance(thing, torch.Tensor):
            return {thing.untyped_storage().data_ptr()}
        ours = type(thing).__module__.startswith(("thereafter.layers", "thereafter.kernels"))
        ours = ours and not isinstance(thing, tuple)
        if id(thing) in seen or not (ours or isinstance(thing, tuple | list)):
            return set()
        seen.add(id(thing))
        inside = list(vars(thing).values()) if ours else list(thing)
        return set().union(*(storages(part, seen) for part in inside)) if inside else set()

    with Allocations(storages(stream, set()) | {tokens.untyped_storage().data_ptr()}) as watched:
        x = tokens[1]
        second = stream.step(x)
    assert watched.made == []
    assert second.data_ptr() == first.data_ptr()


def test_a_stream_keeps_the_weights_it_was_made_with():
    module = build("LSTM", {}, torch.float32)
    stream = module.stream()
    x = torch.randn(1, 4)
    before = stream.step(x).clone()
    with torch.no_grad():
        module.weight_hh_l0.mul_(2)
        module.bias_ih_l0.zero_()
    stream.reset()
    assert torch.equal(stream.step(x), before)
    assert not torch.allclose(module.stream().step(x), before)


def test_inputs_that_need_gradients_are_read_and_no_more():
    stream = build("GRU", {}, torch.float32).stream()
    y = stream.step(torch.randn(1, 4, requires_grad=True))
    assert not y.requires_grad
    assert not stream.state.requires_grad
