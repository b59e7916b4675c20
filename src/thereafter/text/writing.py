"""How the training text of a model was written, and other text brought into that form before the model reads it.

Two things may be known of a text: that it was pre-tokenised, and how (`WritingStyle`), else which quotes, apostrophes
and dashes it has (`Typography`). A run keeps both tables in its configuration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from thereafter.config import Table
from thereafter.text.pretokenised import WritingStyle
from thereafter.text.pretokenised_finding import find_style, style_of_run
from thereafter.text.sources import Rewriting, Source, Texts
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.typography import SAMPLE, Typography, find_typography, typography_of_run


class WritingForm(Rewriting, Protocol):
    """A way of writing that text can be brought into."""

    def rewritten(self, text: str) -> str:
        """A whole text in this form."""

    def applies(self, text: str) -> bool:
        """Whether a text is to be rewritten, by its beginning; one that is in the form already is not."""


def describe_writing(source: Source) -> Table:
    """How a training text was written, as tables for the configuration; empty ones where there is nothing to say."""
    style = find_style(source.chunks())
    return _tables(style, find_typography(source.chunks()) if style is None else None)


def describe_writing_of_run(config: Table, tokenizer: Tokenizer) -> Table:
    """The tables of `describe_writing` for a model that goes on from a run: those of the run."""
    return _tables(style_of_run(config, tokenizer), typography_of_run(config))


def writing_of_run(config: Table, tokenizer: Tokenizer) -> WritingForm | None:
    """The form that text is brought into for the model of a run; None where nothing is known of it."""
    style = style_of_run(config, tokenizer)
    return typography_of_run(config) if style is None else style


def stored_writing(config: Table) -> WritingForm | None:
    """The form that a configuration names; a vocabulary is not asked."""
    style = config["text"].get("style")
    return WritingStyle.from_table(style) if style else typography_of_run(config)


def in_style(texts: Texts, source: Source, writing: WritingForm | None) -> Source:
    """A source of these texts, rewritten where it is not in the form yet; named corpora stay as they are."""
    if writing is None or texts.corpus is not None:
        return replace(source, rewriting=None)
    beginning = ""
    for chunk in replace(source, rewriting=None).chunks():
        beginning += chunk
        if len(beginning) > SAMPLE:
            break
    return replace(source, rewriting=writing if writing.applies(beginning) else None)


def texts_in_style(texts: Texts, writing: WritingForm | None) -> Texts:
    """Texts with every part in a form: see `in_style`."""
    return replace(texts, parts={name: in_style(texts, part, writing) for name, part in texts.parts.items()})


def _tables(style: WritingStyle | None, typography: Typography | None) -> Table:
    return {
        "style": {} if style is None else style.to_table(),
        "typography": {} if typography is None else typography.to_table(),
    }
