"""Gradient flow through time: how much of a loss reaches the states of earlier steps.

    norm(layer, d) = mean over ends T and rows of | d loss_T / d h_{T-d} |,   loss_T = -log p(token after step T)

The derivative is the whole one, along every path from the state to that one loss (Pascanu, Mikolov and Bengio 2013).
Dropout is off. Only ends with `distance` steps before them count, so every distance is a mean over the same losses.

Shapes: B rows, T steps, N rows that have a given end, D = distance + 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter import progress
from thereafter.errors import OptionError
from thereafter.inspection.decay import Decay, fit_decay
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.nodes import Node, run, still_copy
from thereafter.inspection.text_rows import Ids, cut_rows, longest, neural

FLOW = "gradient-flow"
DISTANCE = 40
"""How far back is looked unless told otherwise, or the text is shorter."""
SPAN = 24
"""Over how many steps behind the first possible end the ends are spread."""


def gradient_flow(
    model: object,
    ids: Ids,
    *,
    distance: int | None = None,
    ends: int = 6,
    rows: int = 8,
    name: str = "",
    text: str = "",
) -> Measurement:
    """The norm of d loss_T / d state_t for every layer, field and distance T - t, as the measurement "gradient-flow".

    `ids`: one row of tokens, or [rows, steps]. `ends`: how many T in each row. `name` and `text` are for captions.
    Arrays: `norm`, and `low`, `high` (tenth and ninetieth percentile), all [layer, distance, field]; NaN where a layer
    has no such field. The layer "words" is the word vectors, which every model has.
    """
    original = neural(model, "gradient flow")
    distance = reach(longest(original, ids), distance)
    if ends < 1 or rows < 1:
        raise OptionError(f"ends is {ends} and rows is {rows}; expected at least 1 each")
    text_rows = cut_rows(original, ids, least=distance + 1, most=distance + SPAN, rows=rows)
    still = still_copy(original)
    places = np.unique(np.linspace(distance, text_rows.steps - 1, ends).astype(int)).tolist()
    with progress.task("gradients", total=len(places) + 1) as advance:
        nodes, f_BTH = run(still, text_rows.inputs_BT)
        advance(1)
        samples: list[list[NDArray[Any]]] = [[] for _ in nodes]
        for place in places:
            there_N = text_rows.mask_BT[:, place].nonzero().squeeze(1)
            targets_N = text_rows.targets_BT[there_N, place]
            with torch.enable_grad():
                loss = still.head.nll(f_BTH[there_N, place], targets_N).sum()
            for kept, norm_BT in zip(samples, _norms(loss, nodes), strict=True):
                back_ND = norm_BT[there_N][:, place - distance : place + 1].flip(1)
                kept.append(back_ND.cpu().numpy())
            advance(1)
    about = {"model": name or model_name(model), "text": text, "distance": distance, "ends": len(places)}
    about |= {"rows": len(text_rows.mask_BT), "losses": sum(map(len, samples[0])), "context": original.context}
    return _measurement(nodes, [np.concatenate(kept) for kept in samples], about)


def decays(flow: Measurement) -> dict[tuple[str, str], Decay]:
    """The decay of every (layer, field) of a "gradient-flow"."""
    found = {}
    for i, layer in enumerate(flow["layer"].tolist()):
        for k, field in enumerate(flow["field"].tolist()):
            norm_D = flow["norm"][i, :, k]
            if not np.isnan(norm_D).any():
                found[layer, field] = fit_decay(norm_D, flow["distance"])
    return found


def reach(most: int, wanted: int | None) -> int:
    """The distance to look back: the one wanted, or as far as there is text, up to 40.

    >>> reach(13, None), reach(1000, None), reach(13, 20)
    (12, 40, 20)
    """
    if wanted is not None and wanted < 2:
        raise OptionError(f"{wanted} steps back were asked for; expected at least 2; try 20")
    return max(2, min(DISTANCE, most - 1)) if wanted is None else wanted


def model_name(model: object) -> str:
    """What a model is called in captions where nobody gave it a name."""
    return type(model).__name__.removesuffix("Model").lower()


def _norms(loss: torch.Tensor, nodes: list[Node]) -> list[torch.Tensor]:
    """|d loss / d node| of every row and step, [B, T] for each node."""
    parts = [part for node in nodes for part in node.parts]
    found = iter(torch.autograd.grad(loss, parts, retain_graph=True, allow_unused=True))
    return [node.joined([next(found) for _ in node.parts]).norm(dim=2) for node in nodes]


def _measurement(nodes: list[Node], samples: list[NDArray[Any]], about: dict[str, Any]) -> Measurement:
    layers = list(dict.fromkeys(node.layer for node in nodes))
    fields = list(dict.fromkeys(node.field for node in nodes))
    shape = (len(layers), samples[0].shape[1], len(fields))
    norm, low, high = (np.full(shape, np.nan) for _ in range(3))
    for node, found_ND in zip(nodes, samples, strict=True):
        at = (layers.index(node.layer), slice(None), fields.index(node.field))
        norm[at] = found_ND.mean(0)
        low[at], high[at] = np.quantile(found_ND, [0.1, 0.9], axis=0)
    arrays = {"norm": norm, "low": low, "high": high}
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("layer", "distance", "field"))
    labels = {"layer": np.array(layers), "distance": np.arange(shape[1]), "field": np.array(fields)}
    return Measurement(FLOW, arrays | labels, axes | {label: (label,) for label in labels}, about)
