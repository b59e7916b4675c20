"""Steps over series of one length can be recorded as CUDA graphs: their loss moves nothing to the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from thereafter.series.classifying.network import ReaderSettings, SeriesBatch, SeriesClassifier


@pytest.mark.parametrize("encoder", ["gru", "conv"])
def test_a_loss_over_full_rows_moves_no_lengths(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = SeriesClassifier(ReaderSettings(encoder=encoder, hidden=4, layers=1), channels=2, labels=3, gaps=False)
    values_BTC, lengths_B = torch.zeros(5, 6, 2), torch.full((5,), 6)
    batch = SeriesBatch(values_BTC, values_BTC == 0, lengths_B, torch.zeros(5, dtype=torch.int64))
    places = batch.places()
    assert places is not None
    on_device = batch.over({name: one.to("meta") for name, one in places.items()})
    net = net.to("meta")
    move: Any = torch.Tensor.to
    moved: list[torch.Tensor] = []

    def watched(tensor: torch.Tensor, *given: object, **named: object) -> torch.Tensor:
        moved.append(tensor)
        result: torch.Tensor = move(tensor, *given, **named)
        return result

    monkeypatch.setattr(torch.Tensor, "to", watched)
    net.nats(on_device)
    assert not any(one is lengths_B for one in moved)
