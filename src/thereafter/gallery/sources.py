"""The books and articles whose pictures the gallery draws again from measurements, by their public names."""

from __future__ import annotations

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
