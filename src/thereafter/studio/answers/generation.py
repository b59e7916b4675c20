"""Answers of `generate`: a whole text, or one piece of a text that grows."""

from __future__ import annotations

from thereafter.serving.schema import Answer


class GenerateAnswer(Answer):
    """`text` is the prompt and what the model says after it; `tokens` were drawn."""

    text: str
    tokens: int


class LikelyAnswer(Answer):
    """A token that may come next, and its probability."""

    text: str
    p: float | None


class PieceAnswer(Answer):
    """What there is to see after a token: its `number`, the `text` that is certain by it, `state` a row of h for each
    layer (no rows where the model has none), `top` the likeliest next tokens."""

    number: int
    text: str
    state: list[list[float | None]]
    top: list[LikelyAnswer]
