"""Where a gradient can be read off inside a neural model: word vectors, states after every step, residual streams.

Shapes: B rows, T steps, S the size of a node, M the size of a memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from thereafter.models.look import LayerLook, Look
from thereafter.models.neural import NeuralModel


@dataclass(frozen=True)
class GradientNode:
    """One field of one layer over time."""

    look: LayerLook
    field: str

    @property
    def layer(self) -> str:
        return self.look.name

    @property
    def parts(self) -> list[Tensor]:
        """The tensors it is made of: one for each step, or for each piece that was read at once."""
        return self.look.nodes[self.field]

    @property
    def kept_BTM(self) -> Tensor | None:
        """The factor of every step on the direct path, where this is a memory that has one."""
        return self.look.kept_BTM if self.field == self.look.fields[-1] else None

    def join(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """Gradients of the parts as one [B, T, S]; where the loss does not depend on a part it is 0."""
        return self.look.join(
            [torch.zeros_like(p) if g is None else g for p, g in zip(self.parts, gradients, strict=True)]
        )


def run(model: NeuralModel, tokens_BT: Tensor) -> tuple[list[GradientNode], Look]:
    """All nodes of a `still_copy` that reads rows from the very beginning, and the look they come from.

    Every model has its word vectors as the first node, (words, x). A recurrent model adds the fields of every layer,
    such as (l0, h) and (l0, c), a Transformer the residual stream after every block, (block 0, x).
    """
    with torch.enable_grad():
        look = model.look(tokens_BT, model.fresh(len(tokens_BT)), nodes=True)
    return [GradientNode(layer, field) for layer in look.layers.values() for field in layer.fields], look


def gradients_of(loss: Tensor, nodes: Sequence[GradientNode]) -> list[Tensor]:
    """d loss / d node of every row and step, [B, T, S] for each node."""
    parts = [part for node in nodes for part in node.parts]
    each = iter(torch.autograd.grad(loss, parts, retain_graph=True, allow_unused=True))
    return [node.join([next(each) for _ in node.parts]) for node in nodes]
