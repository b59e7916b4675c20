"""`thereafter inspect memory`, `agreement`, `probe` and `ahead`: what a model still knows, by how far back it was.

`gradients` and `jacobians`: how far a gradient travels back, and the one-step Jacobians.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from thereafter.cli import inspect_app, load
from thereafter.cli.options import Numbers, chosen, command, group, library, option, whole_numbers
from thereafter.cli.tables import Results, print_rows, save
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement

DISTANCES = (1, 2, 5, 10, 20, 40, 80, 160, 320)


@command(inspect_app, *group("thereafter.inspection.gradients:gradient_flow", "distance", "rows", "ends"))
def gradients(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...")],
    text: str | None = None,
    source: str | None = None,
    at: Literal["any", "verb"] = "any",
    *,
    results: Results,
    **given: object,
) -> None:
    """Measure how far a gradient travels back in time: the norm of d loss / d state by distance.

    Example: thereafter inspect gradients runs/rnn runs/lstm --at verb --distance 10 --figure decay.html

    Args:
        runs: Run folders of neural models.
        text: The text to measure on.
        source: A file or corpus to measure on. Default: the corpus the model was trained on.
        at: Loss at any token of the text, or at the verbs of new agreement sentences.
        distance: Steps to look back (default 40), or words from verb to subject (default 10).
        rows: Number of rows of text (default 8), or of sentences (200).
        ends: Number of losses per row of text (default 6).
    """
    from thereafter import instruments
    from thereafter.figures.gradients import gradient_decay, gradient_depth

    options = chosen(given)
    if at == "verb" and "rows" in options:
        options["count"] = options.pop("rows")
    if at == "verb" and "ends" in options:
        raise OptionError("a sentence has one verb and one loss; leave --ends out, or leave --at verb out")
    flows = []
    for run, lm in zip(runs, map(load, runs), strict=True):
        kind = str(lm.config["model"])
        name = kind if len(runs) == 1 else f"{kind} ({Path(run).name})"
        flows.append(instruments.gradients(lm, text=text, source=source, at=at, name=name, **options))
    table = [{"model": flow.about["model"], **row} for flow in flows for row in flow.to_rows()]
    if not print_rows(table, results.form):
        for line in flow_lines(flows):
            typer.echo(line)
    results.save(*flows, pictures=lambda: [gradient_decay(flows), gradient_depth(flows[0])])


MEANINGS = {
    "gain": "largest singular value of the whole product",
    "full": "root mean square singular value of the memory's block (c, else h)",
    "direct": "the same of the direct path, the product of gates alone",
}


@command(inspect_app)
def jacobians(
    run: str,
    text: str | None = None,
    source: str | None = None,
    steps: int | None = None,
    *,
    results: Results,
) -> None:
    """Compute one-step Jacobians of a recurrent model along a text, their products, and the product of the gates alone.

    Example: thereafter inspect jacobians runs/lstm --text "the keys to the cabinet are on the table"

    Args:
        text: The text to measure on.
        source: A file or corpus to measure on. Default: the corpus the model was trained on.
        steps: Number of steps to multiply (default 40).
    """
    from thereafter import instruments
    from thereafter.figures.gradients import jacobian_paths, jacobian_spectrum

    measured = instruments.jacobians(load(run), text=text, source=source, steps=steps)
    results.report(measured, _print_layers, lambda: [jacobian_paths([measured]), jacobian_spectrum(measured)])


def _print_layers(measured: Measurement) -> None:
    from thereafter.inspection.jacobians import jacobian_decays

    for i, layer in enumerate(measured["layer"].tolist()):
        singular, radius = measured["singular"][i, :, 0], measured["radius"][i]
        typer.echo(
            f"{layer}: one step, mean over {len(radius):,}: largest singular value {singular.mean():.3f}, "
            f"spectral radius {radius.mean():.3f}"
        )
    shown = [d for d in DISTANCES if d <= measured.about["distance"]]
    typer.echo(f"\n{'layer':9}{'of':8}" + "".join(f"{d:>9}" for d in shown) + "   verdict")
    for (layer, key), decay in jacobian_decays(measured).items():
        value_K = measured[key][measured["layer"].tolist().index(layer)]
        typer.echo(f"{layer:9}{key:8}" + "".join(f"{value_K[d - 1]:>9.1e}" for d in shown) + f"   {decay}")
    typer.echo("\nby steps multiplied; " + "; ".join(f"{key}: {words}" for key, words in MEANINGS.items()))


def flow_lines(flows: Sequence[Measurement]) -> Iterator[str]:
    """A line for each field of each layer of each model, under a head."""
    from thereafter.inspection.gradients import decays

    width = max(len(str(flow.about["model"])) for flow in flows) + 2
    if all(flow.about.get("at") == "verb" for flow in flows):
        yield from _verb_lines(flows, width)
        return
    shown = [d for d in DISTANCES if d <= max(flow.about["distance"] for flow in flows)]
    yield f"{'model':{width}}{'layer':9}{'field':6}" + "".join(f"{d:>9}" for d in shown) + "   verdict"
    for flow in flows:
        for (layer, field), decay in decays(flow).items():
            norm_D = flow["norm"][flow["layer"].tolist().index(layer), :, flow["field"].tolist().index(field)]
            cells = "".join(f"{norm_D[d]:>9.1e}" if d < len(norm_D) else f"{'':>9}" for d in shown)
            yield f"{flow.about['model']:{width}}{layer:9}{field:6}{cells}   {decay}"
    yield "norm of d loss / d state by steps back; the verdict is the share of distance 1 at the farthest distance"


def _verb_lines(flows: Sequence[Measurement], width: int) -> Iterator[str]:
    """Shares of distance 1 from the verb to its subject, and under a memory what comes along its gates alone."""
    from thereafter.inspection.gradients import decays, in_words

    between = int(flows[0].about["distance"])
    shown = sorted({d for d in (1, 2, 3, 5, 8, *DISTANCES) if d < between} | {between})
    yield f"gradient of the loss at the verb back to its subject, {between} words between; {flows[0].about['text']}"
    yield f"{'model':{width}}{'layer':9}{'field':8}{'norm at 1':>10}" + "".join(f"{d:>8}" for d in shown) + "   verdict"
    for flow in flows:
        model, layers = flow.about["model"], flow["layer"].tolist()
        for (layer, field), decay in decays(flow).items():
            i = layers.index(layer)
            norm_D = flow["norm"][i, :, flow["field"].tolist().index(field)]
            shares = "".join(f"{_percent(norm_D[d] / norm_D[1] if norm_D[1] > 0 else 0.0):>8}" for d in shown)
            yield f"{model:{width}}{layer:9}{field:8}{norm_D[1]:>10.1e}{shares}   {decay}"
        for i, layer in enumerate(layers):
            for key in ("gates", "direct") if flow["gates"][i, 0] == 1 else ():
                value_D = flow["gates"][i] if key == "gates" else flow["additive"][i]
                cells = "".join(f"{_percent(value_D[d]):>8}" for d in shown)
                yield f"{model:{width}}{layer:9}{key:8}{'':>10}{cells}"
        right = in_words(flow.about["right"])
        yield f"{model:{width}}is right at {right} of these verbs, loss {flow.about['loss']:.3f}"
    yield "shares of the norm one step back, in %; the last column is the state that has just read the subject;"
    yield "gates: product of the gates on the memory's direct path (c, else h), mean over units; direct: how much of"
    yield "the gradient in the memory comes along that path alone;"
    yield "d loss / d c includes what leaves c by h, d loss / d h is with c held fixed;"
    yield "norms of different models stand for states of different size and scale: compare shares"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"


@command(inspect_app, *library("thereafter.inspection.memory:memory", "longest", "count", "seed"))
def memory(
    run: str,
    name: Annotated[str | None, typer.Option("--task")] = None,
    *,
    results: Results,
    **options: object,
) -> None:
    """Measure how far back a model remembers: its accuracy in a memory task by the number of steps n.

    First: thereafter train remember-first --model lstm --out runs/first

    Example: thereafter inspect memory runs/first --longest 60 --figure memory.html

    Args:
        name: remember-first, count-and-fire or balanced-brackets. Default: the corpus it was trained on.
        longest: Largest n to test. Default: the largest of the corpus.
        count: Number of lines per n.
        seed: Random seed of the lines.
    """
    from thereafter import instruments
    from thereafter.figures.memory import accuracy_by_n

    measured = instruments.memory(load(run), name, **chosen(options))
    results.report(measured, _print_by_n, lambda: [accuracy_by_n([measured])])


def _print_by_n(measured: Measurement) -> None:
    from thereafter.inspection.memory import remembered
    from thereafter.text.memory import task

    typer.echo(f"{measured.about['model']} asked {task(measured.about['task']).question}")
    typer.echo(f"{'n':>4}{'accuracy':>10}{'chance':>10}{'questions':>11}")
    for n, right, chance, total in zip(*(measured[key] for key in ("n", "accuracy", "chance", "total")), strict=True):
        typer.echo(f"{n:>4}{right:>10.1%}{chance:>10.1%}{total:>11,}")
    typer.echo(remembered(measured))


@command(inspect_app, *library("thereafter.instruments:agreement", "longest", "count", "seed"))
def agreement(run: str, corpus: str | None = None, *, out: Numbers = None, form: str = "", **options: object) -> None:
    """Measure how often a model prefers the form that agrees with a word far back, by the number of words between.

    First: thereafter train reflexives --model lstm --out runs/reflexives

    Example: thereafter inspect agreement runs/reflexives

    Args:
        corpus: agreement, reflexives or filler-gap. Default: the corpus the model was trained on.
        longest: Maximum number of words between the two. Default: as in the corpus.
        count: Number of sentences.
        seed: Random seed of the sentences.
    """
    from thereafter import instruments

    verdicts = instruments.agreement(load(run), corpus, **chosen(options))
    if not print_rows(verdicts.to_rows(), form):
        _print_by_distance(verdicts)
    save(out, verdicts, quiet=bool(form))


def _print_by_distance(verdicts: Measurement) -> None:
    from thereafter.evaluation.agreement import BINS
    from thereafter.text.agreement import sentence_corpus

    question = sentence_corpus(verdicts.about["corpus"]).question
    about = verdicts.about
    typer.echo(f"{about['model']} asked {question}; chance is 50 %")
    typer.echo(f"it knows {about['known_words']:,} of the {about['words']:,} words of these sentences")
    typer.echo(f"{'words between':>13}{'right':>8}{'sentences':>11}")
    distance = verdicts["distance"]
    for low, high in BINS:
        inside = (distance >= low) & (distance <= high)
        total = int(verdicts["total_distance"][inside].sum())
        if total:
            right = float(verdicts["right_distance"][inside].sum()) / total
            typer.echo(f"{low if low == high else f'{low}-{high}':>13}{right:>8.1%}{total:>11,}")


@command(inspect_app, *library("thereafter.inspection.probing:probe_number", "field", "count", "seed"))
def probe(
    run: str,
    what: Annotated[Literal["number", "class"], typer.Option("--property")] = "number",
    *,
    field: str,
    results: Results,
    **options: object,
) -> None:
    """Decode a property from a model's states with a linear probe, with a control task of random labels.

    The model must know the words of the corpus `agreement`.

    Example: thereafter inspect probe runs/agreement --property number --figure decay.html

    Args:
        what: The subject's number by distance, or the class of the word read.
        field: The state to probe for the number: h, or c of an LSTM.
        count: Number of agreement sentences, two thirds of them to fit on.
        seed: Random seed of sentences and control.
    """
    from thereafter import instruments
    from thereafter.figures.memory import information_decay, word_class_by_layer

    state = {"field": field} if what == "number" else {}
    reading = instruments.probe(load(run), what, **chosen(options | state))
    picture = information_decay if what == "number" else word_class_by_layer
    results.report(reading, _print_probe, lambda: [picture([reading])])


def _print_probe(reading: Measurement) -> None:
    about, number = reading.about, "distance" in reading.arrays
    head = "words after" if number else "layer"
    typer.echo(f"{about['model']}: {about['text']}")
    typer.echo(f"it knows {about['known_words']:,} of the {about['words']:,} words of these sentences")
    typer.echo(f"{head:14}{'accuracy':>10}{'control':>10}{'selectivity':>13}{'bits':>8}")
    names = reading["distance" if number else "layer"].tolist()
    accuracy, control, bits = (
        reading[cell][-1] if number else reading[cell] for cell in ("accuracy", "control", "bits")
    )
    for name, right, other, gain in zip(names, accuracy, control, bits, strict=True):
        typer.echo(f"{name!s:14}{right:>10.1%}{other:>10.1%}{right - other:>13.1%}{gain:>8.3f}")
    if number:
        kept = bits >= 0.5
        until = f"half of the 1 bit is kept for all of the {names[-1]} words"
        if not kept.all():
            lost = int(kept.argmin())
            later = " (and is there again later)" if kept[lost:].any() else ""
            until = f"less than half of the 1 bit is there {names[lost]} words after it{later}"
        typer.echo(f"the subject's number, read from the last layer: {until}")
    else:
        best = int((accuracy - control).argmax())
        typer.echo(f"word class is most selectively read from {names[best]}")


@command(
    inspect_app,
    option("steps", str, default="1,4,16,64", callback=whole_numbers),
    *library("thereafter.instruments:steps_ahead", "series", "part"),
)
def ahead(
    run: str,
    source: Annotated[str | None, typer.Argument()] = None,
    *,
    results: Results,
    **options: object,
) -> None:
    """Forecast every row of a part k steps ahead, from the model's own predictions, and measure the error by k.

    Example: thereafter inspect ahead runs/sine noisy-sine --steps 1,4,16,64 --figure ahead.html

    Args:
        source: A table of series. Default: the one that the run was trained on.
        steps: Numbers of steps ahead, separated by commas.
        series: Name of the series. Default: the first.
        part: The part to forecast.
    """
    from thereafter import figures, instruments
    from thereafter.task_model import load_task

    measured = instruments.steps_ahead(load_task(run), source, **chosen(options))
    results.report(measured, _print_steps, lambda: [figures.steps_ahead(measured), figures.error_by_steps([measured])])


def _print_steps(measured: Measurement) -> None:
    about = measured.about
    typer.echo(f"{about['model']} on {about['text']}, {about['compared_rows']:,} rows of {about['target']}")
    typer.echo(f"{'steps ahead':>12}{'RMSE':>12}{'MAE':>12}{'value before':>14}")
    columns = (measured[name].tolist() for name in ("ahead", "rmse", "mae", "last_value_rmse"))
    for count, rmse, mae, before in zip(*columns, strict=True):
        typer.echo(f"{count:>12}{rmse:>12.4g}{mae:>12.4g}{before:>14.4g}")
