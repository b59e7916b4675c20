"""The application to which every command is added, and the arguments that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter import __version__
from thereafter.cli.commands import CommandGroup, Commands

if TYPE_CHECKING:
    from thereafter.api import LanguageModel

app = typer.Typer(
    name="thereafter",
    cls=Commands,
    help="A workbench for sequence models: train, score, predict and generate on your own text.\n\n"
    "Start with: thereafter train python-docs --out runs/docs",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _group(help: str) -> typer.Typer:
    return typer.Typer(help=help, cls=CommandGroup, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


data_app = _group("Named corpora: list them, get one, print where its files are.")
inspect_app = _group("Look inside a trained model: states, gates, gradients, units.")

Run = Annotated[str, typer.Argument(help="A run folder, or an ARPA file.", show_default=False)]
SourceName = Annotated[
    str,
    typer.Argument(help="A file, a folder, a 'glob*', - for standard input, or a corpus name (thereafter data list)."),
]
ArpaTokens = Annotated[
    str, typer.Option("--tokens", help="How the text of an ARPA file was tokenized: word, prose or char.")
]
AsWritten = Annotated[
    bool,
    typer.Option(
        "--as-written",
        help="Read plain text as it is. Default: with the marks of the model's own text, such as ’ for ', and in the "
        "form of a pre-tokenised corpus such as ptb.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        help="Device of a network: cpu, cuda (a GPU), or auto: a GPU if there is one. For a few short inputs "
        "the CPU is often quicker."
    ),
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of the text, such as latin-1. Default: UTF-8, or as its BOM says.")
]


def writable(path: Path | None) -> Path | None:
    """The path to write numbers to. An unknown file ending is refused before anything is measured."""
    if path is not None:
        from thereafter.inspection.arrays import check_ending

        check_ending(path)
    return path


Numbers = Annotated[
    Path | None,
    typer.Option(
        callback=writable, help="Write the numbers to this file: .npz (which thereafter figure reads), .json or .csv."
    ),
]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"thereafter {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    return None


def load(run: str, tokens: str = "word", *, as_written: bool = False, device: str = "cpu") -> LanguageModel:
    """The model in a run folder or an ARPA file; `as_written` and `device` as the options of these names."""
    from thereafter.language_model import load_language_model

    return load_language_model(run, tokens, as_written=as_written, device=device)
