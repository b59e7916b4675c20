"""`thereafter lm-eval`."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.cli.app import ArpaTokens, AsWritten, app


@app.command("lm-eval", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lm_eval(
    context: typer.Context,
    run: Annotated[str, typer.Option(help="A run folder, or an ARPA file.", show_default=False)],
    tokens: ArpaTokens = "word",
    as_written: AsWritten = False,
) -> None:
    """Evaluate a language model on the tasks of lm-evaluation-harness; all other options are those of lm_eval.

    Takes any run, n-grams included. Needs pip install 'thereafter[harness]'.

    Example: thereafter lm-eval --run runs/book --tasks blimp --limit 100

    Example: thereafter lm-eval --run runs/book --include_path my_tasks --tasks my_task --output_path results
    """
    from thereafter.serving.harness.backend import run_harness

    run_harness(run, context.args, tokens=tokens, as_written=as_written)
