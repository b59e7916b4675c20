"""`thereafter predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from thereafter.cli.app import app, writable
from thereafter.errors import OptionError


@app.command()
def predict(
    run: Annotated[
        str, typer.Argument(help="The run folder of a task (thereafter train --task ...).", show_default=False)
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="What to answer; by default every line of the standard input, a blank one by a blank one."),
    ] = None,
    score: Annotated[str | None, typer.Option(help="Measure on these examples instead: a file or a corpus.")] = None,
    beam: Annotated[
        int | None, typer.Option(help="Of a translator: translations that are followed at once (1).")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also how likely each answer was, and which words spoke for it.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(callback=writable, help="Save what the network did with one text, step by step (.npz)."),
    ] = None,
) -> None:
    """Answers of a model that was trained for a task.

    Example: thereafter predict runs/tagger "the cat sat on the mat"
    """
    from thereafter.task_model import load_task

    if score is not None and (texts or explain or trace):
        raise OptionError("--score measures on examples; expected neither texts nor --explain nor --trace beside it")
    options: dict[str, Any] = {} if beam is None else {"beam": beam}
    found = load_task(run)
    if score is not None:
        typer.echo(found.score(score, **options))
        return
    if trace is not None:
        if texts is None or len(texts) != 1 or explain or beam is not None:
            raise OptionError(
                f"--trace follows one text; got {len(texts or [])}, or other options; try: predict {run} 'a text'"
            )
        recorded = found.trace(texts[0])
        answer = recorded.about["answer"]
        typer.echo(_shown(answer))
        typer.echo(f"saved {recorded.save(trace)}")
        return
    given = texts or _standard_input()
    asked = [text for text in given if text.strip()]
    if explain:
        answers = [f"{text}\n{explained}" for text, explained in zip(asked, found.explain(asked), strict=True)]
    else:
        answers = [_shown(answer) for answer in found.predict(asked, **options)]
    coming = iter(answers)
    for text in given:
        typer.echo(next(coming) if text.strip() else "")


def _standard_input() -> list[str]:
    """Its lines, read as any text is; a blank one is a line, so that answer k belongs to line k."""
    from thereafter.text.sources import resolve

    text = resolve("-").parts["text"].text()
    return text.removesuffix("\n").split("\n") if text else []


def _shown(answer: Any) -> str:
    """A label or a text as it is, tags with spaces between them, words for a blank with their probabilities."""
    if not isinstance(answer, list):
        return str(answer)
    parts = [part if isinstance(part, str) else f"{part[0]} {part[1]:.1%}".replace("%", " %") for part in answer]
    return (" " if all(isinstance(part, str) for part in answer) else ", ").join(parts)
