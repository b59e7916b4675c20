"""`thereafter export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import ArpaTokens, Run, app, load
from thereafter.cli.tables import AsCsv, AsJson, print_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.export.export import Exported
    from thereafter.language_model import LanguageModel

To = Annotated[
    str,
    typer.Option("--to", help="onnx, torch, html, c, arpa, transformers, run: the form to write.", show_default=False),
]
Out = Annotated[Path, typer.Option(help="File to write; of transformers and run, a folder.", show_default=False)]
Dtype = Annotated[
    str | None, typer.Option(help="With --to run: float32, float16 or int8, the weights of the run folder.")
]
Int8 = Annotated[bool, typer.Option("--int8", help="Weights of one byte each; at most 1 % more bits per byte.")]
Check = Annotated[
    str | None,
    typer.Option(
        help="Text of the check: a file, a folder, a 'glob*' or a corpus name. Default: the validation part of the "
        "training text, else a text that the model writes.",
        metavar="TEXT",
    ),
]
CheckSteps = Annotated[
    int | None,
    typer.Option(
        help="Number of tokens to check. Default: 200; 1,000 for int8 and float16; more than the context of a "
        "Transformer.",
        metavar="N",
    ),
]
CheckMemory = Annotated[
    bool,
    typer.Option("--check-memory", help="First list training lines that the model repeats verbatim, on stderr."),
]


@app.command()
def export(
    run: Run,
    to: To,
    out: Out,
    int8: Int8 = False,
    dtype: Dtype = None,
    check: Check = None,
    check_steps: CheckSteps = None,
    memory: CheckMemory = False,
    tokens: ArpaTokens = "word",
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as a file that runs without this package, checked against the model before it is handed over.

    Example: thereafter export runs/book --to onnx --out book.onnx

    Example: thereafter export runs/book --to html --out book.html --check other.txt

    Example: thereafter export runs/book --to run --out runs/book-small --dtype int8
    """
    from thereafter.runs.folder import holds_task

    if holds_task(Path(run)):
        from thereafter.task_model import load_task

        if check is not None or check_steps is not None or memory:
            raise OptionError(
                "the run holds a task, which is checked with random inputs; "
                "try it without --check, --check-steps and --check-memory"
            )
        written = load_task(run).export(out, to, int8=int8, dtype=dtype)
    else:
        lm = load(run, tokens)
        if memory:
            _print_memory(lm)
        written = lm.export(out, to, int8=int8, check=check, check_steps=check_steps, dtype=dtype)
    if not print_rows(written.to_rows(), as_csv=as_csv, as_json=as_json):
        for line in lines(written):
            typer.echo(line)


def _print_memory(lm: LanguageModel) -> None:
    """What the model says by heart of its training text."""
    from thereafter.export.recalling import check_memory

    recited = check_memory(lm.trained)
    typer.echo(str(recited), err=True)
    for line in recited.lines:
        typer.echo(f"  {line.beginning}|{line.rest}", err=True)


def lines(written: Exported) -> list[str]:
    """What is printed: the files, their size, what the check has seen, and what else there is to say."""
    checked = written.checked
    listed = [*map(str, written.paths), f"size: {written.size:,} bytes"]
    if written.replaced:
        listed.append("replaced: " + ", ".join(path.name for path in written.replaced))
    listed.append(
        f"checked by {written.program}: {checked.read}, largest difference in {checked.what} {checked.largest:.2g}"
    )
    if checked.bits and written.form != "float32":
        loss = f"{checked.bits_exported:.4f} ({100 * checked.loss:+.2f} %)"
        listed.append(f"bits per byte: {checked.bits:.4f}, in {written.form} {loss}")
    return [*listed, *(f"{name}: {value}" for name, value in written.facts.items())]
