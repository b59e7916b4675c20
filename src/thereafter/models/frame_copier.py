"""The last frame again: what every predictor of frames has to beat.

    p_k = e_k + (1 - 2 e_k) x_T        e_k the smoothing of step k, solved on the training clips

`evaluation/frame_measures.py` has the best e_k. Shapes: B clips, T frames that are read, K frames ahead, H rows, W
columns.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.layers.frame_encoder import as_floats
from thereafter.models.frame_predictor import FrameBatch
from thereafter.models.task_net import TaskNet

_FIRST = 0.05  # a smoothing before any clip was seen


class FrameCopier(TaskNet[FrameBatch]):
    """See the module's equation; beyond its last step the smoothing is that of the last."""

    smoothing_K: Tensor

    def __init__(self, ahead: int) -> None:
        super().__init__()
        self.ahead = ahead
        self.register_buffer("smoothing_K", torch.full((ahead,), _FIRST))

    @property
    def device(self) -> torch.device:
        return self.smoothing_K.device

    def nats(self, batch: FrameBatch) -> Tensor:
        if batch.future_BKHW is None:
            raise OptionError("a batch without the frames that came next has no loss; expected them")
        z_BKHW = self.logits(batch)
        return F.binary_cross_entropy_with_logits(z_BKHW, as_floats(batch.future_BKHW, z_BKHW), reduction="sum")

    def logits(self, batch: FrameBatch, ahead: int | None = None) -> Tensor:
        """The log odds of every pixel of the next frames, [B, K, H, W]: `ahead`, else as many as the batch has."""
        if ahead is None:
            ahead = self.ahead if batch.future_BKHW is None else batch.future_BKHW.shape[1]
        at_K = torch.arange(ahead, device=self.device).clamp_max(self.ahead - 1)
        smoothing_K11 = self.smoothing_K[at_K, None, None]
        last_B1HW = as_floats(batch.read_BTHW[:, -1:], self.smoothing_K)
        return torch.logit(smoothing_K11 + (1 - 2 * smoothing_K11) * last_B1HW)
