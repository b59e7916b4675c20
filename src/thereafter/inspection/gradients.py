"""Gradient flow through time: how much of a loss reaches the states of earlier steps.

    norm(layer, d) = mean over ends T and rows of | d loss_T / d h_{T-d} |,   loss_T = -log p(token after step T)

The derivative is the whole one, along every path from the state to that one loss (Pascanu, Mikolov and Bengio 2013).
Of an LSTM, d loss / d h_t holds c_t fixed, and d loss / d c_t lets h_t = o_t tanh(c_t) follow c_t:

    d loss / d c_t = f_{t+1} * d loss / d c_{t+1}  +  o_t (1 - tanh^2 c_t) * d loss / d h_t

its first term being the derivative with h_t held fixed (without peepholes; with them the gates read c_t as well).
Dropout is off. Only ends with `distance` steps before them count, so every distance is a mean over the same losses.
`verb_flow` measures the same at the verbs of sentences.

Shapes: B rows, T steps, N rows that have a given end, D = distance + 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import OptionError
from thereafter.inspection.applies import model_name, neural, recurrent, still_copy
from thereafter.inspection.decay import Decay, fit_decay
from thereafter.inspection.direct_path import direct_paths
from thereafter.inspection.gradient_nodes import GradientNode, gradients_of, run
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.text_rows import TextRows, cut_rows, longest
from thereafter.models.base import Ids
from thereafter.models.look import Look
from thereafter.models.neural import NeuralModel
from thereafter.models.state import NeuralState

FLOW = "gradient-flow"
LAST = "last-loss"
DISTANCE = 40
"""How many steps back are measured by default, where the text is long enough."""
SPAN = 24
"""Over how many steps after the first possible end the ends are spread."""


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
        nodes, look = run(still, text_rows.inputs_BT)
        advance(1)
        samples: list[list[NDArray[np.float64]]] = [[] for _ in nodes]
        for place in places:
            there_N = text_rows.mask_BT[:, place].nonzero().squeeze(1)
            targets_N = text_rows.targets_BT[there_N, place]
            with torch.enable_grad():
                loss = still.head.nll(look.features_BTH[there_N, place], targets_N).sum()
            for norms, g_BTS in zip(samples, gradients_of(loss, nodes), strict=True):
                back_ND = g_BTS[there_N, place - distance : place + 1].norm(dim=2).flip(1)
                norms.append(back_ND.cpu().numpy())
            advance(1)
    about = {"model": name or model_name(model), "text": text, "distance": distance, "ends": len(places)}
    about |= {"rows": len(text_rows.mask_BT), "losses": sum(map(len, samples[0])), "context": original.context}
    return flow_of(nodes, [np.concatenate(norms) for norms in samples], about)


def last_loss(model: object, ids: Ids, *, steps: int = DISTANCE + 1, name: str = "", text: str = "") -> Measurement:
    """What the loss at the last token of a text sends back to every step, and what truncation would keep of it.

    `ids`: one row of tokens, read from `<s>`; of a longer one the first `steps`. The state after step t has read `<s>`
    and t tokens; the last state predicts the last token. Arrays: `norm` and `size`, |d loss / d state_t| and |state_t|,
    both [layer, step, field], NaN where a layer has no such field; `token` [step], the tokens; `gates`, `direct` and
    `additive` [layer, step], those of `direct_path` from the last step back to each. `share` [length]: with
    g_n the gradient of the recurrent weights where the loss goes back n steps and no further, |g_n| / |g|. It is above
    1 where what is left out points the other way.
    """
    original = recurrent(model, "a gradient through time")
    rows = cut_rows(original, ids, least=3, most=max(3, steps), rows=1)
    still = still_copy(original)
    nodes, look = run(still, rows.inputs_BT)
    with torch.enable_grad():
        loss = still.head.nll(look.features_BTH[:, -1], rows.targets_BT[:, -1]).sum()
    gradients = gradients_of(loss, nodes)
    norms = [g_BTS[0].norm(dim=1).cpu().numpy() for g_BTS in gradients]
    sizes = [node.join(node.parts).norm(dim=2)[0].detach().cpu().numpy() for node in nodes]
    arrays = {"norm": lay_out(nodes, norms), "size": lay_out(nodes, sizes)}
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("layer", "step", "field"))
    back_BT = torch.arange(rows.steps - 1, -1, -1, device=loss.device).unsqueeze(0)
    paths = direct_paths(nodes, [g_BTS.flip(1) for g_BTS in gradients], (torch.zeros_like(back_BT[:, :1]), back_BT))
    arrays |= {key: value[:, ::-1] for key, value in paths.items()}
    axes |= dict.fromkeys(paths, ("layer", "step"))
    arrays |= {"share": _shares(still, rows, look), "token": rows.targets_BT[0].cpu().numpy()}
    axes |= {"share": ("length",), "token": ("step",)}
    labels = axis_names(nodes) | {"step": np.arange(rows.steps), "length": np.arange(1, rows.steps + 1)}
    about = {"model": name or model_name(model), "text": text, "loss": loss.item(), "steps": rows.steps}
    return Measurement(LAST, arrays | labels, axes | {label: (label,) for label in labels}, about)


def decays(flow: Measurement) -> dict[tuple[str, str], Decay]:
    """The decay of every (layer, field) of a "gradient-flow"."""
    named = {}
    for i, layer in enumerate(flow["layer"].tolist()):
        for k, field in enumerate(flow["field"].tolist()):
            norm_D = flow["norm"][i, :, k]
            if not np.isnan(norm_D).any():
                named[layer, field] = fit_decay(norm_D, flow["distance"])
    return named


def reach(most: int, wanted: int | None) -> int:
    """The distance to look back: the one wanted, or as far as there is text, up to 40.

    >>> reach(13, None), reach(1000, None), reach(13, 20)
    (12, 40, 20)
    """
    if wanted is not None and wanted < 2:
        raise OptionError(f"{wanted} steps back were asked for; expected at least 2; try 20")
    return max(2, min(DISTANCE, most - 1)) if wanted is None else wanted


def flow_of(nodes: list[GradientNode], samples: list[NDArray[np.float64]], about: Mapping[str, object]) -> Measurement:
    """A "gradient-flow" from the norms [loss, distance] of every node."""
    spread = [np.quantile(norm_ND, [0.1, 0.9], axis=0) for norm_ND in samples]
    arrays = {
        "norm": lay_out(nodes, [norm_ND.mean(0) for norm_ND in samples]),
        "low": lay_out(nodes, [low_D for low_D, _ in spread]),
        "high": lay_out(nodes, [high_D for _, high_D in spread]),
    }
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("layer", "distance", "field"))
    labels = axis_names(nodes) | {"distance": np.arange(samples[0].shape[1])}
    return Measurement(FLOW, arrays | labels, axes | {label: (label,) for label in labels}, dict(about))


def axis_names(nodes: list[GradientNode]) -> dict[str, NDArray[np.str_]]:
    """The labels of the axes "layer" and "field"."""
    layers, fields = dict.fromkeys(node.layer for node in nodes), dict.fromkeys(node.field for node in nodes)
    return {"layer": np.array(list(layers)), "field": np.array(list(fields))}


def lay_out(nodes: list[GradientNode], values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """One row of numbers for each node as [layer, number, field]; NaN where a layer has no such field."""
    layers, fields = (labels.tolist() for labels in axis_names(nodes).values())
    table = np.full((len(layers), len(values[0]), len(fields)), np.nan)
    for node, row in zip(nodes, values, strict=True):
        table[layers.index(node.layer), :, fields.index(node.field)] = row
    return table


def _shares(model: NeuralModel, rows: TextRows, look: Look) -> NDArray[np.float64]:
    """|g_n| / |g| for n = 1 ... T, from step to step: one backward pass serves every n. `look` is that over the rows.

    The state between two steps is all that joins them, so each step is differentiated alone: from the gradient in the
    state after it to those in the weights and in the state before it. What the weights have got after n steps is g_n.
    """
    weights = [weight.requires_grad_() for weight in model.recurrent_weights.values()]
    total, norms = [torch.zeros_like(weight) for weight in weights], []
    after: dict[str, torch.Tensor] = {}
    for t in reversed(range(rows.steps)):
        known = look.state_after(t - 1) if t else model.fresh(1)
        before = {name: part.detach().requires_grad_() for name, part in known.memory.items()}
        with torch.enable_grad():
            step = model.look(rows.inputs_BT[:, t : t + 1], NeuralState(before), nodes=True)
            if after:
                signal = torch.stack([(step.state.memory[name] * after[name]).sum() for name in after]).sum()
            else:
                signal = model.head.nll(step.features_BTH[:, 0], rows.targets_BT[:, t]).sum()
            inputs = [*weights, *before.values()]
            gradients = torch.autograd.grad(signal, inputs, allow_unused=True, materialize_grads=True)
        total = [old + new for old, new in zip(total, gradients, strict=False)]
        after = dict(zip(before, gradients[len(weights) :], strict=True))
        norms.append(float(torch.stack([part.norm() for part in total]).norm()))
    return np.array(norms) / norms[-1] if norms[-1] > 0 else np.zeros(len(norms))
