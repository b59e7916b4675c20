"""`thereafter generate`: what a model writes."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.terminal import print_exactly
from thereafter.cli.app import ArpaTokens, AsWritten, Device, Run, app, load
from thereafter.cli.tables import tell_written

if TYPE_CHECKING:
    from thereafter.decoding.generation import GenerationOptions


@app.command()
def generate(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="The text to continue.")] = "",
    max_new_tokens: Annotated[int, typer.Option(help="Maximum number of tokens to generate.")] = 40,
    temperature: Annotated[
        float, typer.Option(help="Below 1 safer, above 1 more random, 0 always the most likely token.")
    ] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k most likely tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the most likely tokens that together reach this probability.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Sample from tokens at least this fraction as likely as the most likely one.")
    ] = None,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1: tokens that were already used become less likely.")
    ] = 1.0,
    num_beams: Annotated[int, typer.Option(help="Beam search with this many hypotheses, instead of sampling.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="Beam search: above 1 favours long texts, 0 short ones.")] = 1.0,
    samples: Annotated[int, typer.Option(help="Number of texts to generate.")] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(help="Stop before this text; \\n is a line end. Repeat the option for more.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed: the same seed gives the same text.")] = None,
    weights: Annotated[
        str | None, typer.Option(help="bfloat16 or int8: a recurrent model reads its matrices in fewer bytes, faster.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print texts, tokens and log probabilities as JSON.")] = False,
    tokens: ArpaTokens = "word",
    as_written: AsWritten = False,
    device: Device = "auto",
) -> None:
    """Continue a prompt; the text is shown as it is generated.

    Example: thereafter generate runs/book "the cat" --temperature 0.8 --top-p 0.9 --seed 1
    """
    lm = load(run, tokens, as_written=as_written, device=device)
    tell_written(lm, prompt)
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
        "weights": weights,
    }
    if samples == 1 and num_beams == 1 and not as_json:
        pieces = lm.stream_text(prompt, max_new_tokens, **options)  # refuses before the prompt is shown
        for piece in chain([prompt], pieces, ["\n"]):
            print_exactly(piece)
        return
    texts = lm.generate(prompt, max_new_tokens, num_return_sequences=samples, return_log_probs=True, **options)
    if as_json:
        typer.echo(json.dumps({"prompt": prompt, "samples": [asdict(one) for one in texts]}, allow_nan=False))
        return
    for number, one in enumerate(texts, start=1):
        if len(texts) > 1:
            typer.echo(f"--- {number:,} of {len(texts):,}, log p {one.log_prob:.3f}")
        print_exactly(one.text + "\n")
