"""Every pixel by itself: what a network that draws has to beat.

    p(x) = product over pixels of p^x (1 - p)^(1 - x),      p = (sum of intensities + 1/2) / (pictures + 1)

p is counted on the training pictures; the half keeps a pixel that was never lit possible. Nothing is hidden, so that
this is -log p(x) itself and no bound. Shapes: B pictures, C channels, H rows, W columns.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.models.drawer import Bound, DrawingBatch, drawn_pixels
from thereafter.models.task_net import TaskNet


class LonePixels(TaskNet[DrawingBatch]):
    """See the module's equation; `solve` finds its chances."""

    chance_CHW: Tensor

    def __init__(self, *, height: int, width: int, channels: int = 1) -> None:
        super().__init__()
        self.register_buffer("chance_CHW", torch.full((channels, height, width), 0.5))

    @property
    def device(self) -> torch.device:
        return self.chance_CHW.device

    def solve(self, sums_CHW: Tensor, pictures: int) -> None:
        """Take the chances from the sums of the intensities 0 to 1 of so many pictures."""
        self.chance_CHW.copy_((sums_CHW + 0.5) / (pictures + 1))

    def nats(self, batch: DrawingBatch) -> Tensor:
        return self.bound(batch).pixels_B.sum()

    def bound(self, batch: DrawingBatch) -> Bound:
        """-log p of every picture, exactly; no strokes."""
        x_BCHW = drawn_pixels(batch, self.chance_CHW, anew=self.training)
        p_BCHW = self.chance_CHW.expand_as(x_BCHW)
        nats_B = F.binary_cross_entropy(p_BCHW, x_BCHW, reduction="none").sum((1, 2, 3))
        return Bound(nats_B, nats_B.new_zeros(len(nats_B), 0))

    def sample(self, count: int, seed: int = 0) -> Tensor:
        """The chance of every pixel, which is the same in all pictures, [count, C, H, W]."""
        return self.chance_CHW.expand(count, -1, -1, -1)
