"""`thereafter inspect trace`, `describe`, `dynamics` and `units`: what a model did at every token of a text; minimal
pairs.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from thereafter.base.config import Table
from thereafter.base.progress import print_caution, print_coloured
from thereafter.cli import inspect_app, load
from thereafter.cli import options as opt
from thereafter.cli.options import ItemColumn, Picture, chosen, command, table_or_arrays
from thereafter.cli.tables import Results, draw, print_conditions, print_rows, save_rows, tell_written
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement
    from thereafter.inspection.pairs import PairScores
    from thereafter.inspection.trace import Trace


@command(inspect_app)
def pairs(
    runs: Annotated[list[str], typer.Argument(metavar="RUN... FILE")],
    tokens: str = "word",
    as_written: bool = False,
    encoding: str | None = None,
    beginnings: bool = False,
    context: Annotated[str, typer.Option(metavar="N|item|document")] = "item",
    by: str | None = None,
    item: ItemColumn = None,
    out: Annotated[Path | None, typer.Option(callback=table_or_arrays)] = None,
    figure: Picture = None,
    form: str = "",
) -> None:
    """Score minimal pairs: how often a model gives the good sentence the higher probability. For any model.

    Pairs that differ in a word that the model does not know are counted separately, not in the accuracy. Several runs
    are compared on the pairs that all of them judge, with 95 % intervals.

    Example: thereafter inspect pairs runs/book 'blimp/*.jsonl' --out pairs.csv

    Example: thereafter inspect pairs runs/ngram runs/lstm pairs.csv --by condition

    Args:
        runs: One or more runs, then the pairs: two sentences per line with a tab between, the good one first; a .csv
            with columns good and bad; or BLiMP's jsonl. Several files, a folder, or a glob in quotes.
        beginnings: The sentences may be cut short: their line end is not counted.
        context: What a sentence is read after. item: nothing, a fresh state; N: the good sentences of the N pairs
            before it; document: those of all pairs before it.
        by: A column of the file, such as condition: accuracy and difference by condition.
        out: Write one row per pair to this file (.csv, .tsv or .json); or the figures of the groups (.npz).
    """
    from thereafter import instruments
    from thereafter.comparing.rows import ComparedPairs
    from thereafter.evaluation.text_reading import items_before

    if item is not None and by is None:
        raise OptionError(f"--item is {item!r} without --by; expected a column of conditions too; try --by condition")
    items_before(context, of_table=True)
    names, files = _split(runs)
    if len(names) > 1 and out is not None and out.suffix.lower() == ".npz":
        raise OptionError(f"{out.name!r} takes the groups of one run; got {len(names)}; try {out.stem}.csv")
    models = [load(name, tokens, as_written=as_written) for name in names]
    options: Table = {"encoding": encoding, "whole": not beginnings, "context": context}
    if len(models) > 1:
        called = [Path(name).name or name for name in names]
        compared = instruments.compare_pairs(models, files, names=called, **options)
    else:
        compared = ComparedPairs((instruments.pair_table(models[0], files, **options),))
    several = compared.scores
    for lm in models:
        tell_written(lm, *(pair.good for pair in several[0].pairs[:20]))
    rows = [row for scores in several for row in (scores.groups() if by is None else scores.conditions(by, item))]
    if by is None and len(several) > 1:
        rows = [{"model": scores.about["model"]} | row for scores in several for row in scores.groups()]
    if print_rows(rows, form):
        typer.echo(several[0].about["context"], err=True)
    else:
        for scores in several:
            _print_groups(scores)
        if by is not None:
            print_conditions(rows)
        for difference in compared.differences:
            typer.echo(str(difference))
        typer.echo(several[0].about["context"])
    for scores in several:
        if scores.caution:
            print_caution(f"caution: {scores.caution}", err=True)
    if out is not None and out.suffix.lower() == ".npz":
        typer.echo(f"saved {several[0].measurement().save(out)}", err=True)
    else:
        save_rows(compared.to_rows() if len(several) > 1 else several[0].to_rows(), out)
    if figure is not None:
        from thereafter.figures.memory import accuracy_by_group

        draw([accuracy_by_group([one.measurement() for one in several])], figure, quiet=True)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The runs, and the files of pairs after them."""
    from thereafter.runs.folder import is_run

    runs = 1
    while runs < len(arguments) and (is_run(Path(arguments[runs])) or ".arpa" in arguments[runs]):
        runs += 1
    if runs == len(arguments):
        raise OptionError(
            f"got {', '.join(arguments)} and no pairs; expected a file after the runs; "
            f"try: thereafter inspect pairs {' '.join(arguments)} pairs.tsv"
        )
    return arguments[:runs], arguments[runs:]


