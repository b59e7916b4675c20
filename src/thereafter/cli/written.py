"""What a command says where plain text was brought into the form of a model's own text, and where words are unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from thereafter.terminal import print_caution

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel


def tell_written(lm: LanguageModel, *texts: str) -> None:
    """On standard error: the first text that was rewritten, in the form the model reads."""
    if lm.writing is None:
        return
    rewritten = next((text for text in texts if lm.writing.applies(text)), None)
    if rewritten is not None:
        form = _short(lm.normalise(rewritten))
        typer.echo(f"read as {form!r}, as the model's own text was written (--as-written: as it is)", err=True)


def tell_unknown(lm: LanguageModel, *texts: str) -> None:
    """On standard error: a warning where many words are unknown."""
    from thereafter.evaluation.unknown import unknown_caution, unknown_share_of

    caution = unknown_caution(unknown_share_of(lm.tokenizer, map(lm.normalise, texts)))
    if caution:
        print_caution(f"caution: {caution}", err=True)


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:80].rsplit(" ", 1)[0] + " ..."
