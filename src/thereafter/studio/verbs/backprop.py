"""The verb behind the backpropagation panel: one sentence, forward and back, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.inspection.decay import fit_decay
from thereafter.inspection.gradients import last_loss
from thereafter.language_model import LanguageModel
from thereafter.studio.verbs.tracing import plain

START = "<s>"
"""What stands before every text; it has no piece of its own in a vocabulary."""


def backprop(lm: LanguageModel, text: str, *, limit: int) -> dict[str, Any]:
    """The states of a recurrent model over a text, and what the loss at its last token sends back to each.

    `tokens[t]` is what was read before the state t, `target` the token whose loss it is. `states`: for each layer and
    field the `size` of the state after every step, the `norm` of the gradient in it, and its decay by distance.
    `share[n - 1]`: what is left of the gradient of the recurrent weights when it is cut after n steps. At most `limit`
    tokens are read, and where lines stand alone those of the last line; `left_out` are not.
    """
    ids = lm.encode(text)
    found = last_loss(lm.model, _last_line(ids, getattr(lm.model, "restart", None)), steps=limit)
    pieces = [lm.tokenizer.piece(token) for token in found["token"].tolist()]
    states = []
    # the first layer and the first field are the word vectors, which are read and not carried
    for i, layer in enumerate(found["layer"].tolist()[1:], start=1):
        for k, field in enumerate(found["field"].tolist()[1:], start=1):
            norm_T = found["norm"][i, :, k]
            numbers = {"size": plain(found["size"][i, :, k]), "norm": plain(norm_T)}
            states.append({"layer": layer, "field": field, "decay": decay_of(norm_T[::-1])} | numbers)
    return {
        "tokens": [START, *pieces[:-1]],
        "target": pieces[-1],
        "loss": plain(found.about["loss"]),
        "states": states,
        "share": plain(found["share"]),
        "left_out": len(ids) - len(pieces),
    }


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
