"""What truncated backpropagation through time keeps of the gradient.

The text is worked through in pieces of n steps; the state is carried from piece to piece, its gradient is not, as in
training. With g the gradient of the recurrent weights over the whole text and g_n the one taken in pieces:

    share(n) = |g_n| / |g|,    cosine(n) = g_n . g / (|g_n| |g|)

A share above 1 is possible: what is left out may have pointed the other way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from thereafter.base import progress
from thereafter.errors import OptionError
from thereafter.inspection.applies import model_name, recurrent, still_copy
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.text_rows import TextRows, cut_rows, longest
from thereafter.models.base import Ids
from thereafter.models.neural import NeuralModel

TRUNCATION = "truncation"
LENGTHS = (1, 2, 5, 10, 20, 40, 80)
STEPS = 160


def truncation_effect(
    model: object,
    ids: Ids,
    *,
    lengths: Sequence[int] = LENGTHS,
    steps: int | None = None,
    rows: int = 8,
    name: str = "",
    text: str = "",
) -> Measurement:
    """How much of the gradient of each layer's recurrent weights truncation to n steps keeps, for several n.

    Over `rows` rows of at most `steps` tokens (160, or as long as the text or its lines are). Arrays: `share` and
    `cosine` [layer, length]; the last layer is "all". Layers without a recurrent matrix count their input matrix.
    """
    original = recurrent(model, "truncation")
    if not lengths or min(lengths) < 1:
        raise OptionError(f"lengths are {list(lengths)}; expected steps, 1 or more each; try lengths=(5, 20, 80)")
    whole = min(longest(original, ids), steps or STEPS)
    # where lines stand alone few are as long as the longest
    text_rows = cut_rows(original, ids, least=(whole + 1) // 2, most=whole, rows=rows)
    still = still_copy(original).requires_grad_()
    weights = still.recurrent_weights
    tried = sorted({n for n in lengths if n < whole} | {whole})
    with progress.task("truncation", total=len(tried)) as advance:
        gradients = []
        for n in tried:
            gradients.append(_in_pieces(still, text_rows, n, list(weights.values())))
            advance(1)
    pairs = [[_compare(part, full) for part, full in zip(g, gradients[-1], strict=True)] for g in gradients]
    joined = [torch.cat(g) for g in gradients]
    for row, g in zip(pairs, joined, strict=True):
        row.append(_compare(g, joined[-1]))
    both = np.array(pairs).transpose(2, 1, 0)
    arrays = {"share": both[0], "cosine": both[1], "layer": np.array([*weights, "all"]), "length": np.array(tried)}
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(("share", "cosine"), ("layer", "length"))
    axes |= {"layer": ("layer",), "length": ("length",)}
    about = {"model": name or model_name(model), "text": text, "steps": whole, "rows": len(text_rows.mask_BT)}
    about |= {"context": original.context}
    return Measurement(TRUNCATION, arrays, axes, about)


def _in_pieces(model: NeuralModel, rows: TextRows, size: int, weights: list[Tensor]) -> list[Tensor]:
    """The gradient of the whole text's loss in each weight, taken in pieces of `size` steps, each a flat vector."""
    total = [torch.zeros_like(weight) for weight in weights]
    state = model.fresh(len(rows.mask_BT))
    for begin in range(0, rows.steps, size):
        at = (slice(None), slice(begin, begin + size))
        with torch.enable_grad():
            nats, _, state = model.loss(rows.inputs_BT[at], rows.targets_BT[at], state, rows.mask_BT[at])
            parts = torch.autograd.grad(nats, weights)
        total = [old + new for old, new in zip(total, parts, strict=True)]
        state = model.detach(state)
    return [gradient.flatten() for gradient in total]


def _compare(part: Tensor, full: Tensor) -> tuple[float, float]:
    """Share and cosine; a gradient of zeros keeps nothing and points nowhere."""
    long, most = float(part.norm()), float(full.norm())
    return (long / most, float(part @ full) / (long * most)) if long * most > 0 else (0.0, 0.0)
