"""`thereafter next` and `thereafter generate`: what a model says."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import ArpaTokens, Run, app, load

if TYPE_CHECKING:
    from thereafter.decoding.generation import GenerationOptions


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
    max_new_tokens: Annotated[int, typer.Option(help="How many tokens to add at most.")] = 40,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder, 0 always the likeliest.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest that together reach this share.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Draw from those at least this share of the likeliest.")] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: what was said already is less likely.")] = 1.0,
    num_beams: Annotated[int, typer.Option(help="Search the likeliest text with so many hypotheses.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="Beams: above 1 favours long texts, 0 short ones.")] = 1.0,
    samples: Annotated[int, typer.Option(help="How many texts.")] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(help="End before this text, \\n for a line end; may be given again.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Texts, tokens and log probabilities as JSON.")] = False,
    tokens: ArpaTokens = "word",
) -> None:
    """The prompt and what the model says after it, shown as it is drawn.

    Example: thereafter generate runs/book "the cat" --temperature 0.8 --top-p 0.9 --seed 1
    """
    lm = load(run, tokens)
    options: GenerationOptions = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "stop_strings": [text.replace("\\n", "\n").replace("\\t", "\t") for text in stop or ()],
        "seed": seed,
    }
    if samples == 1 and num_beams == 1 and not as_json:
        drawn = lm.stream_text(prompt, max_new_tokens, **options)  # refuses before the prompt is shown
        for piece in chain([prompt], drawn, ["\n"]):
            typer.echo(piece, nl=False)
        return
    found = lm.generate(prompt, max_new_tokens, num_return_sequences=samples, return_log_probs=True, **options)
    if as_json:
        typer.echo(json.dumps({"prompt": prompt, "samples": [asdict(one) for one in found]}, allow_nan=False))
        return
    for number, one in enumerate(found, start=1):
        if len(found) > 1:
            typer.echo(f"--- {number} of {len(found)}, log p {one.log_prob:.3f}")
        typer.echo(one.text)
