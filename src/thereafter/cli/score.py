"""`thereafter score`: perplexity and bits per byte of a text, or how good the answers of a task are.

`thereafter surprisal`: -log2 p of every word of a text, under one model or several side by side.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.config import Table
from thereafter.base.progress import print_caution
from thereafter.base.tabular import Tabular, check_ending, finite
from thereafter.cli import app
from thereafter.cli import options as opt
from thereafter.cli.options import chosen, command, wants_parts
from thereafter.cli.tables import print_aligned, print_conditions, print_rows, save_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.api import LanguageModel
    from thereafter.evaluation.scores import Score
    from thereafter.inspection.surprisal import Surprisals


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
    from thereafter.cli.pictures import print_beside
    from thereafter.cli.train_report import print_parts
    from thereafter.task_model import load_task
    from thereafter.tasks.task import Baselines, aspect

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
        if "score" in aspect(model.task, Baselines).printed_by:
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


_HIDDEN = ("position", "line_end", "spelling_bits", "unknown", "bare_", "length", "log_frequency", "rank", "context")
_WIDE = 30  # a column of the user's table that is wider, such as that of the texts, is in the file alone


@command(app, opt.PART, *opt.SWITCHES)
def surprisal(
    runs: Annotated[list[str], typer.Argument(metavar="RUN... SOURCE")],
    text: str | None = None,
    part: str | None = None,
    encoding: str | None = None,
    loading: opt.Loading = opt.LOADING,
    context: opt.ItemContext = None,
    items: bool = False,
    by: str = "word",
    item: opt.ItemColumn = None,
    detail: Annotated[bool | None, typer.Option("--detail/--no-detail")] = None,
    top: int | None = None,
    out: Annotated[Path | None, typer.Option(callback=opt.table_or_arrays)] = None,
    figure: Annotated[Path | None, typer.Option(callback=opt.figure_file)] = None,
    form: str = "",
    **switches: object,
) -> None:
    """Surprisal of every word of a text, -log2 p in bits, under one model or several: one row per word.

    The bits of all rows add up to those of thereafter score. Words are what stands between white space, so models of
    different tokens stand side by side.

    Example: thereafter surprisal runs/book other.txt --out words.csv

    Example: thereafter surprisal runs/ngram runs/lstm --text "the cat sat on the mat" --detail --figure cat.html

    The sentences of an experiment are items: name the column of a table, or add --items. Its other columns are kept.

    Example: thereafter surprisal runs/book stimuli.csv:sentence --out words.csv

    Example: thereafter surprisal runs/book stimuli.csv:sentence --by condition

    The run of a forecaster takes a table of series instead: -log p of every point, in nats, and which are unusual.

    Example: thereafter surprisal runs/sales sales.csv --out points.csv

    Args:
        runs: One run folder or several, then the text: a file, a folder, a 'glob*', - or a corpus name.
        text: Read this text instead of a source.
        by: What a row is: word, token, sentence or line; or a column of the table, such as condition: means by
            condition with intervals, and paired differences by item.
        detail: Add rank, entropy, context and the likeliest tokens. Default: off; for items all but the tokens.
        top: Likeliest tokens with --detail (default 3).
        out: Write the table: .csv, .tsv, .json, or .npz (which thereafter figure reads).
        figure: Draw the coloured text, or the points: .html, .png or .svg.
    """
    import thereafter
    from thereafter.evaluation.text_units import UNITS
    from thereafter.runs.folder import holds_task

    if item is not None and by in UNITS:
        raise OptionError(f"--item is {item!r} and --by is {by}; expected a column after --by; try --by condition")
    if top is not None and not detail:
        raise OptionError(f"--top is {top} and --detail is off; add --detail")
    names, source = _split(runs, text)
    if any(holds_task(Path(name)) for name in names):
        of_texts: Table = {"text": text, "part": part, "encoding": encoding, "detail": detail, **switches}
        of_texts |= {
            "by": None if by == "word" else by,
            "as_written": loading.as_written,
            "context": context,
            "items": items,
        }
        _print_points(names, source, loading.device, list(chosen(of_texts)), out, figure, form)
        return
    mixed = bool(switches["mix"]) or switches["weights"] is not None
    if mixed and len(names) > 1:
        raise OptionError(f"got --mix or --weights with {len(names)} runs; expected one run; try: RUN --mix OTHER")
    models = [load_mixture(names[0], switches, loading)] if mixed else [loading.load(name) for name in names]
    table = thereafter.surprisal(
        models,
        source,
        text=text,
        part=part,
        encoding=encoding,
        by=by if by in UNITS else "line",
        names=None if switches["mix"] else [Path(name).name or name for name in names],
        detail=detail,
        context=item_context(context, items=items),
        top=3 if top is None else top,
        **scoring_options(switches),
    )
    rows = table.to_rows() if by in UNITS else table.conditions(by, item).to_rows()
    if not print_rows(rows, form):
        if by not in UNITS:
            print_conditions(rows)
        elif out is None:
            # a terminal has no room for all columns
            named = next(iter(table.readings[0].rows), {})
            wide = {name for name in named if name in rows[0] and any(len(str(row[name])) > _WIDE for row in rows)}
            print_aligned(
                rows, hidden=wide | {name for name in rows[0] if name not in named and name.startswith(_HIDDEN)}
            )
    typer.echo(table.context, err=bool(form))
    for number, reading in enumerate(table.readings if not form else ()):
        typer.echo(_sums(table, number))
        for note in reading.notes:
            print_caution(f"  {note}")
    if out is not None and out.suffix.lower() == opt.ARRAYS:
        typer.echo(f"saved {table.measurement().save(out)}", err=True)
    else:
        save_rows(rows, out)
    if figure is not None:
        typer.echo(f"saved {table.figure().save(figure)}", err=True)


def _print_points(
    names: list[str],
    source: str | None,
    device: str,
    of_texts: list[str],
    out: Path | None,
    figure: Path | None,
    form: str,
) -> None:
    """The surprise of every point of a table under a forecaster: the sums and the most unusual points.

    All of them as CSV or JSON, or to a file.
    """
    from thereafter.task_model import load_task

    if len(names) > 1 or source is None or of_texts:
        got = f"{len(names)} runs" if len(names) > 1 else ", ".join(f"--{name.replace('_', '-')}" for name in of_texts)
        raise OptionError(
            f"{names[0]} holds a task, whose points are measured on one table; got {got}; try: thereafter surprisal "
            f"{names[0]} data.csv"
        )
    if out is not None:
        check_ending(out)
    table = load_task(names[0], device=device).surprises(source)
    rows = table.to_rows() if form or out is not None else []
    if not print_rows(rows, form):
        typer.echo(str(table))
    save_rows(rows, out)
    if figure is not None:
        typer.echo(f"saved {table.figure().save(figure)}", err=True)


def _split(runs: list[str], text: str | None) -> tuple[list[str], str | None]:
    """The runs, and the source after them where no text is given."""
    if text is not None:
        return runs, None
    if len(runs) < 2:
        raise OptionError(
            f"got {runs[0]!r} and no text; expected a run and a source; "
            f'try: thereafter surprisal {runs[0]} book.txt, or --text "..."'
        )
    return runs[:-1], runs[-1]


def _sums(table: Surprisals, number: int) -> str:
    reading = table.readings[number]
    bits, spelling = float(table.bits(number).sum()), float(table.spelling_bits(number).sum())
    unknown = int(reading.costs.unknown_T.sum())
    spelled = f" and {spelling:,.1f} for the spelling of {unknown:,} unknown tokens" if unknown else ""
    return (
        f"{reading.model}: {bits:,.1f} bits{spelled} over {table.words:,} words, {len(reading.costs.ids):,} "
        f"{reading.tokenizer.name} tokens; {table.bits_per_word(number):.2f} bits per word"
    )
