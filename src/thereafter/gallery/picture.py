"""One entry of the gallery: which picture, after whom, how it is made from the gallery's models; example and sources.

The running example is as near to the book's as the words of `agreement` come. The book's trophy was won by athletes and
does not fit into its case; most of those words no sentence of the corpus has. Ours keeps the build: a singular
subject, a relative clause with a plural noun in it, then the verb, as many words later as the gallery's models were
trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thereafter.figures.figure import Figure
    from thereafter.gallery.models import Models


@dataclass(frozen=True)
class GalleryPicture:
    """`source`: whose picture or claim it is after, such as "Elman (1990)". `build` may train a model by asking for it.

    `claim` reads off the figure's numbers whether what the source claims shows in them, as a sentence for the caption.
    """

    name: str
    source: str
    build: Callable[[Models], Figure]
    claim: Callable[[Figure], str] | None = None


BEFORE_VERB = "the trophy that the tall senators from the old city had admired"
SENTENCE = f"{BEFORE_VERB} was very heavy ."
IN_PLURAL = SENTENCE.replace("trophy", "trophies").replace("was", "were")
SUBJECT, VERB = (SENTENCE.split().index(word) for word in ("trophy", "was"))


BOOK = "the chapter “RNNs and LSTMs” of the book “Predicting the Next Word: From Shannon to ChatGPT”"
LECTURE = "the lecture notes “Recurrent Networks” after Justin Johnson's “Deep Learning for Computer Vision”"
TRANSFORMERS = "the chapter “Recurrent Networks and Transformers” after Jurafsky and Martin"
ARTICLE = "the article “From counting word pairs to networks with memory”"

SEQUENCES = "the chapter “Working with Sequences” of the book “Dive into Deep Learning”"


def after_book(papers: str = "") -> str:
    """The book, and the papers its picture goes back to.

    >>> after_book("Elman (1990)").startswith("Elman (1990) and the chapter")
    True
    """
    return f"{papers} and {BOOK}" if papers else BOOK
