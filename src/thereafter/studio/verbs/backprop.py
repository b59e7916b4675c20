"""The verb behind the backpropagation panel: one sentence, forward and back, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.inspection.decay import fit_decay
from thereafter.inspection.gradients import last_loss
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.reader import Reader
from thereafter.inspection.verb_flow import verb_flow
from thereafter.language_model import LanguageModel
from thereafter.studio.verbs.tracing import plain

START = "<s>"
"""What stands before every text; it has no piece of its own in a vocabulary."""


def backprop(lm: LanguageModel, text: str, *, limit: int) -> dict[str, Any]:
    """The states of a recurrent model over a text, and what the loss at its last token sends back to each.

    `tokens[t]` is what was read before the state t, `target` the token whose loss it is. `states`: for each layer and
    field the `size` of the state after every step, the `norm` of the gradient in it, and its decay by distance; of a
    memory with a direct path the norm of what comes along its `gates` alone as `direct`, and their mean product.
    `share[n - 1]`: what is left of the gradient of the recurrent weights when it is cut after n steps. At most `limit`
    tokens are read, and where lines stand alone those of the last line; `left_out` are not.
    """
    ids = lm.encode(text)
    found = last_loss(lm.model, _last_line(ids, lm.model.facts.restart), steps=limit)
    pieces = [lm.tokenizer.piece(token) for token in found["token"].tolist()]
    states = []
    # the first layer and the first field are the word vectors, which are read and not carried
    for i, layer in enumerate(found["layer"].tolist()[1:], start=1):
        for k, field in enumerate(found["field"].tolist()[1:], start=1):
            norm_T = found["norm"][i, :, k]
            numbers = {"size": plain(found["size"][i, :, k]), "norm": plain(norm_T)} | _along_gates(found, i, field)
            states.append({"layer": layer, "field": field, "decay": decay_of(norm_T[::-1])} | numbers)
    return {
        "tokens": [START, *pieces[:-1]],
        "target": pieces[-1],
        "loss": plain(found.about["loss"]),
        "p": plain(np.exp(-found.about["loss"])),
        "states": states,
        "share": plain(found["share"]),
        "left_out": len(ids) - len(pieces),
    }


def at_verbs(lm: LanguageModel, *, between: int, count: int) -> dict[str, Any]:
    """The same at the verbs of new agreement sentences: means over `count` of them, `between` words after the subject.

    Here `norm`, `direct` and `gates` go by steps back from the verb, the last being the state that has just read the
    subject. `right`: the share of the verbs whose right form is the likelier one.
    """
    flow = verb_flow(Reader.of(lm.model, lm.tokenizer, lm.config), distance=between, count=count)
    states = []
    for i, layer in enumerate(flow["layer"].tolist()[1:], start=1):
        for k, field in enumerate(flow["field"].tolist()[1:], start=1):
            norm_D = flow["norm"][i, :, k]
            numbers = {"norm": plain(norm_D)} | _along_gates(flow, i, field)
            states.append({"layer": layer, "field": field, "decay": decay_of(norm_D)} | numbers)
    measured = {"right": plain(flow.about["right"]), "loss": plain(flow.about["loss"])}
    return {"states": states, "sentences": flow.about["losses"]} | measured


def _along_gates(found: Measurement, i: int, field: str) -> dict[str, Any]:
    memory = "c" if "c" in found["field"].tolist() else "h"
    there = field == memory and not np.isnan(found["gates"][i]).all()
    return {key: plain(found[key][i]) if there else None for key in ("direct", "gates")}


def _last_line(ids: NDArray[np.int32], end: int | None) -> NDArray[np.int32]:
    """What comes behind the last line end but one that closes the text; all of it where there is no such token."""
    ends: list[int] = [] if end is None else np.flatnonzero(ids[:-1] == end).tolist()
    return ids[ends[-1] + 1 :] if ends else ids


def decay_of(norm_D: NDArray[Any]) -> dict[str, Any] | None:
    """What is left of a norm by distance, as `inspection.decay` says it; none where a number is none."""
    if not np.isfinite(norm_D).all():
        return None
    decay = fit_decay(norm_D)
    return {
        "verdict": decay.verdict,
        "share": plain(decay.share),
        "distance": decay.distance,
        "under": decay.under,
        "rate": float(decay.rate),
        "words": str(decay),
        "measured": decay.measured(),
    }
