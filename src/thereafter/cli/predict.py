"""`thereafter predict`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import OptionInfo

from thereafter.base.config import Table
from thereafter.base.tabular import check_ending
from thereafter.base.terminal import print_exactly
from thereafter.cli.app import AsWritten, Device, Encoding, app, writable
from thereafter.cli.captions import check_figure, draw_captions, print_beside
from thereafter.cli.forecasts import figure_file, print_forecast
from thereafter.cli.tables import AsCsv, AsJson, print_rows
from thereafter.cli.task_hints import ARRAYS, CLIP_TASKS, DRAW, check_drawn, check_samples, task_of
from thereafter.cli.train_options import KeepLicence, KeepMarkup, Wrapped
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel


def _of_series(text: str, *names: str, metavar: str | None = None) -> OptionInfo:
    option: OptionInfo = typer.Option(*names, help=text, metavar=metavar, rich_help_panel="Forecasts")
    return option


@app.command()
def predict(
    run: Annotated[str, typer.Argument(help="Run folder of a task (thereafter train --task ...).", show_default=False)],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Inputs of the task: texts, or paths of pictures and clips. Default: each line of standard input; a "
            "blank line gives a blank line."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--in",
            help="A whole text, or all pictures, instead: a file, a folder, a 'glob*', - or a corpus.",
            metavar="SOURCE",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write a table to this file: .csv, .tsv or .json; of a tagger .conllu too; new pictures and frames to "
            ".npz.",
        ),
    ] = None,
    pretokenised: Annotated[
        bool,
        typer.Option(
            "--pretokenised",
            help="A line is a sentence, with spaces between its words. Default: text is cut into sentences and words.",
        ),
    ] = False,
    keep_licence: KeepLicence = False,
    wrapped: Wrapped = False,
    markup: KeepMarkup = False,
    encoding: Encoding = None,
    as_written: AsWritten = False,
    device: Device = "auto",
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    score: Annotated[
        str | None, typer.Option(help="Score the model on these examples instead: a file or a corpus.")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size of a translator or a captioner (default 1).")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also print how likely each answer is, and what it is based on.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(callback=writable, help="Save a trace of the network over one input, step by step (.npz)."),
    ] = None,
    last: Annotated[
        str | None,
        _of_series("Forecast what comes after the last row of each series of this table.", "--last", metavar="TABLE"),
    ] = None,
    horizon: Annotated[
        int | None, _of_series("Steps to forecast, or frames to predict. Default: those of the run.")
    ] = None,
    samples: Annotated[
        int | None,
        _of_series("Futures to draw: columns sample_1, sample_2 ...; new pictures, to --figure or --out."),
    ] = None,
    seed: Annotated[int | None, _of_series("Random seed of the samples (default 0).")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            callback=figure_file,
            help="Draw the forecast with its bands, or what --explain shows of one picture or clip: "
            ".html, .png or .svg.",
            rich_help_panel="Forecasts",
        ),
    ] = None,
) -> None:
    """Predict with a model that was trained for a task.

    Example: thereafter predict runs/tagger "the cat sat on the mat"

    Example: thereafter predict runs/tagger --in book.txt --out book.conllu

    Example: thereafter predict runs/captions photo.jpg --explain --figure photo.html

    Example: thereafter predict runs/sales --last sales.csv --horizon 48 --out forecast.csv --figure fan.html
    """
    from thereafter.task_model import load_task

    reading: Table = {"keep_licence": keep_licence, "wrapped": wrapped, "markup": markup, "encoding": encoding}
    tables = {"--in": source, "--out": out, "--pretokenised": pretokenised, "--csv": as_csv, "--json": as_json}
    tabled = any(value not in (None, False) for value in tables.values())
    of_series: Table = {"--samples": samples, "--seed": seed}
    if last is not None:
        unfit: Table = {_count(texts or []): texts, "--in": source, "--pretokenised": pretokenised, "--score": score}
        unfit |= {"--beam": beam, "--explain": explain, "--trace": trace, "--as-written": as_written}
        _refuse(unfit, f"--last takes a table of series; try: thereafter predict {run} --last {last}")
        if out is not None:
            check_ending(out)
        table = load_task(run, device=device).forecast(last, horizon=horizon, samples=samples or 0, seed=seed or 0)
        print_forecast(table, out, figure, as_csv=as_csv, as_json=as_json)
        return
    if samples is not None and task_of(run) == DRAW:
        unfit = {_count(texts or []): texts, "--explain": explain, "--trace": trace, "--score": score}
        unfit |= {name: value for name, value in tables.items() if name != "--out"}
        _refuse(unfit, f"--samples draws new pictures; try: thereafter predict {run} --samples {samples}")
        from thereafter.cli.drawings import save_samples

        save_samples(run, samples, seed or 0, figure, out, device=device)
        return
    _check_table(out)
    if (figure is not None or (out is not None and out.suffix.lower() == ARRAYS)) and task_of(run) in CLIP_TASKS:
        from thereafter.cli.clips import save_clips

        unfit = {"--trace": trace, "--score": score, "--beam": beam, "--csv": as_csv, "--json": as_json, **of_series}
        _refuse(unfit, f"--out and --figure save frames; try: thereafter predict {run} --in SOURCE --out frames.npz")
        save_clips(run, texts or [], source, out, figure, explain=explain, ahead=horizon, device=device)
        return
    check_samples(run, texts or [], of_series)
    check_drawn(run, texts or [], figure, explain=explain)
    if score is not None:
        given = {_count(texts or []): texts, "--explain": explain, "--trace": trace, **tables}
        _refuse(given, f"--score measures on examples of its own; try: thereafter predict {run} --score {score}")
    if explain or trace is not None:
        what = "--explain" if explain else f"--trace {trace}"
        others = tables | {"--beam": beam}
        _refuse(others, f"{what} takes inputs alone and prints no table; try: thereafter predict {run} {what} INPUT")
    _check_reading(reading, run, source)
    options: Table = {} if beam is None else {"beam": beam}
    model = load_task(run, as_written=as_written, device=device)
    if horizon is not None:
        from thereafter.tasks.task import Answering

        task = model.task
        options["ahead" if isinstance(task, Answering) and "ahead" in task.asked else "horizon"] = horizon
    if score is not None:
        typer.echo(model.score(score, **options))
        if model.task.name == "caption":
            print_beside(model, score, "test", greedy=beam is not None)
    elif trace is not None:
        _save_trace(model, run, texts or [], trace, plain=not explain and beam is None)
    elif tabled:
        reading |= {"pretokenised": pretokenised}
        _print_table(model, texts, source, reading | options, out, as_csv=as_csv, as_json=as_json)
    else:
        _print_answers(model, texts or _standard_input(), options, explain=explain, figure=figure)


def _check_table(out: Path | None) -> None:
    """An unknown file ending is refused before anything is predicted. Arrays hold frames, and no table."""
    if out is not None and out.suffix.lower() != ARRAYS:
        from thereafter.tasks.answers import check_file

        check_file(out)


def _refuse(given: Table, message: str) -> None:
    """OptionError where any of these is given, with what it is."""
    names = [name for name, value in given.items() if value not in (None, False, [])]
    if names:
        rule, _, remedy = message.partition("; ")
        raise OptionError(f"{rule}; got {', '.join(names)} too; {remedy}")


def _count(texts: list[str]) -> str:
    return "1 text" if len(texts) == 1 else f"{len(texts):,} texts"


def _check_reading(reading: Table, run: str, source: str | None) -> None:
    """How a file is read says nothing where none is."""
    for name, value in reading.items():
        if value not in (None, False) and source is None:
            switch = "--keep-markup" if name == "markup" else f"--{name.replace('_', '-')}"
            raise OptionError(
                f"{switch} says how a file is read, and was given without --in; expected both; try: thereafter "
                f"predict {run} --in FILE {switch}, with --in - for standard input"
            )


def _print_table(
    model: TaskModel, texts: list[str] | None, source: str | None, options: Table, out: Path | None, *,
    as_csv: bool, as_json: bool,
) -> None:  # fmt: skip
    """Predict on a whole text; write the table to a file, print it, or print the answers, one a line."""
    from thereafter.tasks.answers import check_file, summarise

    if texts and source is not None:
        raise OptionError(f"got both {_count(texts)} and --in {source}; expected one of them; try leaving one out")
    if out is not None:
        check_file(out, model.task.kind)
    given = None if texts is None else "\n".join(" ".join(text.split()) for text in texts)
    began = time.perf_counter()
    predictions = model.tabulate(None if texts else source or "-", text=given, **options)
    took = time.perf_counter() - began
    note = f"; {predictions.note}" if predictions.note else ""
    typer.echo(f"predicted {summarise(predictions.items)} in {took:.1f} s{note}", err=True)
    printed = print_rows(predictions.to_rows(), as_csv=as_csv, as_json=as_json) if as_csv or as_json else False
    if out is not None:
        typer.echo(f"saved {predictions.write(out)}", err=True)
    elif not printed:
        for before, number, one in zip((0, *predictions.numbers), predictions.numbers, predictions.items, strict=False):
            print_exactly("\n" * (number - before - 1) + f"{one}\n")  # answer k belongs to line k


def _print_answers(
    model: TaskModel, lines: list[str], options: Table, *, explain: bool, figure: Path | None = None
) -> None:
    """An answer a line; a blank line stays one. A file of several examples has as many answers, with their numbers."""
    from thereafter.tasks.task import Asking, aspect, describe

    asking = aspect(model.task, Asking)
    spelled = [asking.spelled(text) if text.strip() else () for text in lines]
    inputs = [one for several in spelled for one in several]
    names = [text for text, several in zip(lines, spelled, strict=True) for _ in several]
    if explain:
        check_figure(names, figure)
        explained = model.explain(inputs)
        answers = [f"{name}\n{one}" for name, one in zip(names, explained, strict=True)]
    else:
        explained, answers = [], [describe(answer) for answer in model.predict(inputs, **options)]
    remaining = iter(answers)
    for several in spelled:
        if not several:
            typer.echo("")
        for number in range(len(several)):
            print_exactly(f"{f'{number + 1}{chr(9)}' if len(several) > 1 else ''}{next(remaining)}\n")
    if explain and model.task.name == "caption":
        draw_captions(explained, names, figure)
    elif explain and figure is not None:
        from thereafter.cli.drawings import save_explained

        save_explained(model, explained[0], inputs[0], names[0], figure)


def _save_trace(model: TaskModel, run: str, texts: list[str], path: Path, *, plain: bool) -> None:
    from thereafter.tasks.task import describe

    if len(texts) != 1 or not plain:
        raise OptionError(
            f"--trace takes one text and no other option; got {len(texts):,} texts; try: predict {run} 'a text'"
        )
    recorded = model.trace(texts[0])
    typer.echo(describe(recorded.about["answer"]))
    typer.echo(f"saved {recorded.save(path)}")


def _standard_input() -> list[str]:
    """Its lines. Blank lines are kept, so that answer k belongs to line k."""
    from thereafter.text.sources import resolve

    text = resolve("-").parts["text"].text()
    return text.removesuffix("\n").split("\n") if text else []
