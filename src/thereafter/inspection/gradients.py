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

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter import progress
from thereafter.errors import OptionError
from thereafter.inspection.decay import Decay, fit_decay
from thereafter.inspection.direct_path import direct_paths
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.nodes import Node, run, still_copy
from thereafter.inspection.text_rows import Ids, TextRows, cut_rows, longest, neural
from thereafter.kinds import listed, recurrent_names
from thereafter.models.recurrent import RecurrentModel
from thereafter.models.state import NeuralState

FLOW = "gradient-flow"
LAST = "last-loss"
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
            for kept, g_BTS in zip(samples, gradients_of(loss, nodes), strict=True):
                back_ND = g_BTS[there_N, place - distance : place + 1].norm(dim=2).flip(1)
                kept.append(back_ND.cpu().numpy())
            advance(1)
    about = {"model": name or model_name(model), "text": text, "distance": distance, "ends": len(places)}
    about |= {"rows": len(text_rows.mask_BT), "losses": sum(map(len, samples[0])), "context": original.context}
    return flow_of(nodes, [np.concatenate(kept) for kept in samples], about)


def last_loss(model: object, ids: Ids, *, steps: int = DISTANCE + 1, name: str = "", text: str = "") -> Measurement:
    """What the loss at the last token of a text sends back to every step, and what truncation would keep of it.

    `ids`: one row of tokens, read from `<s>`; of a longer one the first `steps`. The state after step t has read `<s>`
    and t tokens; the last state expects the last token. Arrays: `norm` and `size`, |d loss / d state_t| and |state_t|,
    both [layer, step, field], NaN where a layer has no such field; `token` [step], the tokens; `gates`, `direct` and
    `additive` [layer, step], those of `direct_path` from the last step back to each. `share` [length]: with
    g_n the gradient of the recurrent weights where the loss goes back n steps and no further, |g_n| / |g|. It is above
    1 where what is left out points the other way.
    """
    original = neural(model, "a gradient through time")
    if not isinstance(original, RecurrentModel):
        raise OptionError(
            f"a gradient from state to state needs a recurrent model and got {model_name(model)!r}; "
            f"try {listed(recurrent_names())}"
        )
    rows = cut_rows(original, ids, least=3, most=max(3, steps), rows=1)
    still = still_copy(original)
    nodes, f_BTH = run(still, rows.inputs_BT)
    with torch.enable_grad():
        loss = still.head.nll(f_BTH[:, -1], rows.targets_BT[:, -1]).sum()
    gradients = gradients_of(loss, nodes)
    norms = [g_BTS[0].norm(dim=1).cpu().numpy() for g_BTS in gradients]
    sizes = [node.joined(list(node.parts)).norm(dim=2)[0].detach().cpu().numpy() for node in nodes]
    arrays = {"norm": lay_out(nodes, norms), "size": lay_out(nodes, sizes)}
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("layer", "step", "field"))
    back_BT = torch.arange(rows.steps - 1, -1, -1, device=f_BTH.device).unsqueeze(0)
    paths = direct_paths(nodes, [g_BTS.flip(1) for g_BTS in gradients], (torch.zeros_like(back_BT[:, :1]), back_BT))
    arrays |= {key: value[:, ::-1] for key, value in paths.items()}
    axes |= dict.fromkeys(paths, ("layer", "step"))
    arrays |= {"share": _shares(still, rows, nodes[1:]), "token": rows.targets_BT[0].cpu().numpy()}
    axes |= {"share": ("length",), "token": ("step",)}
    labels = axis_names(nodes) | {"step": np.arange(rows.steps), "length": np.arange(1, rows.steps + 1)}
    about = {"model": name or model_name(model), "text": text, "loss": loss.item(), "steps": rows.steps}
    return Measurement(LAST, arrays | labels, axes | {label: (label,) for label in labels}, about)


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


