"""The application every verb hangs on, and the arguments they share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter import __version__

if TYPE_CHECKING:
    from thereafter.api import LanguageModel

app = typer.Typer(
    name="thereafter",
    help="A workbench for sequence models: train, score, predict and generate, on your own text.\n\n"
    "Start with: thereafter train python-docs --out runs/docs",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Named corpora: what there is, getting one, where it lies.", no_args_is_help=True)
app.add_typer(data_app, name="data")
inspect_app = typer.Typer(help="Instruments: what happens inside a trained model.", no_args_is_help=True)
app.add_typer(inspect_app, name="inspect")

Run = Annotated[str, typer.Argument(help="A run folder, or an ARPA file.", show_default=False)]
SourceName = Annotated[
    str,
    typer.Argument(help="A file, a folder, a 'glob*', - for standard input, or a corpus name (thereafter data list)."),
]
ArpaTokens = Annotated[str, typer.Option("--tokens", help="What the words of an ARPA file are: word, prose or char.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of the text, such as latin-1; UTF-8 or a BOM by default.")]


def writable(path: Path | None) -> Path | None:
    """A file of numbers whose name says no format there is, is refused before anything is measured."""
    if path is not None:
        from thereafter.inspection.arrays import check_ending

        check_ending(path)
    return path


Numbers = Annotated[
    Path | None, typer.Option(callback=writable, help="Where the numbers go, as .npz (to draw later), .json or .csv.")
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"thereafter {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    return None


def load(run: str, tokens: str = "word") -> LanguageModel:
    """The model in a run folder or an ARPA file."""
    from thereafter.language_model import load_language_model

    return load_language_model(run, tokens)
