"""Where a gradient can be read off inside a neural model: word vectors, states after every step, residual streams.

Shapes: B rows, T steps, S the size of a node, E word vector, H features.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from thereafter.inspection.unrolling import run_layers
from thereafter.layers.embedding import Embedding
from thereafter.models.neural import NeuralModel
from thereafter.models.recurrent import RecurrentModel
from thereafter.models.transformer import TransformerModel

WORDS = "words"
Kind = TypeVar("Kind", bound=NeuralModel)


@dataclass(frozen=True)
class Node:
    """One layer's field over time: a tensor [B, S] for each step, or one [B, before + T, S] for all.

    `gates`: the factor of every step on the direct path, [B, S] each, where this is a memory that has one.
    """

    layer: str
    field: str
    parts: list[Tensor]
    before: int = 0
    gates: list[Tensor] | None = None

    @property
    def stepwise(self) -> bool:
        return self.parts[0].dim() == 2

    def joined(self, found: list[Tensor | None]) -> Tensor:
        """Gradients of the parts as one [B, T, S]; what the loss does not depend on has none: 0."""
        filled = [torch.zeros_like(p) if g is None else g for p, g in zip(self.parts, found, strict=True)]
        return torch.stack(filled, dim=1) if self.stepwise else filled[0][:, self.before :]


def still_copy(model: Kind) -> Kind:
    """A copy to measure on: evaluation mode, no gradients of weights, float64 since long products leave float32."""
    return deepcopy(model).eval().requires_grad_(False).double()


def run(model: NeuralModel, tokens_BT: Tensor) -> tuple[list[Node], Tensor]:
    """All nodes of a `still_copy` over rows from the very beginning, and the features [B, T, H].

    Every model has its word vectors as the first node, "words". A recurrent model adds the fields of every layer, such
    as (l0, h) and (l0, c), a Transformer the residual stream behind every block, (block 0, x).
    """
    steps = tokens_BT.shape[1]
    with torch.enable_grad(), _watched(model) as watched:
        if isinstance(model, RecurrentModel):
            layers, f_BTH = run_layers(model, watched(tokens_BT))
            nodes = [
                Node(
                    layer.name,
                    field,
                    [getattr(state, field) for state in layer.states[1:]],
                    gates=layer.gates() if field == layer.memory else None,
                )
                for layer in layers
                for field in layer.cell.state_sizes()
            ]
        else:
            with _behind_blocks(model) as nodes:
                f_BTH, _, _ = model.encode(tokens_BT, model.fresh(len(tokens_BT)))
    # a window also reads what stands before the first token; those vectors are no positions of the text
    words = Node(WORDS, "x", [watched.seen[0]], before=watched.seen[0].shape[1] - steps)
    return [words, *nodes], f_BTH


class _Watched(nn.Module):
    """An embedding whose vectors are leaves of the graph, and remembered."""

    def __init__(self, inner: Embedding) -> None:
        super().__init__()
        self.inner, self.seen = inner, list[Tensor]()

    @property
    def weight(self) -> Tensor:
        return self.inner.weight

    @property
    def device(self) -> torch.device:
        return self.inner.device

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BTE: Tensor = self.inner(tokens_BT).detach().requires_grad_()
        self.seen.append(x_BTE)
        return x_BTE

    def lookup(self, tokens_BT: Tensor) -> tuple[Tensor, Tensor]:
        return self(tokens_BT), self.weight


@contextmanager
def _watched(model: NeuralModel) -> Iterator[_Watched]:
    inner = model.embedding
    watched = _Watched(inner)
    model.embedding = watched  # type: ignore[assignment]
    try:
        yield watched
    finally:
        model.embedding = inner


@contextmanager
def _behind_blocks(model: NeuralModel) -> Iterator[list[Node]]:
    """The residual stream behind every block of a Transformer; nothing for models that have none."""
    nodes: list[Node] = []

    def keep(name: str) -> Any:
        return lambda block, given, found: nodes.append(Node(name, "x", [found[0]]))

    blocks = list(model.blocks) if isinstance(model, TransformerModel) else []
    hooks = [block.register_forward_hook(keep(f"block {place}")) for place, block in enumerate(blocks)]
    try:
        yield nodes
    finally:
        for hook in hooks:
            hook.remove()