def _print_groups(scores: PairScores) -> None:
    """The table of groups, and the accuracy in a sentence."""
    figures = scores.measurement()
    width = max(12, *(len(name) + 2 for name in figures["group"].tolist()))
    typer.echo(
        f"{'':18}{'group':{width}}{'pairs':>8}{'judged':>8}{'accuracy':>10}{'95 % interval':>16}{'nats':>9}"
        f"{'unknown':>9}{'same':>7}"
    )
    names = ("by", "group", "total", "judged", "accuracy", "low", "high", "nats", "unknown", "same")
    for row in zip(*(figures[name].tolist() for name in names), strict=True):
        by, group, total, judged, accuracy, low, high, nats, unknown, same = row
        between = f"{low:.1%} - {high:.1%}" if judged else "-"
        share, mean = (f"{accuracy:.1%}", f"{nats:+.3f}") if judged else ("-", "-")
        typer.echo(
            f"{by:18}{group:{width}}{total:>8,}{judged:>8,}{share:>10}{between:>16}{mean:>9}{unknown:>9,}{same:>7,}"
        )
    if math.isnan(scores.accuracy):
        typer.echo(f"{scores.about['model']} can judge none of the pairs; {scores.left_out}")
        return
    left = f"; {scores.left_out}" if scores.left_out else ""
    typer.echo(
        f"{scores.about['model']} finds the good sentence likelier in {scores.accuracy:.1%} of the pairs "
        f"({figures['low'][0]:.1%} to {figures['high'][0]:.1%}){left}"
    )


@command(inspect_app)
def trace(
    run: str,
    text: str,
    out: Annotated[Path, typer.Option(callback=opt.writable)] = Path("trace.npz"),
    limit: int = 2000,
    as_written: bool = False,
    form: str = "",
) -> None:
    """Record what a model did at every token of a text: states, gates, attention, predictions.

    --csv and --json print one row per token: bits, rank, the likeliest token. The arrays are in the file.

    Example: thereafter inspect trace runs/book "the cat sat on the mat" --out cat.npz

    Args:
        text: Text to run the model on.
        out: File for the arrays: .npz (to draw later), .json or .csv.
        limit: Maximum number of tokens.
    """
    lm = load(run, as_written=as_written)
    tell_written(lm, text)
    recorded = lm.trace(text, limit=limit)
    recorded.save(out)
    tabled = print_rows(recorded.to_rows(), form)
    if not tabled:
        for name, axes in recorded.axes.items():
            shape = " x ".join(map(str, recorded[name].shape))
            typer.echo(f"{name:24}{shape:>16}  {', '.join(axes)}")
    typer.echo(f"saved {out}: {len(recorded.tokens):,} tokens", err=tabled)
    if "cut" in recorded.about:
        print_caution(f"caution: {recorded.about['cut']}", err=tabled)


@command(inspect_app)
def describe(file: Path, array: str | None = None, out: opt.TableFile = None, form: str = "") -> None:
    """List the arrays of a saved measurement or trace: name, axes, shape, meaning.

    Example: thereafter inspect describe flow.npz

    Example: thereafter inspect describe flow.npz --array norm --out norm.csv

    Args:
        file: A saved measurement or trace (.npz).
        array: Print the table of this array instead: a row for each of its places.
    """
    stored = _read(file)
    table = stored.describe() if array is None else stored.table_of(array)
    rows = table.to_rows()
    if not print_rows(rows, form) and out is None:
        typer.echo(table)
    save_rows(rows, out)


