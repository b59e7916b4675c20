"""A program written for torch.nn.LSTM, with one line changed: same weights, same loss, same gradients.

python examples/drop_in.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import thereafter.nn


class Tagger(nn.Module):
    """A two-layer bidirectional tagger as one finds it everywhere; `recurrent` is the one line that changes."""

    def __init__(self, words: int, tags: int, recurrent: Callable[..., Any]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 32)
        self.lstm = recurrent(32, 48, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(96, tags)

    def forward(self, words_BT: Tensor, tags_BT: Tensor) -> Tensor:
        features, _ = self.lstm(self.embedding(words_BT))
        return F.cross_entropy(self.head(features).flatten(0, 1), tags_BT.flatten())


def main() -> dict[str, float]:
    """The largest differences between the two programs, in float64."""
    torch.manual_seed(0)
    words_BT, tags_BT = torch.randint(500, (8, 25)), torch.randint(17, (8, 25))

    before = Tagger(500, 17, torch.nn.LSTM).double()
    after = Tagger(500, 17, thereafter.nn.LSTM).double()  # the one line
    after.load_state_dict(before.state_dict())  # a checkpoint trained with torch

    losses = [model(words_BT, tags_BT) for model in (before, after)]
    for loss in losses:
        loss.backward()
    pairs = zip(before.named_parameters(), after.named_parameters(), strict=True)
    differences = {"loss": float((losses[0] - losses[1]).detach().abs())}
    for (name, theirs), (own_name, ours) in pairs:
        if name != own_name or theirs.grad is None or ours.grad is None:
            raise SystemExit(f"{own_name} does not take the place of {name}")
        differences[name] = float((theirs.grad - ours.grad).abs().max())

    print(f"loss with torch.nn.LSTM       {losses[0].item():.12f}")
    print(f"loss with thereafter.nn.LSTM  {losses[1].item():.12f}")
    worst = max(differences, key=lambda name: differences[name])
    print(f"{len(differences) - 1} gradients; the largest difference is {differences[worst]:.1e} ({worst})")

    before.load_state_dict(after.state_dict())  # and back again
    traced = after.lstm.trace(after.embedding(words_BT))
    forget = traced.records["l0"]["forget"]
    print(f"and now open to view: the first layer's forget gate is {forget.mean().item():.3f} on average")
    return differences


if __name__ == "__main__":
    main()
