"""What the commands show and save of answers that are pictures, clips or arrays, and the rows beside a score."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from thereafter.base.storage import replacing
from thereafter.cli.options import ARRAYS
from thereafter.errors import MissingPackageError, OptionError, SourceError

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel
    from thereafter.tasks.answers import Explained
    from thereafter.tasks.task import AnyTask, Stacking

MOST_PICTURES = 4_096
_AT_ONCE = 64  # examples whose answers are in memory as floats


def draw_explained(
    model: TaskModel, explained: Sequence[Explained], inputs: Sequence[object], names: Sequence[str], path: Path | None
) -> None:
    """A figure of each explanation: `path`, or NAME-TASK.html in the current folder for a task that is drawn unasked.
    Then one that shows nothing is passed over, and a machine without the package for figures draws none."""
    from thereafter.tasks.task import Picturing

    task = model.task
    if not isinstance(task, Picturing) or (path is None and not task.drawn_unasked):
        return
    for one, given, name in zip(explained, inputs, names, strict=True):
        try:
            figure = task.figure(model.net, one, given, Path(name).name, model.trace)
            place = figure.save(path or Path(f"{Path(name).stem}-{task.name}.html"))
            typer.echo(f"saved {place}", err=True)
        except OptionError:
            if path is not None:
                raise
        except MissingPackageError as missing:
            if path is not None:
                raise
            typer.echo(f"not drawn: {missing}", err=True)
            return


def print_beside(model: TaskModel, source: str, part: str, *, greedy: bool = False) -> None:
    """Below a score the rows that need no training; nothing but a note where what it learned from is gone.

    `greedy`: the score itself is that of a search, and the row of the network says that it is not.
    """
    from thereafter.tasks.task import Baselines, Headed, aspect

    try:
        rows = model.baselines(source, part=part, trained=False)
    except SourceError as gone:
        typer.echo(f"no rows beside it: {gone}", err=True)
        return
    own = aspect(model.task, Baselines).rotated if greedy else None
    rows = [(f"{name}, greedy" if name == own else name, measured) for name, measured in rows]
    width = max(len(name) for name, _ in rows)
    for name, measured in rows:
        typer.echo(f"{name:<{width}}  {measured.line() if isinstance(measured, Headed) else measured}")


def save_arrays(
    model: TaskModel,
    task: Stacking,
    run: str,
    texts: Sequence[str],
    source: str | None,
    out: Path | None,
    figure: Path | None,
    *,
    explain: bool,
    options: Mapping[str, object],
) -> None:
    """Write the arrays of all answers to `out`, and a figure of the first to `figure`."""
    from thereafter.base.progress import show_progress
    from thereafter.tasks.task import Picturing, Tabulating, aspect

    unit = aspect(model.task, Tabulating).unit
    ask = model.explain if explain or task.stacks_explained else partial(model.predict, **options)
    with show_progress():
        examples, name = _examples(model.task, run, texts, source, unit)
        if out is not None:
            arrays = task.stack(_answers(ask, examples))
            with replacing(out) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
                for key, array in arrays.items():
                    with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
            shapes = ", ".join(f"{key} {list(array.shape)}" for key, array in arrays.items())
            typer.echo(f"saved {out}: {shapes}")
        if figure is not None and isinstance(model.task, Picturing):
            which = f"the first of {len(examples):,} {unit}s of {name}" if len(examples) > 1 else name
            (explained,) = model.explain(examples[:1])
            place = model.task.figure(model.net, explained, examples[0], which, model.trace).save(figure)
            typer.echo(f"saved {place}: {which}")


def _examples(task: AnyTask, run: str, texts: Sequence[str], source: str | None, unit: str) -> tuple[list[object], str]:
    """The examples that are asked about, with their labels where they have some, and what they are called."""
    from thereafter.tasks import finding
    from thereafter.tasks.task import Asking, aspect

    if (source is None) == (not texts):
        got = "none" if source is None else f"both {', '.join(texts)} and --in {source}"
        raise OptionError(f"got {got}; expected {unit}s; try: thereafter predict {run} --in SOURCE, or a path")
    if source is not None:
        files = finding.files_of(task, source, "test")
        return list(task.read(files.files)), files.name
    return [one for text in texts for one in aspect(task, Asking).spelled(text)], ", ".join(texts)


def _answers(ask: Callable[[list[object]], Any], examples: Sequence[object]) -> Iterator[object]:
    for begin in range(0, len(examples), _AT_ONCE):
        yield from ask(list(examples[begin : begin + _AT_ONCE]))


def save_samples(
    run: str, count: int, seed: int, figure: Path | None, out: Path | None = None, *, device: str = "cpu"
) -> None:
    """Draw new pictures and save them: side by side to `figure`, as arrays to `out`; without both to samples.png in the
    current folder."""
    from thereafter.base.progress import show_progress
    from thereafter.figures.pictures import contact_sheet, png
    from thereafter.task_model import load_task
    from thereafter.tasks.task import Sampling

    sheet = Path("samples.png") if figure is None and out is None else figure
    for option, path, ending in (("--figure", sheet, ".png"), ("--out", out, ARRAYS)):
        if path is not None and path.suffix.lower() != ending:
            raise OptionError(
                f"{option} is {path.name!r}; expected a name that ends in {ending}; try {path.stem}{ending}"
            )
    if not 1 <= count <= MOST_PICTURES:
        raise OptionError(f"--samples is {count:,}; expected 1 to {MOST_PICTURES:,} pictures")
    model = load_task(run, device=device)
    if not isinstance(model.task, Sampling):
        raise OptionError(f"{run} holds the task {model.task.name!r}, which draws no pictures; expected another run")
    with show_progress():
        pixels, chances = model.task.sample(model.net, count, seed)
    if sheet is not None:
        with replacing(sheet) as beside:
            beside.write_bytes(png(contact_sheet(pixels)))
    if out is not None:
        with replacing(out) as beside, beside.open("wb") as file:
            np.savez_compressed(file, pixels=pixels, chances=chances)
    names = " and ".join(str(path) for path in (sheet, out) if path is not None)
    typer.echo(f"saved {names}: {count:,} pictures, seed {seed}")
