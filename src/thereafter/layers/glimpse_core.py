"""The layers of a network that sees by glimpses: what is seen where becomes the input of a recurrent layer.

    g = relu(W_g [relu(W_x sensor(l)), relu(W_p l)])        h = cell(g, h)        (Mnih et al. 2014)

Shapes: R paths of glimpses, U units, 2 for x and y.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from thereafter.layers.glimpse import GlimpseSensor
from thereafter.layers.recurrent import Recurrent


class GlimpseCore(nn.Module):
    """To inherit from, beside the network's own class: the layers are the network's own and keep their names."""

    sensor: GlimpseSensor
    what: nn.Linear
    where: nn.Linear
    join: nn.Linear
    reader: Recurrent

    def add_core(self, *, cell: str, hidden: int, read: int, patch: int, scales: int, channels: int) -> None:
        """Make the layers; `read` units for what is seen, and as many for where."""
        self.sensor = GlimpseSensor(patch, scales)
        self.what = nn.Linear(scales * channels * patch**2, read)
        self.where = nn.Linear(2, read)
        self.join = nn.Linear(2 * read, hidden)
        self.reader = Recurrent(cell, hidden, hidden, batch_first=True)

    def glance(self, seen: Tensor, inside: Tensor) -> Tensor:
        """What the recurrent layer reads, [..., U]: of what is seen, the pixels of all patches in a row, 0 to 1, and of
        where, in [-1, 1]."""
        g: Tensor = torch.relu(self.join(torch.relu(torch.cat((self.what(seen), self.where(inside)), -1))))
        return g
