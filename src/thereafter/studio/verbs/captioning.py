"""The verbs of the Captions panel: a caption word by word, with where the network looked and what else was likely.

Shapes: T words and the end, S places.
"""

from __future__ import annotations

import numpy as np

from thereafter.decoding.sources import AnswerSettings, decode_answers, search_answers
from thereafter.errors import OptionError
from thereafter.inspection.trace import record
from thereafter.models.task_net import Memory
from thereafter.models.word_decoder import END
from thereafter.studio.answers.captioning import (
    CaptionedAnswer,
    CaptionStepAnswer,
    HypothesisAnswer,
    LikelyWordAnswer,
)
from thereafter.studio.answers.pixels import PixelsAnswer
from thereafter.studio.verbs.numbers import number, numbers
from thereafter.studio.verbs.pictures import OpenedPicture, packed
from thereafter.task_model import TaskModel
from thereafter.tasks.wording import Wording
from thereafter.vision.captioning.network import Captioner, PictureBatch
from thereafter.vision.pictures.codec import PictureCodec

MOST_BEAM = 10
_LIKELIEST = 6


def caption(model: TaskModel, opened: OpenedPicture, beam: int = 1) -> CaptionedAnswer:
    """The caption of a picture: the likeliest word at every step, or the best of a beam search."""
    net, words, pictures = _parts(model)
    batch = model.task.batch([model.task.prepare(opened.picture, model.codecs)], model.codecs).to(net.device)
    assert isinstance(batch, PictureBatch)
    with net.quietly():
        memory = net.encode(batch)
    ids, kept = _decoded(net, memory, words, beam)
    ended = np.array([*ids, END])
    trace = record(net.given(memory), ended, words.forms(ended), words.forms(range(len(words))), _LIKELIEST)
    weights_TS = trace.arrays.get("attention")
    rows, columns = net.grid
    steps = [
        CaptionStepAnswer(
            word=form.strip(),
            p=number(np.exp(trace["log_prob"][at])),
            weights=None if weights_TS is None else numbers(weights_TS[at].astype(np.float64).round(5)),
            likeliest=[LikelyWordAnswer(text=text.strip(), p=number(p)) for text, p in trace.top(at)],
        )
        for at, form in enumerate(trace.tokens)
    ]
    text = words.decode(ids)
    return CaptionedAnswer(
        text=text,
        name=opened.name,
        count=opened.count,
        pixels=_seen(pictures, batch.pictures[0].cpu().numpy()),
        rows=rows,
        columns=columns,
        steps=steps,
        kept=kept,
        references=list(opened.references),
        right=opened.allows(text),
    )


def check(model: TaskModel) -> None:
    """OptionError where a model is no captioner."""
    _parts(model)


def _decoded(net: Captioner, memory: Memory, words: Wording, beam: int) -> tuple[list[int], list[HypothesisAnswer]]:
    """The ids of the caption without its end, and all captions that a beam search kept."""
    if beam == 1:
        return decode_answers(net, memory, AnswerSettings())[0], []
    (best,) = search_answers(net, memory, beam, best=beam)
    captions = [[token for token in one.tokens if token != END] for one in best]
    kept = [
        HypothesisAnswer(text=words.decode(ids), log_prob=number(sum(one.log_probs)))
        for one, ids in zip(best, captions, strict=True)
    ]
    return captions[0], kept


def _seen(pictures: PictureCodec, encoded: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> PixelsAnswer | None:
    """The pixels that the network read."""
    if pictures.kind != "pixels":
        return None
    return packed(np.moveaxis(encoded, 0, 2)[None].astype(np.uint8))


def _parts(model: TaskModel) -> tuple[Captioner, Wording, PictureCodec]:
    net, words, pictures = model.net, model.codecs.get("words"), model.codecs.get("pictures")
    if not isinstance(net, Captioner) or not isinstance(words, Wording) or not isinstance(pictures, PictureCodec):
        raise OptionError(f"this model was trained to {model.task.name}; expected one trained to caption; pick another")
    return net, words, pictures
