"""The mean of word vectors: order is lost, and that is the point of the comparison.

Shapes: B rows, T steps, W tokens of the window, S = W - 1 + T, E word vector.
"""

from __future__ import annotations

from typing import Unpack

from torch import Tensor
from torch.nn import functional as F

from thereafter.layers.embedding import Embedding
from thereafter.models.look import Observer
from thereafter.models.settings import AverageSettings
from thereafter.models.state import NeuralState
from thereafter.models.task_net import TextFacts
from thereafter.models.window import LastTokens


class AverageModel(LastTokens):
    """f = mean of the vectors of the last W tokens read (`<s>` among them, fewer at the beginning)."""

    settings: AverageSettings
    nothing = -1

    def __init__(self, settings: AverageSettings, **about: Unpack[TextFacts]) -> None:
        super().__init__(settings, **about)
        size = settings.embed or 256
        self.embedding = Embedding(
            self.vocabulary_size,
            size,
            drop=settings.dropout_embed,
            init=0.1 if settings.init is None else settings.init,
        )
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