def _read(file: Path) -> Measurement | Trace:
    from thereafter.errors import FormatError
    from thereafter.inspection.measurement import Measurement
    from thereafter.inspection.trace import Trace

    try:
        return Measurement.load(file)
    except FormatError as error:
        try:
            return Trace.load(file)
        except FormatError:
            raise error from None


@command(inspect_app)
def dynamics(
    run: str,
    text: Annotated[str, typer.Option()],
    field: str = "l0.h",
    limit: Annotated[int, typer.Option(min=2)] = 2000,
    *,
    results: Results,
    table: Literal["path", "saturation", "timescales"] = "path",
) -> None:
    """Measure the state trajectory, gate saturation and timescales of the units over a text.

    Example: thereafter inspect dynamics runs/book --text "the cat that the dogs saw was asleep" --figure cat.html

    Args:
        text: Text to run the model on, or @FILE to read one.
        field: The state to follow, such as l0.h or l1.c.
        limit: Maximum number of tokens.
        figure: Draw path, saturation and timescales: .html or .png.
        table: What --csv and --json print: one row per token, gate, or unit of a layer.
    """
    from thereafter.base.kinds import KINDS, listed, recurrent_names
    from thereafter.base.progress import show_progress
    from thereafter.figures import dynamics as drawn
    from thereafter.inspection import dynamics as measure

    if text.startswith("@"):
        from thereafter.text.sources import resolve

        text = next(iter(resolve(text[1:]).parts.values())).text()[: 40 * limit]
    lm = load(run)
    kind = KINDS.get(lm.config["model"])
    if kind is None or not kind.recurrent:
        raise OptionError(f"the model {lm.config['model']!r} has no state to follow; try {listed(recurrent_names())}")
    with show_progress():
        trace = lm.trace(text, limit=limit, top=1)
    if "cut" in trace.about:
        print_caution(f"caution: {trace.about['cut']}", err=bool(results.form))
    measured = {"path": measure.trajectory(trace, field)}
    if any(name.rpartition(".")[2] in measure.GATES for name in trace.arrays):  # a plain RNN has a path and no gates
        measured |= {"saturation": measure.saturation(trace), "timescales": measure.timescales(trace)}
    if table not in measured:
        raise OptionError(f"the model {lm.config['model']!r} has no gates, so no {table}; try --table path")
    if not print_rows(measured[table].to_rows(), results.form):
        _print_path(measured["path"], field, len(trace.tokens))
        if "saturation" in measured:
            _print_gates(measured["saturation"], measured["timescales"])
    about, kinds = f"{lm.config['model']} ({Path(run).name})", (drawn.trajectory, drawn.saturation, drawn.timescales)
    pairs = zip(kinds, measured.values(), strict=False)
    results.save(measured["path"], pictures=lambda: [kind(figures, model=about) for kind, figures in pairs])


def _print_path(path: Measurement, field: str, tokens: int) -> None:
    shares = ", ".join(f"{share:.0%}" for share in path["share"])
    typer.echo(f"{field} over {tokens:,} tokens: {shares} of the variance in the first components")
    typer.echo(f"a step moves it by {path['stride'][1:].mean():.0%} of its length")


