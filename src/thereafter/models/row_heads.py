"""The head's product for some rows at once, with its matrix laid out for them: see `kernels.row_products`.

Shapes: B rows, H features, V words.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.kernels.row_products import can_pack, multiply, pack
from thereafter.layers.heads import WordHead
from thereafter.layers.softmax import Softmax, wide_log_softmax
from thereafter.models.versions import Versions, versions


class RowHead:
    """Laid out when several rows are first predicted, thrown away when the weights have changed."""

    def __init__(self) -> None:
        self._packed: tuple[Versions, Tensor] | None = None

    def log_prob(self, head: WordHead, f_BH: Tensor) -> Tensor:
        """log p of every word, [B, V]."""
        if len(f_BH) < 2 or not isinstance(head, Softmax) or torch.is_grad_enabled() or not can_pack(head.matrix):
            return head.log_prob(f_BH)
        weights, packed = versions([head.matrix]), self._packed  # looked at once: threads may put their own there
        if packed is None or packed[0] != weights:
            packed = self._packed = (weights, pack(head.matrix[: head.words]))
        return wide_log_softmax(multiply(f_BH, packed[1], head.bias))

    def __deepcopy__(self, memo: dict[int, object]) -> RowHead:
        return RowHead()

    def __reduce__(self) -> tuple[type[RowHead], tuple[()]]:
        return RowHead, ()
