"""`thereafter score`: perplexity and bits per byte of a text, or how good the answers of a task are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import OptionInfo

from thereafter.base.config import Table
from thereafter.base.tabular import Tabular, finite
from thereafter.base.terminal import print_caution
from thereafter.cli.app import ArpaTokens, AsWritten, Device, Encoding, Run, app, load
from thereafter.cli.captions import print_beside
from thereafter.cli.tables import AsCsv, AsJson, print_aligned, print_rows
from thereafter.cli.train_options import Parts, wants_parts
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.api import LanguageModel
    from thereafter.evaluation.scores import Score


def _mixing(text: str, *names: str, metavar: str | None = None) -> OptionInfo:
    option: OptionInfo = typer.Option(*names, help=text, metavar=metavar, rich_help_panel="Mixtures")
    return option


def _adapting(text: str, *names: str, metavar: str | None = None) -> OptionInfo:
    panel = "Cache and dynamic evaluation"
    option: OptionInfo = typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel)
    return option


Source = Annotated[
    str | None,
    typer.Argument(help="Text to score: a file, a folder, a 'glob*', - for standard input, or a corpus name."),
]
Text = Annotated[str | None, typer.Option(help="Score this text instead of a source.")]
Part = Annotated[str | None, typer.Option(help="Part of a corpus or of a folder with parts. Default: test.")]
Mix = Annotated[list[str] | None, _mixing("Interpolate with this run. Repeat the option to mix more.", metavar="RUN")]
Weights = Annotated[
    str | None, _mixing("Weights of the models in order, such as 0.3,0.7. Default: equal, or tuned by --tune.")
]
Tune = Annotated[
    str | None,
    _adapting("Tune weights, cache and learning rate on this text; of a corpus, on its valid part.", metavar="SOURCE"),
]
Cache = Annotated[bool, _adapting("Add a cache of the most recent words.", "--cache")]
CacheSize = Annotated[int | None, _adapting("Words in the cache (default 500).")]
CacheWeight = Annotated[float | None, _adapting("Weight of the cache (default 0.1, or tuned).")]
CacheTheta = Annotated[
    float | None, _adapting("How strongly similar contexts are preferred; neural models only (or tuned).")
]
CacheDecay = Annotated[float | None, _adapting("How fast older words lose weight (or tuned).")]
Dynamic = Annotated[
    bool, _adapting("Dynamic evaluation: a neural model keeps learning from the text it has scored.", "--dynamic")
]
DynamicRate = Annotated[float | None, _adapting("Learning rate of dynamic evaluation (or tuned).")]


ItemContext = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="N|item|document",
        help="What a line is read after. item: nothing, each from a fresh state; N: the N lines before it; document: "
        "all lines before it. Default: document; item for a column of a table.",
    ),
]
Items = Annotated[bool, typer.Option("--items", help="Short for --context item: the lines do not continue each other.")]


def item_context(context: str | None, *, items: bool = False) -> str | None:
    """The context that is asked for by either option; checked before anything is measured."""
    from thereafter.evaluation.text_reading import items_before

    if items and context not in (None, "item"):
        raise OptionError(f"got --items and --context {context}; expected one of them; try --context {context}")
    items_before(context, of_table=False)
    return "item" if items else context


@app.command()
def score(
    run: Run,
    source: Source = None,
    text: Text = None,
    part: Part = None,
    parts: Parts = None,
    encoding: Encoding = None,
    tokens: ArpaTokens = "word",
    as_written: AsWritten = False,
    device: Device = "auto",
    mix: Mix = None,
    weights: Weights = None,
    tune: Tune = None,
    cache: Cache = False,
    cache_size: CacheSize = None,
    cache_weight: CacheWeight = None,
    cache_theta: CacheTheta = None,
    cache_decay: CacheDecay = None,
    dynamic: Dynamic = False,
    dynamic_rate: DynamicRate = None,
    context: ItemContext = None,
    by: Annotated[str, typer.Option(help="Score the whole text, or by item: each line or row of a table.")] = "text",
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Score a text with a model or a mixture: perplexity and bits per byte. A task is scored on examples.

    Example: thereafter score runs/book other.txt

    Example: thereafter score runs/book other.txt --csv

    Example: thereafter score runs/book stimuli.csv:sentence --by item --csv

    Example: thereafter score runs/ptb-lstm ptb --mix runs/ptb-ngram --tune ptb:valid --cache
    """
    from thereafter.runs.folder import holds_task

    if by not in ("text", "item"):
        raise OptionError(f"by is {by!r}; expected text or item; try --by item")
    if holds_task(Path(run)):
        given: Table = {"text": text, "encoding": encoding, "mix": mix, "weights": weights, "tune": tune}
        given |= {"cache": cache, "dynamic": dynamic, "context": context, "by item": by == "item"}
        _score_task(run, source, part, given, device, as_csv, as_json, parts=wants_parts(parts))
        return
    lm = load_mixture(run, mix or [], tokens, weights, tune, device)
    lm.as_written = as_written
    cache_settings = {"size": cache_size, "weight": cache_weight, "theta": cache_theta, "decay": cache_decay}
    options: Table = {
        "text": text,
        "part": part,
        "encoding": encoding,
        "cache": switch("cache", cache, cache_settings),
        "dynamic": switch("dynamic", dynamic, {"rate": dynamic_rate}),
        "tune": tune,
        "context": item_context(context, items=by == "item" and context is None),
    }
    if by == "item":
        table = lm.surprisal(source, by="line", **options)
        rows = table.to_rows()
        if not print_rows(rows, as_csv=as_csv, as_json=as_json):
            print_aligned(rows, hidden=("position", "unknown", "spelling_bits", "bits_per_word"))
        typer.echo(table.context, err=as_csv or as_json)
        return
    result = lm.score(source, parts=wants_parts(parts), **options)
    if as_json:
        _print_json(result)
    elif not print_rows(result.to_rows(), as_csv=as_csv, as_json=False):
        _print_table(result, lm.config["mixture"]["members"] if mix else [])


