"""The verb behind the backpropagation panel: the gradient of one loss in every state of a sentence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.inspection.decay import fit_decay
from thereafter.inspection.gradients import last_loss, verb_flow
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.language_model import LanguageModel
from thereafter.studio.answers.backprop import (
    BackpropAnswer,
    DecayAnswer,
    StateAnswer,
    VerbGradientsAnswer,
    VerbStateAnswer,
)
from thereafter.studio.verbs.numbers import number, numbers

START = "<s>"
"""What stands before every text; it has no piece of its own in a vocabulary."""
Numbers = list[float | None]


def backprop(lm: LanguageModel, text: str, *, limit: int, name: str = "") -> BackpropAnswer:
    """The states of a recurrent model over a text, and the gradient of the loss at its last token in each.

    At most `limit` tokens are read, and where lines stand alone those of the last line; `left_out` are not. `name` is
    what the answer calls the model.
    """
    ids = lm.encode(text)
    flow = last_loss(lm.model, _last_line(ids, lm.model.facts.restart), steps=limit)
    pieces = [lm.tokenizer.piece(token) for token in flow["token"].tolist()]
    states = []
    for i, layer, k, field in _carried(flow):
        norm_T = flow["norm"][i, :, k]
        direct, gates = _along_gates(flow, i, field)
        states.append(
            StateAnswer(
                layer=layer,
                field=field,
                size=numbers(flow["size"][i, :, k]),
                norm=numbers(norm_T),
                direct=direct,
                gates=gates,
                decay=decay_of(norm_T[::-1]),
            )
        )
    loss = float(flow.about["loss"])
    return BackpropAnswer(
        model=name,
        tokens=[START, *pieces[:-1]],
        target=pieces[-1],
        loss=number(loss),
        p=number(np.exp(-loss)),
        states=states,
        share=numbers(flow["share"]),
        left_out=len(ids) - len(pieces),
    )


def verb_gradients(lm: LanguageModel, *, between: int, count: int, name: str = "") -> VerbGradientsAnswer:
    """The same at the verbs of new agreement sentences: means over `count` of them, `between` words after the subject.

    Here `norm`, `direct` and `gates` go by steps back from the verb; the last is the state that has just read the
    subject.
    """
    flow = verb_flow(SentenceReader.of(lm.model, lm.tokenizer, lm.config), distance=between, count=count)
    states = []
    for i, layer, k, field in _carried(flow):
        norm_D = flow["norm"][i, :, k]
        direct, gates = _along_gates(flow, i, field)
        states.append(
            VerbStateAnswer(
                layer=layer, field=field, norm=numbers(norm_D), direct=direct, gates=gates, decay=decay_of(norm_D)
            )
        )
    return VerbGradientsAnswer(
        model=name,
        sentences=flow.about["losses"],
        right=number(flow.about["right"]),
        loss=number(flow.about["loss"]),
        states=states,
    )


def _carried(flow: Measurement) -> list[tuple[int, str, int, str]]:
    """Every layer and field whose state is carried on. The first layer and the first field are the word vectors, which
    are read and not carried."""
    layers, fields = flow["layer"].tolist(), flow["field"].tolist()
    return [(i, layers[i], k, fields[k]) for i in range(1, len(layers)) for k in range(1, len(fields))]


def _along_gates(flow: Measurement, i: int, field: str) -> tuple[Numbers | None, Numbers | None]:
    """Of a memory with a direct path: the gradient that comes along it alone, and the mean product of its gates."""
    memory = "c" if "c" in flow["field"].tolist() else "h"
    if field != memory or np.isnan(flow["gates"][i]).all():
        return None, None
    return numbers(flow["direct"][i]), numbers(flow["gates"][i])


def _last_line(ids: NDArray[np.int32], end: int | None) -> NDArray[np.int32]:
    """The tokens after the last line end but one, which closes the text; all of them where there is no such token."""
    ends: list[int] = [] if end is None else np.flatnonzero(ids[:-1] == end).tolist()
    return ids[ends[-1] + 1 :] if ends else ids


def decay_of(norm_D: NDArray[np.floating]) -> DecayAnswer | None:
    """How a norm decays with the distance, as `inspection.decay` describes it; None where a number is not finite."""
    if not np.isfinite(norm_D).all():
        return None
    decay = fit_decay(norm_D)
    return DecayAnswer(
        verdict=decay.verdict,
        share=number(decay.share),
        distance=decay.distance,
        under=decay.under,
        rate=float(decay.rate),
        words=str(decay),
        measured=decay.measured(),
    )
