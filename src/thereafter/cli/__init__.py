"""The command line. Every command calls the library; results go to standard output, notes and errors to standard error.

Here is the application to which every command is added: the commands by what they are for, each imported when it is
asked for, how their help is written, and the model of a run. Help is plain text: to import rich, which draws boxes,
takes as long as all else that help needs.

options         the options that commands share, each described once; `command`, which adds them to a function
tables          what is printed and saved: rows, measurements, figures, notes about the text
train           `train`, Ctrl-C included; train_report: what it prints, and what --set takes
score           scores of texts; `surprisal`: bits of every word
ask             `next`, `generate`, `rank` and `neighbours`
predict         answers of a task, and `backtest`; pictures: what is shown of networks that see and draw
compare         several models on one text
inspect/        instruments
figure          `figure`, `gallery` and `kernels`
data            corpora
export          `export`, `arpa` and `lm-eval`: what runs without this package; `serve`, runs over HTTP; `studio`
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from thereafter import __version__
from thereafter.base import progress
from thereafter.base.progress import TerminalReporter, escaped_streams
from thereafter.errors import ThereafterError

if TYPE_CHECKING:
    from typer._click import Command as AnyCommand
    from typer._click import Context, HelpFormatter, Parameter

    from thereafter.api import LanguageModel


GROUPS = {
    "Train": ("train", "compare", "data"),
    "Ask": ("next", "generate", "score", "surprisal", "rank", "predict", "backtest", "neighbours"),
    "Look inside": ("inspect", "figure", "gallery", "studio", "kernels"),
    "Take away": ("export", "arpa", "serve", "lm-eval"),
}
_NAMES = [name for names in GROUPS.values() for name in names]
_FILES = dict.fromkeys(("next", "generate", "rank", "neighbours"), "ask")
_FILES |= {"backtest": "predict", "gallery": "figure", "kernels": "figure", "studio": "export", "serve": "export"}
_FILES |= {"arpa": "export", "lm-eval": "export", "surprisal": "score"}
"""The files of commands that do not stand in one of their own name."""
_VALUES: dict[object, str] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}
_VALUES |= {list[str]: "TEXT", list[Path]: "PATH"}
_ALL = "thereafter.all_options"


class Command(TyperCommand):
    """A command whose options are listed by their panels; if `everyday` names some, help shows these alone."""

    everyday: tuple[str, ...] = ()

    def get_params(self, ctx: Context) -> list[Parameter]:
        params = super().get_params(ctx)
        for param in params:
            if _is_argument(param):
                param.metavar = (param.metavar or str(param.name).upper()).removesuffix("...")
            elif param.metavar is None:  # typer would show the name of a type of Python
                values = getattr(param, "type_descriptor", None)
                choices = "|".join(map(str, getattr(values, "choices", None) or ()))
                param.metavar = choices or _VALUES.get(getattr(values, "annotation", None))
        return params

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        pieces = ["[OPTIONS]"]
        for param in filter(_is_argument, self.get_params(ctx)):
            name = f"{param.metavar}{'...' * (param.nargs != 1)}"
            pieces.append(name if param.required else f"[{name}]")
        return pieces

    def format_help_text(self, ctx: Context, formatter: HelpFormatter) -> None:
        """The docstring. Its examples are not wrapped: they are there to be copied."""
        after_example = False
        for paragraph in cleandoc(self.help or "").split("\n\n"):
            is_example = paragraph.startswith(("Example", "First"))
            if not (is_example and after_example):
                formatter.write_paragraph()
            with formatter.indentation():
                if is_example:
                    formatter.write(f"  {' '.join(paragraph.split())}\n")
                else:
                    formatter.write_text(paragraph)
            after_example = is_example

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        params = self.get_params(ctx)
        is_brief = bool(self.everyday) and not ctx.meta.get(_ALL)
        if is_brief:
            by_name = {param.name: param for param in params}
            params = [*filter(_is_argument, params), *(by_name[name] for name in self.everyday)]
        for param in params:
            record = param.get_help_record(ctx)
            if record is not None and _is_argument(param):
                panels.setdefault("Arguments", []).append((str(param.metavar), record[1]))
            elif record is not None:
                panel = None if is_brief else getattr(param, "rich_help_panel", None)
                panels.setdefault(panel or "Options", []).append(record)
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _is_argument(param: Parameter) -> bool:
    return bool(param.param_type_name == "argument")


def show_all_options(context: typer.Context, wanted: bool) -> None:
    """Callback of --help-all: the help with every option."""
    if wanted:
        context.meta[_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


class CommandGroup(TyperGroup):
    """A command of several, such as `data`: each is listed with its whole first sentence."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        helps = {name: command.help for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_paragraph(text)) for name, text in helps.items()])


class Commands(CommandGroup):
    """The commands of `GROUPS`."""

    def list_commands(self, ctx: Context) -> list[str]:
        return _NAMES

    def get_command(self, ctx: Context, cmd_name: str) -> AnyCommand | None:
        for name in [cmd_name] if cmd_name in _NAMES else _NAMES:  # a misspelt name is compared with all
            if not isinstance(self.commands.get(name), Command | CommandGroup):
                self.commands[name] = get_command(_imported(name))
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        widest = max(map(len, _NAMES))
        for title, names in GROUPS.items():
            rows = []
            for name in names:  # to build all commands takes longer
                alone = _imported(name)
                text = str(alone.info.help) if alone.info.help else alone.registered_commands[0].callback.__doc__
                rows.append((name.ljust(widest), _first_paragraph(text)))
            with formatter.section(title):
                formatter.write_dl(rows)


def _imported(name: str) -> typer.Typer:
    """An application of this command alone, or of those of a group, such as `data_app`."""
    module = import_module(f"thereafter.cli.{_FILES.get(name, name)}")
    alone = vars(module).get(f"{name}_app")
    if not isinstance(alone, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.registered_commands = [
            info for info in module.app.registered_commands if (info.name or info.callback.__name__) == name
        ]
    for info in alone.registered_commands:
        if not issubclass(info.cls or TyperCommand, Command):
            info.cls = Command
    return alone


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


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


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a text may contain characters that this terminal cannot show
    with escaped_streams():
        try:
            with progress.reporting(TerminalReporter()):
                app()
        except ThereafterError as error:
            sys.stderr.write(f"error: {error.in_shell}\n")
            sys.exit(2)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                # the consumer of our output has gone, as `head` does: no error, end without a message
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                sys.exit(1)
            sys.stderr.write(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}\n")
            sys.exit(2)
