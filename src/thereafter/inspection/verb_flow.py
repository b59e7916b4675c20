"""Gradient flow from a verb back to its subject: the loss at the verb, each sentence from a fresh state.

On running text most losses do not depend on a word far back, and none on a word before a line end. Here every loss
is that of a verb whose form the subject decides, `distance` words before it: a model that has learned the task has a
reason to pass something on. All sentences of one measurement have the same distance.

    norm(layer, k) = mean over sentences of | d loss / d state k steps back |,   k = 0 ... distance

State 0 is the one the verb is expected from, state `distance` the one that has just read the subject. What d loss / d c
and d loss / d h mean: see `gradients`; the direct path of the memory is that of `direct_path`.

Shapes: B sentences, T steps, S size of a state, D = distance + 1.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.evaluation.agreement import verdicts
from thereafter.inspection.applies import neural, still_copy
from thereafter.inspection.direct_path import direct_paths
from thereafter.inspection.gradient_nodes import gradients_of, run
from thereafter.inspection.gradients import flow_of
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.models.neural import NeuralModel
from thereafter.text.agreement import LONGEST, Sentence
from thereafter.text.agreement import sentences as new_sentences

DISTANCE = 10
"""Words between subject and verb by default: as many as the sentences of the ready models have at most."""
COUNT = 200
VERB = "verb"


def verb_flow(
    reader: SentenceReader, sentences: Iterable[Sentence] | None = None, *, distance: int = DISTANCE, count: int = COUNT
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
    paths = direct_paths(nodes, g_BDS, at)
    axes = flow.axes | dict.fromkeys(paths, ("layer", "distance"))
    return Measurement(flow.kind, flow.arrays | paths, axes, about)


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
    inputs = np.zeros((len(chosen), max(map(len, before)) + 1), dtype=np.int64)
    inputs[:, 0] = model.vocabulary_size
    for row, ids in zip(inputs, before, strict=True):
        row[1 : len(ids) + 1] = ids
    return torch.from_numpy(inputs).to(model.device), verb_B, place_B
