"""`thereafter predict` answers with the model of a task; `thereafter backtest` tests a forecaster on later rows.

A refused option is followed by what the task does take, as something to try.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.config import Table
from thereafter.base.progress import print_exactly
from thereafter.base.tabular import check_ending
from thereafter.cli import app
from thereafter.cli import options as opt
from thereafter.cli.options import chosen, command, option
from thereafter.cli.tables import print_rows, save_rows
from thereafter.errors import OptionError
from thereafter.tasks import TASKS

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel
    from thereafter.tasks.task import AnyTask

FORECASTS = (
    option("last", str, panel="Forecasts", metavar="TABLE"),
    option("horizon", int, panel="Forecasts"),
    option("samples", int, panel="Forecasts"),
    option("seed", int, panel="Forecasts"),
    option("figure", Path, panel="Forecasts", callback=opt.figure_file),
)


@command(app, *opt.READING, *FORECASTS)
def predict(
    run: str,
    texts: Annotated[list[str] | None, typer.Argument()] = None,
    source: Annotated[str | None, typer.Option("--in", metavar="SOURCE")] = None,
    out: Path | None = None,
    pretokenised: bool = False,
    as_written: bool = False,
    device: str = "auto",
    form: str = "",
    score: str | None = None,
    beam: int | None = None,
    explain: bool = False,
    trace: Annotated[Path | None, typer.Option(callback=opt.writable)] = None,
    last: str | None = None,
    horizon: int | None = None,
    samples: int | None = None,
    seed: int | None = None,
    figure: Path | None = None,
    **reading: object,
) -> None:
    """Predict with a model that was trained for a task.

    Example: thereafter predict runs/tagger "the cat sat on the mat"

    Example: thereafter predict runs/tagger --in book.txt --out book.conllu

    Example: thereafter predict runs/captions photo.jpg --explain --figure photo.html

    Example: thereafter predict runs/sales --last sales.csv --horizon 48 --out forecast.csv --figure fan.html

    Args:
        run: Run folder of a task (thereafter train --task ...).
        texts: Inputs of the task: texts, or paths of pictures and clips. Default: each line of standard input; a blank
            line gives a blank line.
        source: A whole text, or all pictures, instead: a file, a folder, a 'glob*', - or a corpus.
        out: Write a table to this file: .csv, .tsv or .json; of a tagger .conllu too; new pictures and frames to .npz.
        pretokenised: A line is a sentence, with spaces between its words. Default: text is cut into sentences and
            words.
        score: Score the model on these examples instead: a file or a corpus.
        beam: Beam size of a translator or a captioner (default 1).
        explain: Also print how likely each answer is, and what it is based on.
        trace: Save a trace of the network over one input, step by step (.npz).
        last: Forecast what comes after the last row of each series of this table.
        horizon: Steps to forecast, or frames to predict. Default: those of the run.
        samples: Futures to draw: columns sample_1, sample_2 ...; new pictures, to --figure or --out.
        seed: Random seed of the samples (default 0).
        figure: Draw the forecast with its bands, or what --explain shows of one picture or clip: .html, .png or .svg.
    """
    from thereafter.cli.pictures import print_beside, save_arrays, save_samples
    from thereafter.task_model import load_task
    from thereafter.tasks.answers import check_file
    from thereafter.tasks.task import Answering, Baselines, Sampling, Stacking, aspect

    formats = {"--csv": form == "csv", "--json": form == "json"}
    tables = {"--in": source, "--out": out, "--pretokenised": pretokenised, **formats}
    of_series: Table = {"--samples": samples, "--seed": seed}
    if last is not None:
        unfit: Table = {_count(texts or []): texts, "--in": source, "--pretokenised": pretokenised, "--score": score}
        unfit |= {"--beam": beam, "--explain": explain, "--trace": trace, "--as-written": as_written}
        _refuse(unfit, f"--last takes a table of series; try: thereafter predict {run} --last {last}")
        if out is not None:
            check_ending(out)
        table = load_task(run, device=device).forecast(last, horizon=horizon, samples=samples or 0, seed=seed or 0)
        printed = print_rows(table.to_rows() if form else [], form)
        typer.echo(f"forecast {table.note}; the mean, and the band of 80 %", err=True)
        if not printed and out is None:
            typer.echo(str(table))
        save_rows(table.to_rows() if out is not None else [], out)
        if figure is not None:
            typer.echo(f"saved {table.figure().save(figure)}", err=True)
        return
    task = task_of(run)
    if samples is not None and isinstance(task, Sampling):
        unfit = {_count(texts or []): texts, "--explain": explain, "--trace": trace, "--score": score}
        unfit |= {name: value for name, value in tables.items() if name != "--out"}
        _refuse(unfit, f"--samples draws new pictures; try: thereafter predict {run} --samples {samples}")
        save_samples(run, samples, seed or 0, figure, out, device=device)
        return
    arrays = out is not None and out.suffix.lower() == opt.ARRAYS  # which are no table
    if out is not None and not arrays:
        check_file(out)
    options: Table = {} if beam is None else {"beam": beam}
    if horizon is not None:
        options["ahead" if isinstance(task, Answering) and "ahead" in task.asked else "horizon"] = horizon
    if (figure is not None or arrays) and isinstance(task, Stacking):
        unfit = {"--trace": trace, "--score": score, "--beam": beam, **formats, **of_series}
        _refuse(unfit, f"--out and --figure save frames; try: thereafter predict {run} --in SOURCE --out frames.npz")
        model = load_task(run, device=device)
        save_arrays(model, task, run, texts or [], source, out, figure, explain=explain, options=options)
        return
    if task is not None:
        check_samples(task, run, texts or [], of_series)
        check_drawn(task, run, texts or [], figure, explain=explain)
    if score is not None:
        given = {_count(texts or []): texts, "--explain": explain, "--trace": trace, **tables}
        _refuse(given, f"--score measures on examples of its own; try: thereafter predict {run} --score {score}")
    if explain or trace is not None:
        what = "--explain" if explain else f"--trace {trace}"
        others = tables | {"--beam": beam}
        _refuse(others, f"{what} takes inputs alone and prints no table; try: thereafter predict {run} {what} INPUT")
    _check_reading(reading, run, source)
    model = load_task(run, as_written=as_written, device=device)
    if score is not None:
        typer.echo(model.score(score, **options))
        if "predict" in aspect(model.task, Baselines).printed_by:
            print_beside(model, score, "test", greedy=beam is not None)
    elif trace is not None:
        _save_trace(model, run, texts or [], trace, plain=not explain and beam is None)
    elif chosen(tables):
        reading |= {"pretokenised": pretokenised}
        _print_table(model, texts, source, reading | options, out, form)
    else:
        _print_answers(model, texts or _standard_input(), options, explain=explain, figure=figure)


def _refuse(given: Table, message: str) -> None:
    """OptionError where any of these is given, with what it is."""
    names = [name for name, value in chosen(given).items() if value != []]
    if names:
        rule, _, remedy = message.partition("; ")
        raise OptionError(f"{rule}; got {', '.join(names)} too; {remedy}")


def _count(texts: list[str]) -> str:
    return "1 text" if len(texts) == 1 else f"{len(texts):,} texts"


def _check_reading(reading: Table, run: str, source: str | None) -> None:
    """How a file is read says nothing where none is."""
    for name in chosen(reading) if source is None else ():
        switch = "--keep-markup" if name == "markup" else f"--{name.replace('_', '-')}"
        raise OptionError(
            f"{switch} says how a file is read, and was given without --in; expected both; try: thereafter predict "
            f"{run} --in FILE {switch}, with --in - for standard input"
        )


def _print_table(
    model: TaskModel, texts: list[str] | None, source: str | None, options: Table, out: Path | None, form: str
) -> None:
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
    printed = bool(form) and print_rows(predictions.to_rows(), form)
    if out is not None:
        typer.echo(f"saved {predictions.write(out)}", err=True)
    elif not printed:
        for before, number, one in zip((0, *predictions.numbers), predictions.numbers, predictions.items, strict=False):
            print_exactly("\n" * (number - before - 1) + f"{one}\n")  # answer k belongs to line k


def _print_answers(
    model: TaskModel, lines: list[str], options: Table, *, explain: bool, figure: Path | None = None
) -> None:
    """An answer a line; a blank line stays one. A file of several examples has as many answers, with their numbers."""
    from thereafter.cli.pictures import draw_explained
    from thereafter.tasks.task import Asking, aspect, describe

    asking = aspect(model.task, Asking)
    spelled = [asking.spelled(text) if text.strip() else () for text in lines]
    inputs = [one for several in spelled for one in several]
    names = [text for text, several in zip(lines, spelled, strict=True) for _ in several]
    if explain:
        if figure is not None and len(names) != 1:
            raise OptionError(f"--figure is one file: got {len(names):,} pictures, expected 1; try leaving it out")
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
    if explain:
        draw_explained(model, explained, inputs, names, figure)


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


def task_of(run: str) -> AnyTask | None:
    """The task of a run folder; None of a language model."""
    from thereafter.runs import folder

    name = str(folder.read_config(Path(run))[0].get("task"))
    return TASKS.load(name) if name in TASKS else None


def example_of(task: AnyTask, given: Sequence[str] = ()) -> str:
    """One input of a task as it is typed: the first that was given, else one of its kind."""
    from thereafter.tasks.task import Asking, aspect

    return shlex.quote(given[0]) if given else aspect(task, Asking).typed


def check_drawn(task: AnyTask, run: str, given: Sequence[str], figure: Path | None, *, explain: bool) -> None:
    """Refuse a figure without --last that the task does not draw, before anything is loaded."""
    from thereafter.tasks.task import Asking, Picturing, aspect

    is_drawn = isinstance(task, Picturing)
    if figure is None or (is_drawn and explain):
        return
    if aspect(task, Asking).of_tables:
        rule, rest = "draws the forecast of --last, and was given without it", f"--last table.csv --figure {figure}"
    elif is_drawn:
        rule = "draws what --explain shows of one picture, and was given without it"
        rest = f"{example_of(task, given)} --explain --figure {figure}"
    else:
        rule = f"draws forecasts, frames and what is seen in pictures, and the task {task.name!r} draws none"
        rest = f"{example_of(task, given)} --explain"
    raise OptionError(f"--figure {rule}; try: thereafter predict {run} {rest}")


def check_samples(task: AnyTask, run: str, given: Sequence[str], options: Mapping[str, object]) -> None:
    """Refuse --samples and --seed where there is no --last and no picture is drawn."""
    from thereafter.tasks.task import Asking, Sampling, aspect

    names = [name for name, value in options.items() if value is not None]
    if not names:
        return
    got, spelled = ", ".join(names), " ".join(f"{name} {options[name]}" for name in names)
    if aspect(task, Asking).of_tables:
        rule, rest = f"these are options of --last; got {got} too", f"--last TABLE {spelled}"
    elif isinstance(task, Sampling):
        rule, rest = f"--seed is that of --samples; got {got} alone", f"--samples 16 {spelled}"
    else:
        rule = f"the task {task.name!r} has one answer to each input, and draws no new ones; got {got}"
        rest = example_of(task, given)
    raise OptionError(f"{rule}; try: thereafter predict {run} {rest}")


@command(app)
def backtest(
    run: str,
    table: str,
    horizon: int | None = None,
    every: int = 1,
    by: str = "step",
    device: str = "auto",
    out: opt.TableFile = None,
    figure: Annotated[Path | None, typer.Option(callback=opt.figure_file)] = None,
    form: str = "",
) -> None:
    """Test a forecaster on rows that it did not learn from: forecast from one origin after the other.

    Errors are by step and by series, with 95 % intervals, beside the seasonal naive forecast; --out has every value.

    Example: thereafter backtest runs/sales sales.csv --every 24 --figure backtest.html

    Args:
        run: Run folder of a forecaster (train --task forecast).
        table: A table of series, such as the one it was trained on.
        horizon: Steps to forecast. Default: those of the run.
        every: Rows from one origin to the next.
        by: Rows of --csv and --json: step, series or all.
        figure: Draw the error by step: .html, .png or .svg.
    """
    from thereafter.task_model import load_task

    tested = load_task(run, device=device).backtest(table, horizon=horizon, every=every)
    if not print_rows([*tested.errors(by).rows], form):
        typer.echo(str(tested))
    save_rows(tested.to_rows() if out is not None else [], out)
    if figure is not None:
        typer.echo(f"saved {tested.figure().save(figure)}", err=True)