def load_mixture(
    run: str, others: list[str], tokens: str, weights: str | None, tune: str | None, device: str
) -> LanguageModel:
    """The model of a run, mixed with those of other runs where there are any."""
    lm = load(run, tokens, device=device)
    if others:
        import thereafter

        members = [lm, *(load(other, tokens, device=device) for other in others)]
        return thereafter.mixture(members, _parse_weights(weights, tune))
    if weights is not None:
        raise OptionError(f"--weights is {weights!r} and there is nothing to mix with; try --mix RUN")
    return lm


def _score_task(
    run: str,
    source: str | None,
    part: str | None,
    of_texts: Table,
    device: str,
    as_csv: bool,
    as_json: bool,
    *,
    parts: bool,
) -> None:
    """Score the answers of a task on examples; OptionError for options that only language models have."""
    from thereafter.cli.train_report import print_parts
    from thereafter.task_model import load_task

    model = load_task(run, device=device)
    for name, value in of_texts.items():
        if value:
            raise OptionError(f"--{name} is for language models, and {run} holds the task {model.task.name!r}")
    if source is None:
        raise OptionError(f"{run} holds the task {model.task.name!r} and is scored on examples; expected a SOURCE")
    if parts and part is None:
        print_parts(model.task, source)
    result = model.score(source, part=part or "test", parts=parts)
    if as_csv:
        plain = {name: value for name, value in result.as_dict().items() if not isinstance(value, dict | list)}
        print_rows(result.to_rows() if isinstance(result, Tabular) else [plain], as_csv=True, as_json=False)
    else:
        typer.echo(json.dumps(finite(result.as_dict()), allow_nan=False) if as_json else result)
        if model.task.name in ("caption", "act") and not as_json:
            print_beside(model, source, part or "test")


def _print_json(result: Score) -> None:
    """All figures; one that is not finite becomes null, because JSON has no other word for it."""
    typer.echo(json.dumps(finite(result.as_dict()), allow_nan=False))


def _print_table(result: Score, members: list[str]) -> None:
    from thereafter.evaluation.scores import unknown_caution

    for name, value in _rows(result, members).items():
        typer.echo(f"{name:<14} {value}")
    if caution := unknown_caution(result.unknown_share):
        print_caution(f"{'caution':<14} {caution}")
    if result.caveat:
        print_caution(f"{'caution':<14} {result.caveat}")


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
        "unknown": f"{result.unknown:,} ({result.unknown_share:.1%})".replace("%", " %"),
        "context": result.context,
        "lines": f"{result.lines:,}",
        "bytes": f"{result.bytes:,}",
        "nats": f"{result.nats:.3f} and {result.spelling_nats:.3f} for spelling unknown words",
    }
    if members:
        pairs = zip(result.weights, members, strict=True)
        rows["weights"] = ", ".join(f"{weight:.4f} {name}" for weight, name in pairs)
    if result.switches:
        rows["switches"] = result.switches
    if result.form:
        rows["form"] = result.form
    if result.written:
        rows["written"] = f"{result.written}: as the model's own text was (--as-written leaves a text as it is)"
    return rows


def switch(name: str, on: bool, given: Table) -> bool | Table:
    """A switch with its settings. A setting alone does not turn it on, so that no score changes by accident."""
    settings = {key: value for key, value in given.items() if value is not None}
    if settings and not on:
        key, value = next(iter(settings.items()))
        raise OptionError(f"--{name}-{key} is {value} and --{name} is off; add --{name}")
    return settings or on


def _parse_weights(spelled: str | None, tune: str | None) -> list[float] | None:
    if spelled is None:
        return None
    if tune is not None:
        raise OptionError("got both --weights and --tune; expected one of them: weights that are given are not tuned")
    try:
        return [float(part) for part in spelled.split(",")]
    except ValueError:
        raise OptionError(f"--weights is {spelled!r}; expected numbers that add up to 1; try 0.3,0.7") from None
