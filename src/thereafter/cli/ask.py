"""What a language model is asked: `next`, `generate`, `rank` and `neighbours`."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.config import Table
from thereafter.base.progress import print_exactly
from thereafter.base.tabular import Row
from thereafter.cli import app, load
from thereafter.cli.options import Loading, TableFile, command, library
from thereafter.cli.tables import print_rows, save_rows, tell_unknown, tell_written
from thereafter.data.finding import TABLE_ENDINGS, split_column
from thereafter.errors import EmptyCorpusError, OptionError

if TYPE_CHECKING:
    from thereafter.decoding.completion import Completions
    from thereafter.language_model import LanguageModel


@command(app, name="next")
def next_(
    run: str,
    prompt: Annotated[str, typer.Argument()] = "",
    k: Annotated[int, typer.Option("-k", "--k")] = 5,
    complete: Annotated[bool | None, typer.Option("--complete/--no-complete", show_default=False)] = None,
    form: str = "",
    out: TableFile = None,
    as_written: bool = False,
    device: str = "auto",
    tokens: str = "word",
) -> None:
    """List the most likely next tokens after a prompt, with their probabilities.

    If the last word is only partly typed, list the words that begin with it, each with the text to append and its
    probability among them. If it may also be a whole word, show both lists.

    Example: thereafter next runs/book "the cat sat on the" -k 5

    Example: thereafter next runs/book "I beheld the mon"

    Args:
        prompt: The text so far; no line end is added.
        k: Number of tokens or words to list.
        complete: Complete the last word, or never. Default: if it is only partly typed.
    """
    lm = load(run, tokens, as_written=as_written, device=device)
    tell_written(lm, prompt)
    completions = _completions(lm, prompt, k, complete)
    alone = completions is not None and (complete or not completions.ending)
    likeliest = [] if alone else lm.next_tokens(prompt, k)
    # one table of both lists: what each row is, how it reads, the text to append, its probability
    words = () if completions is None else completions.words
    rows: list[Row] = [{"kind": "word", "text": one.word, "append": one.append, "p": one.p} for one in words]
    last = prompt[-1:]
    for token in likeliest:
        append = lm.tokenizer.continuation(last, [token.token])[len(last) :] if last != " " else token.text
        rows.append({"kind": "token", "text": token.text, "append": append, "p": token.p})
    save_rows(rows, out)
    if print_rows(rows, form):
        return
    if completions is not None:
        typed = completions.typed.strip()
        text = f"words that begin with {typed!r}" if typed else "words"
        missing = f", {1 - completions.covered:.2%} of that not covered" if completions.covered < 1 else ""
        typer.echo(f"{text}, {completions.mass:.3g} of what may follow here{missing}:", err=True)
        for one in completions:
            typer.echo(f"{one.p:.6f}  {one.word!r}  + {one.append!r}")
        if likeliest:
            typer.echo(f"next tokens, if {typed!r} is a whole word:", err=True)
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


@command(
    app,
    *library(
        "thereafter.decoding.generation:GenerationSettings",
        *("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "num_beams"),
        *("length_penalty", "num_return_sequences", "stop_strings", "seed", "weights"),
        num_return_sequences={"spelled": "--samples"},
        stop_strings={"spelled": "--stop", "kind": list[str]},
    ),
)
def generate(
    run: str,
    prompt: Annotated[str, typer.Argument()] = "",
    *,
    num_beams: int,
    num_return_sequences: int,
    stop_strings: list[str] | None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    loading: Loading,
    **given: object,
) -> None:
    """Continue a prompt; the text is shown as it is generated.

    Example: thereafter generate runs/book "the cat" --temperature 0.8 --top-p 0.9 --seed 1

    Args:
        prompt: The text to continue.
        stop_strings: Stop before this text; \\n is a line end. Repeat the option for more.
        as_json: Print texts, tokens and log probabilities as JSON.
    """
    lm = loading.load(run)
    tell_written(lm, prompt)
    stops = [text.replace("\\n", "\n").replace("\\t", "\t") for text in stop_strings or ()]
    options: Table = given | {"num_beams": num_beams, "stop_strings": stops}
    if num_return_sequences == 1 and num_beams == 1 and not as_json:
        pieces = lm.stream_text(prompt, **options)  # refuses before the prompt is shown
        for piece in chain([prompt], pieces, ["\n"]):
            print_exactly(piece)
        return
    texts = lm.generate(prompt, num_return_sequences=num_return_sequences, return_log_probs=True, **options)
    if as_json:
        typer.echo(json.dumps({"prompt": prompt, "samples": [asdict(one) for one in texts]}, allow_nan=False))
        return
    for number, one in enumerate(texts, start=1):
        if len(texts) > 1:
            typer.echo(f"--- {number:,} of {len(texts):,}, log p {one.log_prob:.3f}")
        print_exactly(one.text + "\n")


@command(app)
def rank(
    run: str,
    candidates: list[str],
    context: Annotated[str, typer.Option(metavar="TEXT|item")] = "item",
    per: str = "sentence",
    lines: bool = False,
    *,
    loading: Loading,
    out: TableFile = None,
    form: str = "",
) -> None:
    """Rank texts by log probability, the most likely first: rescoring for speech recognition or spelling.

    Prints natural logarithms. KenLM's are log10, of lines: add --lines and divide by 2.302585.

    Example: thereafter rank runs/book "the cat sat on the mat" "the cat sad on the mat"

    Args:
        candidates: Texts to rank; - for the lines of standard input, stimuli.csv:sentence for a column of a table.
        context: Text that comes before each of them; no line end is added. item: nothing, a fresh state.
        per: Log probability per sentence, or per token or char to compare different lengths.
        lines: Texts are whole lines: score their line ends too.
    """
    table = Path(split_column(candidates[0])[0])  # which alone is no candidate
    is_table = len(candidates) == 1 and table.suffix in TABLE_ENDINGS and table.is_file()
    texts = _lines(candidates[0]) if candidates == ["-"] or is_table else candidates
    if context == "document" or context.isdecimal():
        raise OptionError(
            f"--context is {context}, and the texts are alternatives, so none is read after another; expected the text "
            "before each, or item; try --context item"
        )
    end, context = "\n" if lines else "", "" if context == "item" else context
    lm = loading.load(run)
    ranked = lm.rank([text + end for text in texts], context, per=per)
    tell_written(lm, context, *texts)
    tell_unknown(lm, *texts)
    named = [(text.removesuffix(end) if end else text, logp) for text, logp in ranked]
    rows: list[Row] = [{"text": text, "log_prob": logp} for text, logp in named]
    save_rows(rows, out)
    after = f"after {context!r}" if context else "from a fresh state (--context TEXT: after a text)"
    typer.echo(f"context {'text' if context else 'item'}: each text is read {after}", err=True)
    if not print_rows(rows, form):
        for text, logp in named:
            typer.echo(f"{logp:12.4f}  {text}")


def _lines(source: str) -> list[str]:
    """Each line, or row of a column, as a candidate, without blank ones; no candidate at all is an error."""
    from thereafter.training.finding import find_texts
    from thereafter.training.settings import TextSettings

    (text,) = find_texts(source, None, TextSettings()).parts.values()
    lines = [line for line in text.text().split("\n") if line.strip()]
    if not lines:
        name = "standard input" if source == "-" else source
        raise EmptyCorpusError(f"{name} holds no candidates; expected one a line; try: printf 'a\\nb\\n' |")
    return lines


@command(app)
def neighbours(
    run: str, word: str, k: Annotated[int, typer.Option("-k", "--k")] = 10, out: TableFile = None, form: str = ""
) -> None:
    """List the words with the most similar embeddings, by cosine similarity (neural models).

    Example: thereafter neighbours runs/book cat -k 5

    Example: thereafter neighbours runs/book cat -k 100 --out cat.csv

    Args:
        word: A token of the model, with or without its leading space.
        k: Number of words to list.
    """
    near = load(run).neighbours(word, k)
    rows: list[Row] = [{"token": piece, "cosine": cosine} for piece, cosine in near]
    save_rows(rows, out)
    if not print_rows(rows, form):
        for piece, cosine in near:
            typer.echo(f"{cosine:9.6f}  {piece!r}")
