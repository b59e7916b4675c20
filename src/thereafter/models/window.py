"""Models that see the last few tokens and nothing else.

A hidden layer over their vectors; or the mean of them, in which order is lost: that is the point of the comparison.

Shapes: B rows, T steps, W tokens of the window, S = W - 1 + T, E word vector, H features.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.models.base import Ids
from thereafter.models.look import Observer
from thereafter.models.neural import NeuralModel, TextFacts
from thereafter.models.quiet import NeuralState
from thereafter.models.settings import AverageSettings, WindowSettings


@dataclass(frozen=True)
class WindowState(NeuralState):
    """The last W tokens, [B, W]: all that the next prediction depends on."""

    def key(self) -> Hashable:
        return tuple(map(tuple, self.memory["tokens"].tolist()))


class LastTokens(NeuralModel):
    """What such models share: a state that is the window itself."""

    settings: AverageSettings | WindowSettings
    nothing: int
    """What stands in the window where nothing was read."""

    def fresh(self, batch: int) -> WindowState:
        shape = (batch, self.settings.window)
        return WindowState({"tokens": torch.full(shape, self.nothing, dtype=torch.int64, device=self.device)})

    def context_sizes(self, tokens_T: Ids) -> NDArray[np.int64]:
        return np.minimum(super().context_sizes(tokens_T), self.settings.window)

    def _seen(self, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, WindowState]:
        """The tokens in sight of any of the steps, [B, W - 1 + T], and the window after the last."""
        seen_BS = torch.cat([state.memory["tokens"], tokens_BT], dim=1)
        return seen_BS[:, 1:], WindowState({"tokens": seen_BS[:, tokens_BT.shape[1] :].clone()})

    def _dropped(self, h_BTH: Tensor) -> Tensor:
        return F.dropout(h_BTH, self.settings.dropout, self.training)


class WindowModel(LastTokens):
    """f = tanh(A [x_{t-W+1}; ...; x_t] + d),  p = softmax(U f + b)   (Bengio et al. 2003, a neural probabilistic
    language model); with `direct` the head sees the word vectors too: softmax(U f + D [x...] + b).

    Before the first token the window is full of `<s>`.
    """

    settings: WindowSettings

    def __init__(self, settings: WindowSettings, **about: Unpack[TextFacts]) -> None:
        super().__init__(settings, **about)
        size, window = settings.embed or settings.hidden, settings.window
        self.nothing = self.vocabulary_size
        self.embedding = self._make_embedding(size)
        self.hidden = nn.Linear(window * size, settings.hidden)
        self.head = self._make_head(settings.hidden + (window * size if settings.direct else 0), tied=False)

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, None, NeuralState]:
        seen_BS, after = self._seen(tokens_BT, state)
        x_BSE: Tensor = self.embedding(seen_BS)
        if observer is not None:
            x_BSE = observer.words(x_BSE)
        x_BTX = x_BSE.unfold(1, self.settings.window, 1).transpose(2, 3).flatten(2)
        h_BTH = torch.tanh(self.hidden(x_BTX))
        if observer is not None:
            observer.show("hidden", ("step", "unit"), h_BTH[0])
        return (torch.cat([h_BTH, x_BTX], dim=-1) if self.settings.direct else h_BTH), None, after


class AverageModel(LastTokens):
    """f = mean of the vectors of the last W tokens read (`<s>` among them, fewer at the beginning)."""

    settings: AverageSettings
    nothing = -1

    def __init__(self, settings: AverageSettings, **about: Unpack[TextFacts]) -> None:
        super().__init__(settings, **about)
        size = settings.embed or 256
        self.embedding = self._make_embedding(size)
        self.head = self._make_head(size, tied=settings.tied)

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, Tensor | None, NeuralState]:
        seen_BS, after = self._seen(tokens_BT, state)
        there_BS = seen_BS >= 0
        x_BSE, table = self.embedding.lookup(seen_BS.clamp(min=0))
        if observer is not None:
            x_BSE = observer.words(x_BSE)
        x_BSE = x_BSE * there_BS.unsqueeze(-1)
        window = self.settings.window
        mean_BTE = F.avg_pool1d(x_BSE.transpose(1, 2), window, stride=1).transpose(1, 2)
        share_BT = F.avg_pool1d(there_BS.to(x_BSE.dtype), window, stride=1)
        h_BTE = mean_BTE / share_BT.unsqueeze(-1)
        if observer is not None:
            observer.show("mean", ("step", "unit"), h_BTE[0])
        return h_BTE, table if self.settings.tied else None, after
