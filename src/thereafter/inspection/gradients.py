"""Gradient flow through time: how much of a loss reaches the states of earlier steps.

    norm(layer, d) = mean over ends T and rows of | d loss_T / d h_{T-d} |,   loss_T = -log p(token after step T)

The derivative is the whole one, along every path from the state to that one loss (Pascanu, Mikolov and Bengio 2013).
Of an LSTM, d loss / d h_t holds c_t fixed, and d loss / d c_t lets h_t = o_t tanh(c_t) follow c_t:

    d loss / d c_t = f_{t+1} * d loss / d c_{t+1}  +  o_t (1 - tanh^2 c_t) * d loss / d h_t

its first term being the derivative with h_t held fixed (without peepholes; with them the gates read c_t as well).
Dropout is off. Only ends with `distance` steps before them count, so every distance is a mean over the same losses.

`verb_flow` measures the same from a verb back to its subject. On running text most losses do not depend on a word far
back. There every loss is that of a verb whose form the subject decides, `distance` words before it: a model that has
learned the task has a reason to pass something on. All sentences of one measurement have the same distance.

`direct_paths` measures how much of a gradient comes along the gates of the memory alone. The memory s is c in an LSTM,
h in a GRU, minGRU or minLSTM. A step multiplies it by a gate (f in an LSTM, the share of the old state in the others)
and adds something, so that in the backward pass one path does nothing but multiply:

    s_t = gate_t * s_{t-1} + ...      direct(k) = d loss / d s_T * gate_T * gate_{T-1} * ... * gate_{T-k+1}

What is left of d loss / d s_{T-k} went through recurrent matrices (Hochreiter and Schmidhuber 1997).

`Decay` says what is left of a signal by distance in one word, which says what was measured at the farthest distance, as
a share of the value at distance 1, and nothing beyond it:

    exploding    10 times or more
    kept         10 % or more
    fading       1 % or more
    vanishing    under 1 %
    cut off      exactly 0

Distance 0 counts for nothing: there the signal has not been carried yet (a loss looks straight at its own state or its
own residual stream), and no step of time has been gone yet.

Shapes: B rows, T steps, N rows that have a given end, D = distance + 1, S size of a node, M size of a memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base import progress
from thereafter.errors import OptionError
from thereafter.evaluation.agreement import verdicts
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import (
    SentenceReader,
    TextRows,
    cut_rows,
    longest,
    model_name,
    neural,
    padded,
    recurrent,
    still_copy,
)
from thereafter.models.base import Ids
from thereafter.models.look import LayerLook, Look
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import NeuralState
from thereafter.text.agreement import LONGEST, Sentence
from thereafter.text.agreement import sentences as new_sentences

SHARE = 0.01
"""The share of the signal at distance 1 below which it has vanished."""
KEPT = 0.1
"""The share from which on it is kept; ten times as much as there was at distance 1 has exploded."""
Verdict = Literal["vanishing", "fading", "kept", "exploding", "cut off"]
VERDICTS: tuple[Verdict, ...] = ("vanishing", "fading", "kept", "exploding", "cut off")


@dataclass(frozen=True)
class Decay:
    """`share`: what is left at `distance`, the farthest that was measured, of the value at distance 1.

    `verdict` is the word for that share. `under`: the distance from which on every measured value is under 1 %, None
    where that was not seen. `rate`: the factor a step of the power that fits all distances best. It describes a curve
    that is a power and no other, so that no word and no distance is drawn from it.
    """

    verdict: Verdict
    share: float
    distance: int
    under: int | None
    rate: float

    def __str__(self) -> str:
        return f"{self.verdict}, {self.measured()}"

    def measured(self) -> str:
        """What the verdict rests on.

        >>> fit_decay(0.5 ** np.arange(12)).measured(), fit_decay(0.95 ** np.arange(12)).measured()
        ('0.098 % at 11 steps, under 1 % from 8 on', '60 % at 11 steps')
        """
        last = f"{in_words(self.share)} at {self.distance} steps"
        return last if self.under is None else f"{last}, under 1 % from {self.under} on"


def fit_decay(norm_D: NDArray[np.number], distance_D: NDArray[np.number] | None = None) -> Decay:
    """The decay of a norm by distance; the distances are 0, 1, 2, ... unless they are given.

    >>> fit_decay(np.array([5.0, 1.0, 0.4, 0.2, 0.2, 0.2])).verdict
    'kept'
    """
    norm = np.asarray(norm_D, dtype=np.float64)
    distance = np.arange(len(norm)) if distance_D is None else np.asarray(distance_D)
    later = distance >= 1
    norm, distance = norm[later], distance[later].astype(np.int64)
    if len(norm) < 2 or not np.isfinite(norm).all():
        raise OptionError(
            f"the signal is known at {len(norm)} distances of 1 or more, finite at {int(np.isfinite(norm).sum())}; "
            "expected at least 2, all finite; try a longer text or a larger distance"
        )
    there = norm > 0
    rate = math.exp(np.polyfit(distance[there], np.log(norm[there]), 1)[0]) if there.sum() >= 2 else 0.0
    share_D = norm / norm[0] if norm[0] > 0 else np.where(there, np.inf, 0.0)
    above = np.flatnonzero(share_D >= SHARE)
    first_under = int(above[-1]) + 1 if len(above) else 0
    under = int(distance[first_under]) if first_under < len(distance) else None
    share = float(share_D[-1])
    return Decay(_verdict(share), share, int(distance[-1]), under, rate)


def in_words(share: float) -> str:
    """A share as people write it.

    >>> [in_words(share) for share in (0.00042, 0.012, 0.98, 1.0, 3.4, 1234.5)]
    ['0.042 %', '1.2 %', '98 %', '100 %', '3.4 times', '1,234 times']
    """
    if share >= 2:
        return f"{share:,.0f} times" if share >= 10 else f"{share:.1f} times"
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _verdict(share: float) -> Verdict:
    if share == 0:
        return "cut off"
    if share < SHARE:
        return "vanishing"
    if share < KEPT:
        return "fading"
    return "kept" if share < 1 / KEPT else "exploding"


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
    back_BT = torch.arange(rows.steps - 1, -1, -1, device=loss.device).unsqueeze(0)
    paths = direct_paths(nodes, [g_BTS.flip(1) for g_BTS in gradients], (torch.zeros_like(back_BT[:, :1]), back_BT))
    arrays |= {key: value[:, ::-1] for key, value in paths.items()}
    arrays |= {"share": _shares(still, rows, look), "token": rows.targets_BT[0].cpu().numpy()}
    labels = axis_names(nodes) | {"step": np.arange(rows.steps), "length": np.arange(1, rows.steps + 1)}
    about = {"model": name or model_name(model), "text": text, "loss": loss.item(), "steps": rows.steps}
    return Measurement.of(LAST, arrays | labels, about)


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
    labels = axis_names(nodes) | {"distance": np.arange(samples[0].shape[1])}
    return Measurement.of(FLOW, arrays | labels, dict(about))


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


def direct_paths(
    nodes: Sequence[GradientNode], gradients: Sequence[Tensor], at: tuple[Tensor, Tensor]
) -> dict[str, NDArray[np.float64]]:
    """`gates`, `direct` and `additive`, each [layer, distance]; NaN where a layer has no direct path.

    `gates`: the product of gates, mean over units and rows. `direct`: the norm of what comes along the direct path
    alone, mean over rows. `additive`: its share of the gradient in the memory, direct . whole / |whole|^2 over all
    rows; above 1 where the other paths point the other way. `gradients`: those of the nodes by distance, [B, D, S]
    each; `at`: the rows [B, 1] and steps [B, D] they were taken from.
    """
    layers = list(dict.fromkeys(node.layer for node in nodes))
    paths = {key: np.full((len(layers), at[1].shape[1]), np.nan) for key in ("gates", "direct", "additive")}
    for node, whole_BDS in zip(nodes, gradients, strict=True):
        if node.kept_BTM is None:
            continue
        for key, values_D in _along(node.kept_BTM.detach()[at], whole_BDS).items():
            paths[key][layers.index(node.layer)] = values_D.cpu().numpy()
    return paths


def _along(gate_BDS: Tensor, whole_BDS: Tensor) -> dict[str, Tensor]:
    # nothing is multiplied at distance 0, the gate of the last step at 1, and so on
    shifted_BDS = torch.cat([torch.ones_like(gate_BDS[:, :1]), gate_BDS[:, :-1]], dim=1)
    product_BDS = shifted_BDS.cumprod(dim=1)
    direct_BDS = whole_BDS[:, :1] * product_BDS
    share_D = (direct_BDS * whole_BDS).sum(dim=(0, 2)) / whole_BDS.square().sum(dim=(0, 2))
    return {"gates": product_BDS.mean(dim=(0, 2)), "direct": direct_BDS.norm(dim=2).mean(dim=0), "additive": share_D}


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


BETWEEN = 10
"""Words between subject and verb by default: as many as the sentences of the ready models have at most."""
COUNT = 200
VERB = "verb"


def verb_flow(
    reader: SentenceReader, sentences: Iterable[Sentence] | None = None, *, distance: int = BETWEEN, count: int = COUNT
) -> Measurement:
    """The norm of d loss / d state from the verb back to its subject, as a measurement "gradient-flow".

    `sentences`: those with `distance` words between subject and verb are taken, at most `count`; else new ones are
    made, none of which was trained on. Arrays: those of `gradients.gradient_flow` and of `direct_path.direct_paths`.
    `about["right"]` is the share of these verbs whose right form is the likelier one: whether the task was learned.
    """
    original = neural(reader.model, "gradient flow")
    reader.whole_words()
    if not 2 <= distance <= LONGEST:
        raise OptionError(f"{distance} words between subject and verb were asked for; expected 2 to {LONGEST}; try 10")
    if count < 1:
        raise OptionError(f"{count} sentences were asked for; expected at least 1; try 200")
    chosen = _with_known_verb(reader, _choose(sentences, distance, count))
    inputs_BT, verb_B, place_B = _rows(reader, original, chosen)
    still = still_copy(original)
    nodes, look = run(still, inputs_BT)
    row_B = torch.arange(len(chosen), device=inputs_BT.device)
    with torch.enable_grad():
        loss = still.head.nll(look.features_BTH[row_B, place_B], verb_B).sum()
    back_BD = place_B.unsqueeze(1) - torch.arange(distance + 1, device=inputs_BT.device)
    at = (row_B.unsqueeze(1), back_BD)
    g_BDS = [whole_BTS[at] for whole_BTS in gradients_of(loss, nodes)]
    marks = verdicts(original, reader.tokenizer, chosen, context=reader.context, prepare=reader.prepare)
    about = reader.about(
        text=f"{len(chosen):,} {'new ' if sentences is None else ''}sentences of agreement",
        distance=distance,
        at=VERB,
        losses=len(chosen),
        loss=loss.item() / len(chosen),
        right=float(marks.mean()),
        context="line",  # whatever it was trained on, here every sentence is read alone
    )
    flow = flow_of(nodes, [norm.norm(dim=2).detach().cpu().numpy() for norm in g_BDS], about)
    return Measurement.of(flow.kind, flow.arrays | direct_paths(nodes, g_BDS, at), about)


def _choose(sentences: Iterable[Sentence] | None, distance: int, count: int) -> list[Sentence]:
    if sentences is None:
        return list(new_sentences(count, part="test", min_distance=distance, max_distance=distance))
    known = list(sentences)
    chosen = [one for one in known if one.kind == "agreement" and one.distance == distance][:count]
    if not chosen:
        others = sorted({one.distance for one in known})
        there = f"there are {others[0]} to {others[-1]}" if others else "there is no sentence at all"
        raise OptionError(f"no sentence has {distance} words between subject and verb; {there}; try another distance")
    return chosen


def _with_known_verb(reader: SentenceReader, chosen: list[Sentence]) -> list[Sentence]:
    """The sentences whose verb the model knows: the loss of an unknown word is not that of a verb."""
    ids = {one.correct_form: reader.tokenizer.encode(reader.prepare(one.correct_form)) for one in chosen}
    unknown = {form for form, word in ids.items() if len(word) != 1 or word[0] == reader.tokenizer.unknown_id}
    known = [one for one in chosen if one.correct_form not in unknown]
    if not known:
        reader.word(chosen[0].correct_form)  # says what is missing
    return known


def _rows(reader: SentenceReader, model: NeuralModel, chosen: list[Sentence]) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens read before each verb, `<s>` first, padded at the end; the verbs; the last step of each row."""
    before = [reader.ids(" ".join(one.prefix)) for one in chosen]
    verb_B = torch.tensor([reader.word(one.correct_form) for one in chosen], device=model.device)
    place_B = torch.tensor([len(ids) for ids in before], device=model.device)
    inputs = padded([np.concatenate([[model.vocabulary_size], ids]) for ids in before])
    return torch.from_numpy(inputs).to(model.device), verb_B, place_B
