"""The verb `count`: the bigram table of a text as it is read, and a sentence drawn from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from thereafter.serving.schema import Asked
from thereafter.studio.answers.counting import CountAnswer
from thereafter.studio.routes.common import LoadedStudio, make_router
from thereafter.studio.studio import Studio

router = make_router()

COUNTED_LIMIT = 4_000
"""Characters of a pasted text: as many as an address of the page holds, so that a link shows the same again."""


class CountAsked(Asked):
    """`corpus`: the four sentences of the books, some of the ready sentences, or the `text` given. `at`: tokens read,
    a sentence end being one; more than there are means all. `alpha` is that of add-alpha. With a `seed` a sentence is
    drawn."""

    corpus: Literal["four", "sentences", "text"] = "four"
    text: Annotated[str, Field(max_length=COUNTED_LIMIT, examples=["the cat sat\nthe dog ate"])] = ""
    at: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    smoothing: Literal["mle", "add-alpha", "kneser-ney"] = "mle"
    alpha: Annotated[float, Field(ge=0.001, le=100)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None


@router.post("/count")
def count(asked: CountAsked, studio: LoadedStudio) -> CountAnswer:
    """The table of word pairs after the first words of a text."""
    from thereafter.studio.verbs.counting import count_pairs

    return count_pairs(_text(asked, studio), asked.at, asked.smoothing, alpha=asked.alpha, seed=asked.seed)


def _text(asked: CountAsked, studio: Studio) -> str:
    from thereafter.ready import models as ready
    from thereafter.serving.shelf import READY
    from thereafter.studio.verbs.counting import FOUR, first_lines

    if asked.corpus == "sentences":
        return first_lines(ready.sentences(studio.shelf.folders[READY])["train"])
    return FOUR if asked.corpus == "four" else asked.text
