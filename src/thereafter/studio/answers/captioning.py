"""Answers of the Captions panel: made pictures, and a caption word by word with where the network looked."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.studio.answers.pixels import PixelsAnswer


class MadePicturesAnswer(Answer):
    """Made pictures from the number `first` on, and what each shows; the last number there is, is `last`."""

    first: int
    last: int
    shows: list[str]
    pixels: PixelsAnswer


class LikelyWordAnswer(Answer):
    text: str
    p: float | None


class CaptionStepAnswer(Answer):
    """A word that was written; `weights`: how much of the attention each place took, null without attention. The last
    step is the end of the caption."""

    word: str
    p: float | None
    weights: list[float | None] | None
    likeliest: list[LikelyWordAnswer]


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
