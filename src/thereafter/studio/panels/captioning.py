"""The Captions panel: a picture and its caption word by word, with where the network looked and what else was likely.

Pictures are made by rule, held out by a run, or a file of the visitor's. Shapes: T words and the end, S places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from thereafter.decoding.sources import AnswerSettings, decode_answers, search_answers
from thereafter.inspection.trace import record
from thereafter.models.word_decoder import END
from thereafter.serving.schema import Answer
from thereafter.studio.asking import LikelyAnswer, likely, number, numbers, of_studio, of_task_model, wrong_task
from thereafter.studio.panels.pictures import OWN, Number, OwnFile, PixelsAnswer, RunExamples, decode_own, packed
from thereafter.task_model import TaskModel
from thereafter.tasks.lexicon import Wording
from thereafter.vision.captioning.measures import caption_words
from thereafter.vision.captioning.network import Captioner, PictureBatch
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.made_pictures import CAPTION_DRAWS, Scene, captions_of, draw_scene, scene_of
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.picture import Picture, given_array
from thereafter.vision.rules import uniforms

MADE = 10_000
"""Made pictures that can be picked, by number."""
_FIRST_SCENE = 200_000  # the test part of `shapes` begins there: nothing was trained on these
_WORDINGS = 100
_HELD_OUT: RunExamples[CaptionedPicture] = RunExamples(
    "pictures; pick made pictures or one of your own", lambda one: one if isinstance(one, CaptionedPicture) else None
)
_LIKELIEST = 6
SHELF = 8
"""Made pictures that are shown at once."""


class MadePicturesAnswer(Answer):
    """Made pictures from the number `first` on, and what each shows; the last number there is, is `last`."""

    first: int
    last: int
    shows: list[str]
    pixels: PixelsAnswer


class CaptionStepAnswer(Answer):
    """A word that was written; `weights`: how much of the attention each place took, null without attention. The last
    step is the end of the caption."""

    word: str
    p: float | None
    weights: list[float | None] | None
    likeliest: list[LikelyAnswer]


class HypothesisAnswer(Answer):
    """A caption that a beam search kept to its end, and the sum of the log probabilities of its words, in nats."""

    text: str
    log_prob: float | None


class CaptionedAnswer(Answer):
    """A caption of a picture.

    `pixels`: what the network saw, null where it reads features. Places are counted row by row on a grid of `rows` and
    `columns`. `references`: captions that are right, by the rule of a made picture or by whoever wrote them; `right`:
    whether the rule allows this caption, null where there is no rule. `count`: the pictures there are of this source.
    """

    text: str
    name: str
    count: int
    pixels: PixelsAnswer | None
    rows: int
    columns: int
    steps: list[CaptionStepAnswer]
    kept: list[HypothesisAnswer]
    references: list[str]
    right: bool | None


@dataclass(frozen=True)
class OpenedPicture:
    """A picture, captions that are known to be right, and for a made one what it shows. `count`: those of its
    source."""

    picture: Picture
    name: str
    references: tuple[str, ...] = ()
    scene: Scene | None = None
    count: int = 1

    def allows(self, caption: str) -> bool | None:
        """Whether the rule of a made picture allows a caption; None where there is no rule."""
        return None if self.scene is None else tuple(caption_words(caption)) in right_captions(self.scene)


def right_captions(scene: Scene) -> set[tuple[str, ...]]:
    """The words of every sentence that the rule can write about a scene: its wording is drawn so often that none is
    missing."""
    drawn_NK = uniforms(0, np.arange(_WORDINGS), CAPTION_DRAWS).tolist()
    sentences = (caption for drawn in drawn_NK for caption in captions_of(replace(scene, drawn=tuple(drawn))))
    return {tuple(caption_words(sentence)) for sentence in sentences}


@lru_cache(maxsize=64)
def open_made(number: int) -> OpenedPicture:
    """The made picture of a number."""
    scene = scene_of(_FIRST_SCENE + number % MADE)
    name = f"picture {number % MADE}"
    return OpenedPicture(given_array(draw_scene(scene)), name, captions_of(scene), scene, MADE)


def open_held_out(model: TaskModel, number: int) -> OpenedPicture:
    """One of the pictures that a run was validated on, with the captions that people wrote."""
    one, count = _HELD_OUT.pick(model, number)
    return OpenedPicture(one.picture, one.picture.name, one.captions, None, count)


def caption(model: TaskModel, opened: OpenedPicture, beam: int = 1) -> CaptionedAnswer:
    """The caption of a picture: the likeliest word at every step, or the best of a beam search."""
    net, words, pictures = _parts(model)
    batch = model.task.batch([model.task.prepare(opened.picture, model.codecs)], model.codecs).to(net.device)
    assert isinstance(batch, PictureBatch)
    with net.quietly():
        memory = net.encode(batch)
    kept: list[HypothesisAnswer] = []
    if beam == 1:
        ids = decode_answers(net, memory, AnswerSettings())[0]
    else:
        (best,) = search_answers(net, memory, beam, best=beam)
        captions = [[token for token in each.tokens if token != END] for each in best]
        ids = captions[0]
        kept = [
            HypothesisAnswer(text=words.decode(caption), log_prob=number(sum(each.log_probs)))
            for each, caption in zip(best, captions, strict=True)
        ]
    ended = np.array([*ids, END])
    trace = record(net.given(memory), ended, words.forms(ended), words.forms(range(len(words))), _LIKELIEST)
    weights_TS = trace.arrays.get("attention")
    rows, columns = net.grid
    steps = [
        CaptionStepAnswer(
            word=form.strip(),
            p=number(np.exp(trace["log_prob"][at])),
            weights=None if weights_TS is None else numbers(weights_TS[at].astype(np.float64).round(5)),
            likeliest=likely((text.strip(), p) for text, p in trace.top(at)),
        )
        for at, form in enumerate(trace.tokens)
    ]
    text, read_CHW = words.decode(ids), batch.pictures[0].cpu().numpy()
    return CaptionedAnswer.of(
        opened,
        text=text,
        pixels=None if pictures.kind != "pixels" else packed(np.moveaxis(read_CHW, 0, 2)[None].astype(np.uint8)),
        rows=rows,
        columns=columns,
        steps=steps,
        kept=kept,
        references=list(opened.references),
        right=opened.allows(text),
    )


def _parts(model: TaskModel) -> tuple[Captioner, Wording, PictureCodec]:
    net, words, pictures = model.net, model.codecs.get("words"), model.codecs.get("pictures")
    if not isinstance(net, Captioner) or not isinstance(words, Wording) or not isinstance(pictures, PictureCodec):
        raise wrong_task(model, "caption")
    return net, words, pictures


@of_studio("GET", "/tasks/caption/pictures")
def pictures(first: Annotated[int, Field(ge=0, le=MADE - 1)] = 0) -> MadePicturesAnswer:
    """Eight made pictures from a number on, and what each shows."""
    scenes = [scene_of(_FIRST_SCENE + number) for number in range(first, min(first + SHELF, MADE))]
    pixels = np.stack([draw_scene(scene) for scene in scenes])
    return MadePicturesAnswer(first=first, last=MADE - 1, shows=[str(scene) for scene in scenes], pixels=packed(pixels))


@of_task_model("/tasks/caption", "caption")
def caption_of(
    model: TaskModel,
    source: Literal["made", "held-out", "own"] = "made",
    number: Number = 0,
    picture: OwnFile = "",
    beam: Annotated[int, Field(ge=1, le=10)] = 1,
) -> CaptionedAnswer:
    """A caption word by word: probabilities, where the network looked, and captions that are right.

    `source`: "made" pictures, those "held-out" by the run, or the file `picture` in base64; `number` counts the first
    two. `beam` 1 takes the likeliest word at every step.
    """
    _parts(model)  # is it a captioner?
    if source == "own":
        opened = OpenedPicture(decode_own(picture), OWN)
    else:
        opened = open_held_out(model, number) if source == "held-out" else open_made(number)
    return caption(model, opened, beam)
