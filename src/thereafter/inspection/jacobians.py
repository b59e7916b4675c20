"""One-step Jacobians of a recurrent layer, their products over time, and what truncation leaves of a gradient.

    J_t = d s_t / d s_{t-1},   s = h, or (h, c) one below the other;    d s_T / d s_t = J_T J_{T-1} ... J_{t+1}

The direct path is compared with the whole product. On it a gate alone multiplies the memory: c_t = f_t c_{t-1} + ...
in an LSTM (Hochreiter and Schmidhuber 1997), h_t = (share of the old state) h_{t-1} + ... in a GRU, so that

    direct(T, t) = diag(f_T f_{T-1} ... f_{t+1})

Everything else of d c_T / d c_t goes through h, the recurrent matrix and the slopes of the gates. In minGRU and minLSTM
there is nothing else.

Truncated backpropagation works through a text in pieces of n steps: the state is carried from piece to piece, its
gradient is not. With g the gradient of the recurrent weights over the whole text and g_n the one taken in pieces:

    share(n) = |g_n| / |g|,    cosine(n) = g_n . g / (|g_n| |g|)

A share above 1 is possible: what is left out may have pointed the other way.

Shapes: T steps, S size of the state (all fields), M size of the memory (c, or h where there is no c), G gate rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base import progress
from thereafter.errors import OptionError
from thereafter.inspection.gradients import Decay, fit_decay, reach
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import TextRows, cut_rows, longest, model_name, recurrent, still_copy
from thereafter.models.base import Ids
from thereafter.models.look import LayerLook, Steps
from thereafter.models.neural import NeuralModel

JACOBIANS = "jacobians"


def layer_jacobians(steps: Steps) -> Tensor:
    """J_t of every step of a layer, [T, S, S]: how the state after the step changes with the state before it."""
    count = steps.z_BTG.shape[1]
    with torch.no_grad():
        return torch.stack([torch.func.jacrev(steps.again, 1)(t, steps.before(t, 0), 0) for t in range(count)])


def jacobians(
    model: object, ids: Ids, *, steps: int | None = None, ends: int = 4, name: str = "", text: str = ""
) -> Measurement:
    """One-step Jacobians over one row of a text, and their products over 1 ... `steps` steps.

    Arrays: `singular` [layer, step, rank] and `radius` [layer, step], singular values and spectral radius of each J_t;
    `gain` [layer, span], the largest singular value of the product over so many steps; of the memory's own block
    (c, or h where there is no c) `full` and `direct` [layer, span], root mean square singular values of the whole
    product and of the direct path. All products are means over `ends` last steps; NaN where a cell has no direct path.
    """
    original = recurrent(model, "a Jacobian from state to state")
    span = reach(longest(original, ids), steps)
    rows = cut_rows(original, ids, least=span + 1, most=span + ends, rows=1)
    still = still_copy(original)
    with torch.no_grad():
        look = still.look(rows.inputs_BT, still.fresh(1), nodes=True)
    layers = [(layer, layer.steps) for layer in look.layers.values() if layer.steps is not None]
    with progress.task("Jacobians", total=len(layers) * rows.steps) as advance:
        measured = [_measure(layer, steps, span, advance) for layer, steps in layers]
    about = {"model": name or model_name(model), "text": text, "distance": span, "steps": rows.steps}
    about |= {"memory": [layer.fields[-1] for layer, _ in layers], "context": original.context}
    spans = np.arange(1, span + 1)
    arrays = {key: _stack([one[key] for one in measured]) for key in measured[0]}
    labels = {"layer": np.array([layer.name for layer, _ in layers]), "span": spans}
    return Measurement.of(JACOBIANS, arrays | labels, about)


def jacobian_decays(measured: Measurement) -> dict[tuple[str, str], Decay]:
    """The decay of `gain`, `full` and `direct` of every layer, where there is one."""
    named = {}
    for i, layer in enumerate(measured["layer"].tolist()):
        for key in ("gain", "full", "direct"):
            if not np.isnan(measured[key][i]).any():
                named[layer, key] = fit_decay(measured[key][i], measured["span"])
    return named


def _measure(
    layer: LayerLook, recurrence: Steps, span: int, advance: progress.Advance
) -> dict[str, NDArray[np.float64]]:
    all_TSS = layer_jacobians(recurrence)
    steps = len(all_TSS)
    singular_TS = torch.linalg.svdvals(all_TSS)
    radius_T = torch.linalg.eigvals(all_TSS).abs().amax(1)
    advance(steps / 2)
    memory = slice(-layer.arrays[layer.fields[-1]].shape[-1], None)  # c comes last, and is all there is without it
    kept_BTM = layer.kept_BTM
    last = range(span - 1, steps)
    gain, full, direct = (np.full((len(last), span), np.nan) for _ in range(3))
    for row, end in enumerate(last):
        whole_SS = torch.eye(all_TSS.shape[1], dtype=all_TSS.dtype, device=all_TSS.device)
        kept_M = torch.ones((), dtype=all_TSS.dtype, device=all_TSS.device)
        for back in range(span):
            whole_SS = whole_SS @ all_TSS[end - back]
            gain[row, back] = torch.linalg.matrix_norm(whole_SS, 2)
            block_MM = whole_SS[memory, memory]
            # root mean square singular value: what a direction drawn at random is stretched by
            full[row, back] = block_MM.square().sum().div(len(block_MM)).sqrt()
            if kept_BTM is not None:
                kept_M = kept_M * kept_BTM[0, end - back]
                direct[row, back] = kept_M.square().mean().sqrt()
        advance(steps / 2 / len(last))
    each_step = {"singular": singular_TS.cpu().numpy(), "radius": radius_T.cpu().numpy()}
    return each_step | {"gain": gain.mean(0), "full": full.mean(0), "direct": direct.mean(0)}


def _stack(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Layers one below the other, the smaller padded with NaN."""
    shape = tuple(max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True))
    whole = np.full((len(parts), *shape), np.nan)
    for row, part in zip(whole, parts, strict=True):
        row[tuple(map(slice, part.shape))] = part
    return whole


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
    about = {"model": name or model_name(model), "text": text, "steps": whole, "rows": len(text_rows.mask_BT)}
    about |= {"context": original.context}
    return Measurement.of(TRUNCATION, arrays, about)


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
