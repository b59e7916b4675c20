"""`thereafter score`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thereafter.cli.app import ArpaTokens, Encoding, Run, app, load
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.evaluation.scores import Score

MIXTURE, SWITCHES = "Mixtures", "Switches"


@app.command()
def score(
    run: Run,
    source: Annotated[
        str | None, typer.Argument(help="What to score: a file, a folder, a 'glob*', - or a corpus.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Score this text instead of a source.")] = None,
    part: Annotated[str | None, typer.Option(help="The part of a corpus (default: test).")] = None,
    encoding: Encoding = None,
    tokens: ArpaTokens = "word",
    mix: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="Mix with this run; may be given again.", rich_help_panel=MIXTURE),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Their weights in order, 0.3,0.7; else equal parts, or tuned.", rich_help_panel=MIXTURE),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Choose weights, cache and rate on this text (of a corpus: its valid part).",
            rich_help_panel=SWITCHES,
        ),
    ] = None,
    cache: Annotated[bool, typer.Option("--cache", help="Remember the last words.", rich_help_panel=SWITCHES)] = False,
    cache_size: Annotated[int | None, typer.Option(help="How many words (500).", rich_help_panel=SWITCHES)] = None,
    cache_weight: Annotated[
        float | None, typer.Option(help="The share of the cache (0.1, or tuned).", rich_help_panel=SWITCHES)
    ] = None,
    cache_theta: Annotated[
        float | None,
        typer.Option(
            help="How much like situations count more, neural models only (or tuned).", rich_help_panel=SWITCHES
        ),
    ] = None,
    cache_decay: Annotated[
        float | None, typer.Option(help="How much less each older word counts (or tuned).", rich_help_panel=SWITCHES)
    ] = None,
    dynamic: Annotated[
        bool,
        typer.Option("--dynamic", help="Neural models go on learning from what they scored.", rich_help_panel=SWITCHES),
    ] = False,
    dynamic_rate: Annotated[
        float | None, typer.Option(help="The rate of that learning (or tuned).", rich_help_panel=SWITCHES)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All figures as JSON.")] = False,
) -> None:
    """Perplexity and bits per byte of a text under a model or a mixture; of a task how good its answers are.

    Example: thereafter score runs/book other.txt

    Example: thereafter score runs/ptb-lstm ptb --mix runs/ptb-ngram --tune ptb:valid --cache
    """
    from thereafter.runs.folder import holds_task

    if holds_task(Path(run)):
        given = {"text": text, "encoding": encoding, "mix": mix, "weights": weights, "tune": tune}
        _score_task(run, source, part, given | {"cache": cache, "dynamic": dynamic}, as_json)
        return
    cached = {"size": cache_size, "weight": cache_weight, "theta": cache_theta, "decay": cache_decay}
    lm = load(run, tokens)
    if mix:
        import thereafter

        lm = thereafter.mixture([lm, *(load(other, tokens) for other in mix)], _weights(weights, tune))
    elif weights is not None:
        raise OptionError(f"--weights is {weights!r} and there is nothing to mix with; try --mix RUN")
    result = lm.score(
        source,
        text=text,
        part=part,
        encoding=encoding,
        cache=_switch("cache", cache, cached),
        dynamic=_switch("dynamic", dynamic, {"rate": dynamic_rate}),
        tune=tune,
    )
    if as_json:
        facts = result.as_dict()
        odd = [name for name, value in facts.items() if isinstance(value, float) and not math.isfinite(value)]
        typer.echo(json.dumps(facts | dict.fromkeys(odd), allow_nan=False))
        return
    members = lm.config["mixture"]["members"] if mix else []
    for name, value in _rows(result, members).items():
        typer.echo(f"{name:<14} {value}")
    if result.caveat:
        typer.secho(f"{'caution':<14} {result.caveat}", fg=typer.colors.YELLOW, bold=True)


def _score_task(run: str, source: str | None, part: str | None, of_texts: dict[str, Any], as_json: bool) -> None:
    """How good the answers of a task are on examples."""
    from thereafter.task_model import load_task

    model = load_task(run)
    for name, value in of_texts.items():
        if value:
            raise OptionError(f"--{name} is for language models, and {run} holds the task {model.task.name!r}")
    if source is None:
        raise OptionError(f"{run} holds the task {model.task.name!r} and is scored on examples; expected a SOURCE")
    from thereafter.comparing.trials import finite

    result = model.score(source, part=part or "test")
    typer.echo(json.dumps(finite(result.as_dict()), allow_nan=False) if as_json else result)


def _rows(result: Score, members: list[str]) -> dict[str, str]:
    from thereafter.models.base import NOT_NORMALISED

    rows = {"text": result.name}
    if result.normalised:
        rows["perplexity"] = f"{result.perplexity:.3f}"
        rows["bits per byte"] = f"{result.bits_per_byte:.4f}"
        rows["bits per char"] = f"{result.bits_per_char:.4f}"
    else:
        rows["perplexity"] = f"none: {NOT_NORMALISED}"
    rows |= {
        "tokens": f"{result.tokens:,} {result.tokenizer}",
        "vocabulary": f"{result.vocabulary:,}",
        "unknown": f"{result.unknown:,}",
        "context": result.context,
        "lines": f"{result.lines:,}",
        "bytes": f"{result.bytes:,}",
        "nats": f"{result.nats:.3f} and {result.spelling_nats:.3f} for spelling unknown forms",
    }
    if members:
        pairs = zip(result.weights, members, strict=True)
        rows["weights"] = ", ".join(f"{weight:.4f} {name}" for weight, name in pairs)
    if result.switches:
        rows["switches"] = result.switches
    return rows


def _switch(name: str, on: bool, given: dict[str, Any]) -> bool | dict[str, Any]:
    """A switch with its settings; a setting alone does not switch it on, so that no score differs by accident."""
    settings = {key: value for key, value in given.items() if value is not None}
    if settings and not on:
        key, value = next(iter(settings.items()))
        raise OptionError(f"--{name}-{key} is {value} and --{name} is off; try --{name} with it")
    return settings or on


def _weights(spelled: str | None, tune: str | None) -> list[float] | None:
    if spelled is None:
        return None
    if tune is not None:
        raise OptionError("got both --weights and --tune; expected one of them: given weights are not tuned")
    try:
        return [float(part) for part in spelled.split(",")]
    except ValueError:
        raise OptionError(f"--weights is {spelled!r}; expected numbers that add up to 1; try 0.3,0.7") from None