def gradients_of(loss: torch.Tensor, nodes: list[Node]) -> list[torch.Tensor]:
    """d loss / d node of every row and step, [B, T, S] for each node."""
    parts = [part for node in nodes for part in node.parts]
    each = iter(torch.autograd.grad(loss, parts, retain_graph=True, allow_unused=True))
    return [node.joined([next(each) for _ in node.parts]) for node in nodes]


def flow_of(nodes: list[Node], samples: list[NDArray[Any]], about: dict[str, Any]) -> Measurement:
    """A "gradient-flow" from the norms [loss, distance] of every node."""
    spread = [np.quantile(norm_ND, [0.1, 0.9], axis=0) for norm_ND in samples]
    arrays = {
        "norm": lay_out(nodes, [norm_ND.mean(0) for norm_ND in samples]),
        "low": lay_out(nodes, [low_D for low_D, _ in spread]),
        "high": lay_out(nodes, [high_D for _, high_D in spread]),
    }
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("layer", "distance", "field"))
    labels = axis_names(nodes) | {"distance": np.arange(samples[0].shape[1])}
    return Measurement(FLOW, arrays | labels, axes | {label: (label,) for label in labels}, about)


def axis_names(nodes: list[Node]) -> dict[str, NDArray[Any]]:
    """The labels of the axes "layer" and "field"."""
    layers, fields = dict.fromkeys(node.layer for node in nodes), dict.fromkeys(node.field for node in nodes)
    return {"layer": np.array(list(layers)), "field": np.array(list(fields))}


def lay_out(nodes: list[Node], values: list[NDArray[Any]]) -> NDArray[Any]:
    """One row of numbers for each node as [layer, number, field]; NaN where a layer has no such field."""
    layers, fields = (labels.tolist() for labels in axis_names(nodes).values())
    table = np.full((len(layers), len(values[0]), len(fields)), np.nan)
    for node, row in zip(nodes, values, strict=True):
        table[layers.index(node.layer), :, fields.index(node.field)] = row
    return table


def _shares(model: RecurrentModel, rows: TextRows, states: list[Node]) -> NDArray[Any]:
    """|g_n| / |g| for n = 1 ... T, from step to step: one way back serves every n. `states` are the nodes of a `run`.

    The state between two steps is all that joins them, so each step is differentiated alone, from the gradient in the
    state behind it to those in the weights and in the state before it. What the weights have got after n steps is g_n.
    """
    named = dict(model.layers.named_parameters())
    # cells without a recurrent matrix count their input matrix, as in `truncation`
    weights = [named[name] for name in named if "weight_hh" in name] or [named[n] for n in named if "weight_ih" in n]
    for weight in weights:
        weight.requires_grad_()
    model.layers.kernel = "reference"  # one step at a time nothing is won by compiling a loop
    total, norms = [torch.zeros_like(weight) for weight in weights], []
    behind: dict[str, torch.Tensor] = {}
    for t in reversed(range(rows.steps)):
        known = {f"{node.field}_{node.layer}": node.parts[t - 1] for node in states} if t else model.fresh(1).memory
        before = {name: part.detach().requires_grad_() for name, part in known.items()}
        with torch.enable_grad():
            f_B1H, _, after = model.encode(rows.inputs_BT[:, t : t + 1], NeuralState(before))
            if behind:
                signal = torch.stack([(after.memory[name] * behind[name]).sum() for name in behind]).sum()
            else:
                signal = model.head.nll(f_B1H[:, 0], rows.targets_BT[:, t]).sum()
            given = [*weights, *before.values()]
            found = torch.autograd.grad(signal, given, allow_unused=True, materialize_grads=True)
        total = [old + new for old, new in zip(total, found, strict=False)]
        behind = dict(zip(before, found[len(weights) :], strict=True))
        norms.append(float(torch.stack([part.norm() for part in total]).norm()))
    return np.array(norms) / norms[-1] if norms[-1] > 0 else np.zeros(len(norms))
