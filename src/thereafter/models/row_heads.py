"""The head's product for some rows at once, with its matrix laid out for them: see `kernels.onednn`, and
`kernels.step.stepper` for one that is stored in fewer bytes.

Shapes: B rows, H features, V words.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.kernels.onednn import can_pack_for_rows, multiply_rows, pack_for_rows
from thereafter.kernels.step.stepper import StoredProduct
from thereafter.kernels.step.storing import Narrow
from thereafter.layers.heads import WordHead
from thereafter.layers.softmax import Softmax, wide_log_softmax
from thereafter.models.quiet import Anew, Versions, versions


class RowHead(Anew):
    """Laid out when several rows are first predicted, thrown away when the weights have changed."""

    def __init__(self, narrow: Narrow | None = None) -> None:
        self._narrow = narrow
        self._packed: tuple[Versions, Tensor] | None = None
        self._stored: tuple[Versions, StoredProduct] | None = None

    def log_prob(self, head: WordHead, f_BH: Tensor) -> Tensor:
        """log p of every word, [B, V]."""
        if self._narrow is not None and f_BH.is_cpu and isinstance(head, Softmax) and not torch.is_grad_enabled():
            return wide_log_softmax(self._product(head, self._narrow)(f_BH))
        if (
            len(f_BH) < 2
            or not isinstance(head, Softmax)
            or torch.is_grad_enabled()
            or not can_pack_for_rows(head.matrix)
        ):
            return head.log_prob(f_BH)
        weights, packed = versions([head.matrix]), self._packed  # looked at once: threads may put their own there
        if packed is None or packed[0] != weights:
            packed = self._packed = (weights, pack_for_rows(head.matrix[: head.words]))
        return wide_log_softmax(multiply_rows(f_BH, packed[1], head.bias))

    def _product(self, head: Softmax, narrow: Narrow) -> StoredProduct:
        weights, stored = versions([head.matrix, head.bias]), self._stored
        if stored is None or stored[0] != weights:
            stored = self._stored = (weights, StoredProduct(head.matrix[: head.words], head.bias, narrow))
        return stored[1]

    def _arguments(self) -> tuple[Narrow | None]:
        return (self._narrow,)
