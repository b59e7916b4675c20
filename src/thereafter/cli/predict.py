"""`thereafter predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import app, writable
from thereafter.config import Table
from thereafter.errors import OptionError


@app.command()
def predict(
    run: Annotated[str, typer.Argument(help="Run folder of a task (thereafter train --task ...).", show_default=False)],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Inputs of the task. Default: each line of standard input; a blank line gives a blank line."
        ),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="Score the model on these examples instead: a file or a corpus.")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size of a translator (default 1).")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also print how likely each answer is, and which words support it.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(callback=writable, help="Save a trace of the network over one text, step by step (.npz)."),
    ] = None,
) -> None:
    """Predict with a model that was trained for a task.

    Example: thereafter predict runs/tagger "the cat sat on the mat"
    """
    from thereafter.task_model import load_task

    if score is not None and (texts or explain or trace):
        raise OptionError("--score takes neither texts nor --explain nor --trace; leave them out")
    options: Table = {} if beam is None else {"beam": beam}
    model = load_task(run)
    if score is not None:
        typer.echo(model.score(score, **options))
        return
    if trace is not None:
        if texts is None or len(texts) != 1 or explain or beam is not None:
            raise OptionError(
                f"--trace takes one text and no other option; got {len(texts or [])} texts; try: predict {run} 'a text'"
            )
        recorded = model.trace(texts[0])
        typer.echo(_describe(recorded.about["answer"]))
        typer.echo(f"saved {recorded.save(trace)}")
        return
    lines = texts or _standard_input()
    inputs = [text for text in lines if text.strip()]
    if explain:
        answers = [f"{text}\n{explained}" for text, explained in zip(inputs, model.explain(inputs), strict=True)]
    else:
        answers = [_describe(answer) for answer in model.predict(inputs, **options)]
    remaining = iter(answers)
    for text in lines:
        typer.echo(next(remaining) if text.strip() else "")


def _standard_input() -> list[str]:
    """Its lines. Blank lines are kept, so that answer k belongs to line k."""
    from thereafter.text.sources import resolve

    text = resolve("-").parts["text"].text()
    return text.removesuffix("\n").split("\n") if text else []


def _describe(answer: object) -> str:
    """A label or a text as it is, tags with spaces between them, words for a blank with their probabilities."""
    if not isinstance(answer, list):
        return str(answer)
    parts = [part if isinstance(part, str) else f"{part[0]} {part[1]:.1%}".replace("%", " %") for part in answer]
    return (" " if all(isinstance(part, str) for part in answer) else ", ").join(parts)
