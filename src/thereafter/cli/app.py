"""The application to which every command is added."""

from __future__ import annotations

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
