"""`thereafter next`: what a model expects after a prompt, and the words that a half-typed one may become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import ArpaTokens, AsWritten, Device, Run, app, load
from thereafter.cli.tables import AsCsv, AsJson, TableFile, print_rows, save_rows, tell_written
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.base.tabular import Row
    from thereafter.decoding.completion_typed import Completions
    from thereafter.decoding.next_tokens import NextToken
    from thereafter.language_model import LanguageModel


@app.command(name="next")
def next_(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="The text so far; no line end is added.")] = "",
    k: Annotated[int, typer.Option("-k", "--k", help="Number of tokens or words to list.")] = 5,
    complete: Annotated[
        bool | None,
        typer.Option(
            "--complete/--no-complete",
            help="Complete the last word, or never. Default: if it is only partly typed.",
            show_default=False,
        ),
    ] = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    out: TableFile = None,
    as_written: AsWritten = False,
    device: Device = "auto",
    tokens: ArpaTokens = "word",
) -> None:
    """List the most likely next tokens after a prompt, with their probabilities.

    If the last word is only partly typed, list the words that begin with it, each with the text to append and its
    probability among them. If it may also be a whole word, show both lists.

    Example: thereafter next runs/book "the cat sat on the" -k 5

    Example: thereafter next runs/book "I beheld the mon"
    """
    lm = load(run, tokens, as_written=as_written, device=device)
    tell_written(lm, prompt)
    completions = _completions(lm, prompt, k, complete)
    alone = completions is not None and (complete or not completions.ending)
    likeliest = [] if alone else lm.next_tokens(prompt, k)
    rows = _rows(lm, prompt, completions, likeliest)
    save_rows(rows, out)
    if print_rows(rows, as_csv=as_csv, as_json=as_json):
        return
    if completions is not None:
        typer.echo(_describe(completions), err=True)
        for one in completions:
            typer.echo(f"{one.p:.6f}  {one.word!r}  + {one.append!r}")
    if completions is not None and likeliest:
        typer.echo(f"next tokens, if {completions.typed.strip()!r} is a whole word:", err=True)
    for token in likeliest:
        typer.echo(f"{token.p:.6f}  {token.text!r}")


def _completions(lm: LanguageModel, prompt: str, k: int, wanted: bool | None) -> Completions | None:
    """Candidate next words, if requested or if the last word is only partly typed."""
    if wanted is False or (wanted is None and (not prompt or prompt[-1].isspace())):
        return None
    completions = lm.complete(prompt, k)
    if wanted and not completions.words:
        reason = f"no word of the model begins with {completions.typed.strip()!r}"
        if not completions.typed.strip():
            reason = f"no word is begun at its end, {prompt[-1:]!r}"
        raise OptionError(f"the prompt cannot be completed: {reason}; expected a half-typed word; try --no-complete")
    return completions if wanted or completions.half_typed else None


def _describe(completions: Completions) -> str:
    """What the words are, and how much of the probability they have."""
    typed = completions.typed.strip()
    beginning = f"words that begin with {typed!r}" if typed else "words"
    text = f"{beginning}, {completions.mass:.3g} of what may follow here"
    return f"{text}, {1 - completions.covered:.2%} of that not covered:" if completions.covered < 1 else f"{text}:"


def _rows(lm: LanguageModel, prompt: str, completions: Completions | None, likeliest: list[NextToken]) -> list[Row]:
    """One table of both lists: what each row is, how it reads, the text to append, its probability."""
    words = () if completions is None else completions.words
    rows: list[Row] = [{"kind": "word", "text": one.word, "append": one.append, "p": one.p} for one in words]
    last = prompt[-1:]
    for token in likeliest:
        append = lm.tokenizer.continuation(last, [token.token])[len(last) :] if last != " " else token.text
        rows.append({"kind": "token", "text": token.text, "append": append, "p": token.p})
    return rows
