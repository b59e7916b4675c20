"""`thereafter score`: perplexity and bits per byte of a text, or how good the answers of a task are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.config import Table
from thereafter.base.progress import print_caution
from thereafter.base.tabular import Tabular, finite
from thereafter.cli import app
from thereafter.cli import options as opt
from thereafter.cli.options import chosen, command, wants_parts
from thereafter.cli.tables import print_aligned, print_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.api import LanguageModel
    from thereafter.evaluation.scores import Score


def item_context(context: str | None, *, items: bool = False) -> str | None:
    """The context that is asked for by either option; checked before anything is measured."""
    from thereafter.evaluation.text_reading import items_before

    if items and context not in (None, "item"):
        raise OptionError(f"got --items and --context {context}; expected one of them; try --context {context}")
    items_before(context, of_table=False)
    return "item" if items else context


@command(app, opt.PART, opt.PARTS, *opt.SWITCHES)
def score(
    run: str,
    source: Annotated[str | None, typer.Argument()] = None,
    text: str | None = None,
    part: str | None = None,
    parts: str | None = None,
    encoding: str | None = None,
    loading: opt.Loading = opt.LOADING,
    context: opt.ItemContext = None,
    by: str = "text",
    form: str = "",
    **switches: object,
) -> None:
    """Score a text with a model or a mixture: perplexity and bits per byte. A task is scored on examples.

    Example: thereafter score runs/book other.txt

    Example: thereafter score runs/book other.txt --csv

    Example: thereafter score runs/book stimuli.csv:sentence --by item --csv

    Example: thereafter score runs/ptb-lstm ptb --mix runs/ptb-ngram --tune ptb:valid --cache

    Args:
        source: Text to score: a file, a folder, a 'glob*', - for standard input, or a corpus name.
        text: Score this text instead of a source.
        by: Score the whole text, or by item: each line or row of a table.
    """
    from thereafter.runs.folder import holds_task

    if by not in ("text", "item"):
        raise OptionError(f"by is {by!r}; expected text or item; try --by item")
    if holds_task(Path(run)):
        given: Table = {"text": text, "encoding": encoding, **switches, "context": context, "by item": by == "item"}
        _score_task(run, source, part, chosen(given), loading.device, form, parts=wants_parts(parts))
        return
    lm = load_mixture(run, switches, loading)
    options: Table = {"text": text, "part": part, "encoding": encoding, **scoring_options(switches)}
    options["context"] = item_context(context, items=by == "item" and context is None)
    if by == "item":
        table = lm.surprisal(source, by="line", **options)
        rows = table.to_rows()
        if not print_rows(rows, form):
            print_aligned(rows, hidden=("position", "unknown", "spelling_bits", "bits_per_word"))
        typer.echo(table.context, err=bool(form))
        return
    result = lm.score(source, parts=wants_parts(parts), **options)
    if form == "json":  # one that is not finite becomes null, because JSON has no other word for it
        typer.echo(json.dumps(finite(result.as_dict()), allow_nan=False))
    elif not print_rows(result.to_rows(), form):
        _print_table(result, lm.config["mixture"]["members"] if switches["mix"] else [])


def load_mixture(run: str, switches: Table, loading: opt.Loading) -> LanguageModel:
    """The model of a run, mixed with those of other runs where there are any."""
    lm, weights = loading.load(run), switches["weights"]
    if switches["mix"]:
        import thereafter

        members = [lm, *map(loading.load, switches["mix"])]
        lm = thereafter.mixture(members, _parse_weights(weights, switches["tune"]))
        lm.as_written = loading.as_written
    elif weights is not None:
        raise OptionError(f"--weights is {weights!r} and there is nothing to mix with; try --mix RUN")
    return lm


def scoring_options(switches: Table) -> Table:
    """What `score` and `surprisal` of the library take: a cache and dynamic evaluation, and what tunes them.

    A setting alone does not turn a switch on, so that no score changes by accident.
    """
    options: Table = {"tune": switches["tune"]}
    for name in ("cache", "dynamic"):
        own = {key.removeprefix(f"{name}_"): value for key, value in switches.items() if key.startswith(f"{name}_")}
        settings = chosen(own)
        if settings and not switches[name]:
            key, value = next(iter(settings.items()))
            raise OptionError(f"--{name}-{key} is {value} and --{name} is off; add --{name}")
        options[name] = settings or switches[name]
    return options


def _score_task(
    run: str, source: str | None, part: str | None, of_texts: Table, device: str, form: str, *, parts: bool
) -> None:
    """Score the answers of a task on examples; OptionError for options that only language models have."""
    from thereafter.cli.train_report import print_parts
    from thereafter.task_model import load_task

    model = load_task(run, device=device)
    for name in of_texts:
        spelled = name.replace("_", "-")
        raise OptionError(f"--{spelled} is for language models, and {run} holds the task {model.task.name!r}")
    if source is None:
        raise OptionError(f"{run} holds the task {model.task.name!r} and is scored on examples; expected a SOURCE")
    if parts and part is None:
        print_parts(model.task, source)
    result = model.score(source, part=part or "test", parts=parts)
    if form == "csv":
        plain = {name: value for name, value in result.as_dict().items() if not isinstance(value, dict | list)}
        print_rows(result.to_rows() if isinstance(result, Tabular) else [plain], form)
    elif form == "json":
        typer.echo(json.dumps(finite(result.as_dict()), allow_nan=False))
    else:
        typer.echo(result)
        if model.task.name in ("caption", "act"):
            from thereafter.cli.pictures import print_beside

            print_beside(model, source, part or "test")


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


def _parse_weights(spelled: str | None, tune: str | None) -> list[float] | None:
    if spelled is None:
        return None
    if tune is not None:
        raise OptionError("got both --weights and --tune; expected one of them: weights that are given are not tuned")
    try:
        return [float(part) for part in spelled.split(",")]
    except ValueError:
        raise OptionError(f"--weights is {spelled!r}; expected numbers that add up to 1; try 0.3,0.7") from None