def _print_gates(gates: Measurement, times: Measurement) -> None:
    typer.echo(f"{'gate':>14}  {'under 0.1':>9}  {'over 0.9':>9}")
    for place, name in enumerate(gates["gate"].tolist()):
        typer.echo(f"{name:>14}  {gates['low'][place]:9.1%}  {gates['high'][place]:9.1%}")
    typer.echo(f"{'layer':>14}  {'median':>9}  {'longest':>9}  steps to 1/e by the gate alone")
    for place, layer in enumerate(times["layer"].tolist()):
        steps = times["steps"][place]
        steps = steps[steps == steps]
        middle = sorted(steps.tolist())[len(steps) // 2]
        typer.echo(f"{layer:>14}  {middle:9.1f}  {steps.max():9.1f}")


_COLOURED_LINES = 14


@command(
    inspect_app,
    *opt.library(
        "thereafter.inspection.units:search", "top", "gates", "limit", "seed", top={"min": 1}, limit={"min": 1000}
    ),
    *opt.library("thereafter.instruments:units", "part", "encoding"),
)
def units(
    run: str,
    source: str,
    property: list[str] | None = None,
    regex: list[str] | None = None,
    *,
    results: Results,
    **options: object,
) -> None:
    """Find units that follow a property of the text: chosen on its first half, measured on its second.

    Example: thereafter inspect units runs/code python-code --property quotes --property line-position --top 5

    Args:
        source: A file, a folder, a 'glob*', - for standard input, or a corpus name (thereafter data list).
        property: quotes, comment, quotes-or-comment, speech, line-position, indentation, brackets, keyword or boundary.
            Repeat the option for more. Default: quotes.
        regex: Look for units that follow matches of this regular expression.
        top: Number of units to list per property.
        gates: Look at gates and candidates too.
        limit: Maximum number of tokens.
        seed: Random seed of the control's offsets.
        part: Part of a corpus. Default: test.
        figure: Draw the coloured text: .html or .png.
    """
    from thereafter import instruments
    from thereafter.figures.units import coloured_units, unit_ranking
    from thereafter.inspection.properties import named, of_regex

    wanted = [named(name) for name in property or ([] if regex else ["quotes"])] + [of_regex(r) for r in regex or []]
    lm = load(run)
    ranking = instruments.units(lm, source, *wanted, **chosen(options))
    names = [one.name for one in wanted]

    def print_text(ranking: Measurement) -> None:
        for row, name in enumerate(names):
            _print_table(ranking, row, name)
            if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
                _print_coloured(ranking, row)

    results.report(
        ranking, print_text, lambda: [*(coloured_units(ranking, name) for name in names), unit_ranking(ranking)]
    )


def _print_table(ranking: Measurement, row: int, name: str) -> None:
    measure = "AUC" if ranking["yes_no"][row] else "correlation"
    typer.echo(f"{name}: {measure} on {ranking.about['tokens'] // 2:,} tokens the units were not chosen on")
    typer.echo(f"{'unit':>16}  {'held out':>9}  {'chosen on':>9}  direction")
    for rank in range(ranking["unit"].shape[1]):
        side = "high" if ranking["direction"][row, rank] > 0 else "low"
        unit, second, first = (ranking[field][row, rank] for field in ("unit", "held_out", "chosen"))
        typer.echo(f"{unit!s:>16}  {second:9.3f}  {first:9.3f}  {side}")
    best, control = float(ranking["held_out"][row, 0]), float(ranking["control"][row])
    clear = best - control > (0.1 if ranking["yes_no"][row] else 0.2)
    verdict = "follows it" if clear else "is no better than luck"
    typer.echo(
        f"control {control:.3f} (the same search for the property moved along the text): the best unit {verdict}"
    )


def _print_coloured(ranking: Measurement, row: int) -> None:
    """Some lines of held-out text on the unit's colours, underlined where the property holds."""
    from thereafter.figures.units import lay_out, shade

    tokens, values, truth = (ranking[name][row] for name in ("token", "value", "truth"))
    characters = lay_out(tokens.tolist(), values, truth, _COLOURED_LINES)
    out, line = [], 0
    for one in characters:
        out.append("\x1b[0m\n" * (one.line - line))
        line = one.line
        red, green, blue = shade(one.value)
        under = "\x1b[4m" if ranking["yes_no"][row] and one.truth else "\x1b[24m"
        shown = one.text if one.text.isprintable() else " "
        out.append(f"\x1b[38;2;0;0;0m\x1b[48;2;{red};{green};{blue}m{under}{shown}")
    print_coloured("".join(out) + "\x1b[0m")
