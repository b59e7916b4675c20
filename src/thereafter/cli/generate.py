"""`thereafter next` and `thereafter generate`: what a model says."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.cli.app import ArpaTokens, Run, app, load


@app.command(name="next")
def next_(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="The text so far; it gets no line end.")] = "",
    k: Annotated[int, typer.Option("-k", "--k", help="How many.")] = 5,
    tokens: ArpaTokens = "word",
) -> None:
    """The likeliest next tokens after a prompt, with their probabilities.

    Example: thereafter next runs/book "the cat sat on the" -k 5
    """
    for piece, probability in load(run, tokens).next(prompt, k):
        typer.echo(f"{probability:.6f}  {piece!r}")


@app.command()
def generate(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="The text to go on from.")] = "",
    max_new_tokens: Annotated[int, typer.Option(help="How many tokens to add.")] = 40,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder, 0 always the likeliest.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest only.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    tokens: ArpaTokens = "word",
) -> None:
    """The prompt and a sampled continuation.

    Example: thereafter generate runs/book "the cat" --temperature 0.8 --top-k 40 --seed 1
    """
    lm = load(run, tokens)
    typer.echo(lm.generate(prompt, max_new_tokens, temperature=temperature, top_k=top_k, seed=seed))
