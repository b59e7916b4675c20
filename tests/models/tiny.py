"""Every neural model small and with random weights, for the tests beside this file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from thereafter.models.build import NEURAL, build, settings_of
from thereafter.models.neural import NeuralModel

V, END = 13, 3
SMALL: dict[str, dict[str, Any]] = {
    "average": {"embed": 8, "window": 5},
    "window": {"embed": 6, "hidden": 10, "window": 3},
    "awd-lstm": {"embed": 8, "sizes": (12, 12, 8)},
    "transformer": {"hidden": 8, "layers": 2, "heads": 2, "context": 7},
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [(name, SMALL.get(name, {"hidden": 8})) for name in NEURAL] + [
    ("average", {"embed": 8, "tied": True}),
    ("window", {"embed": 6, "hidden": 10, "direct": True, "head": "adaptive", "cutoffs": (4, 8)}),
    ("rnn", {"sizes": (5, 9), "tied": False, "layer_norm": True, "nonlinearity": "relu"}),
    ("gru", {"hidden": 8, "reset": "before", "head": "adaptive", "cutoffs": (6,)}),
    ("lstm", {"hidden": 8, "layers": 1, "peephole": True, "coupled": True, "connect": "residual"}),
    ("lstm", {"embed": 6, "hidden": 8, "layers": 3, "layer_norm": True}),
    ("transformer", {"hidden": 8, "layers": 1, "heads": 4, "context": 2, "norm": "post", "positions": "learned"}),
]
EVERY = pytest.mark.parametrize(
    ("name", "options"), VARIANTS, ids=lambda value: value if isinstance(value, str) else ""
)
CONTEXTS = pytest.mark.parametrize("context", ["stream", "line"])
TOLERANCE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


def made(name: str, options: dict[str, Any], context: str = "stream", *, seed: int = 0) -> NeuralModel:
    torch.manual_seed(seed)
    model = build(name, settings_of(name)(**options), vocabulary_size=V, context=context, line_end=END)
    with torch.no_grad():  # far enough from 0 that differences show
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model.eval()


def rows(count: int = 3, steps: int = 25, seed: int = 0) -> np.ndarray:
    ids = np.random.default_rng(seed).integers(0, V, (count, steps))
    ids[0, : steps // 2] = np.where(ids[0, : steps // 2] == END, 0, ids[0, : steps // 2])  # a row with a long line
    return ids


def stepped(model: NeuralModel, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log p of what came, token by token, and the last prediction."""
    state = model.start(len(ids))
    logp, found = model.predict(state), np.zeros(ids.shape)
    for t, token_B in enumerate(ids.T):
        found[:, t] = logp[np.arange(len(ids)), token_B]
        logp, state = model.step(token_B, state)
        np.testing.assert_allclose(model.predict(state), logp, **TOLERANCE)
    return found, logp
