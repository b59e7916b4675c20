"""The settings of a task by name: what `--set` takes, with its default and its meaning."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

import typer

from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.data.files import AnySource

_WIDTH = 110  # of a line, in characters
_HERE = 22  # where the default stands
_MEANING = 35  # where the meaning stands


def settings_of(task: str, source: AnySource | None) -> set[str]:
    """The options of the network of a task, or of the one that takes this source in its place."""
    from thereafter import config
    from thereafter.tasks import TASKS

    return set(config.field_names(TASKS.load(_named(task, source)).settings))


def _named(task: str, source: AnySource | None) -> str:
    """The task that takes this source."""
    from thereafter.tasks import TASKS

    name: str = task if source is None else TASKS.load(task).name_for(source)
    return name


def remedy_for(task: str, model: str, own: set[str]) -> str:
    """Which settings of a task are meant by a kind of model, as what to try."""
    from thereafter.tasks import TASKS

    known = TASKS.load(task)
    if known.chooses in own and model in known.kinds():
        return f"try --set {known.chooses}={model}"
    layers = next((option for option in ("cell", "encoder") if option in own), "")
    remedies = [f"--set {layers}={model}"] if layers else []
    if known.chooses in own:
        remedies.append(f"--set {known.chooses}= with {', '.join(known.kinds())}")
    return f"try {', or '.join(remedies)}" if remedies else "leave one of them out"


def print_settings(task: str | None, source: AnySource | None = None) -> None:
    """The settings of the network of a task and those of its training, a line each."""
    from thereafter.config import as_table
    from thereafter.tasks import TASKS
    from thereafter.tasks.fitting import idle_options, training_of
    from thereafter.training.settings import TrainingSettings

    if task is None:
        raise OptionError(
            f"--options lists the settings of a task; expected --task with {', '.join(TASKS)}; the settings of a "
            "language model are those of --help and docs/models.md"
        )
    known = TASKS.load(_named(task, source))
    typer.echo(f"{known.name}: --set NAME=VALUE, with these names and defaults")
    for name, default, meaning in described_settings(known.settings):
        _print_line(name, default, meaning)
    typer.echo("\nits training:")
    values, idle = as_table(training_of(known)), idle_options(known)
    for name, _, meaning in described_settings(TrainingSettings):
        if name not in idle:
            _print_line(name, _spelled(values[name]), meaning)
    typer.echo("\nWhere no default stands there is none, or it is chosen from the examples.")


def described_settings(settings: type[object]) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each field of a dataclass of settings that does something.

    A meaning is the docstring below the field, here or in a class it inherits from. What stands there as `CHOICES` or
    `choices()` of its module is spelled out.
    """
    if not is_dataclass(settings):
        raise TypeError(f"{settings!r} is not a dataclass")
    idle = getattr(settings, "idle", ())
    meanings: dict[str, str] = {}
    for owner in settings.__mro__:
        meanings = _below_fields(owner) | meanings
    return [
        (one.name, "" if one.default is MISSING else _spelled(one.default), meanings.get(one.name, ""))
        for one in fields(settings)
        if not one.name.startswith("_") and one.name not in idle
    ]


def _below_fields(owner: type[object]) -> dict[str, str]:
    """The docstrings that stand below the fields of a class in its source; none where there is no source."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    except (OSError, TypeError):
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    module = sys.modules[owner.__module__]
    return {
        before.target.id: _with_choices(" ".join(after.value.value.split()), module)
        for before, after in pairwise(body)
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(after, ast.Expr)
        if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }


def _with_choices(meaning: str, module: ModuleType) -> str:
    """A meaning with the choices in the place of their name.

    >>> from thereafter.training import settings
    >>> _with_choices("Where it is computed: `DEVICES`.", settings)
    'Where it is computed: auto, cpu or cuda.'
    """

    def choices(name: re.Match[str]) -> str:
        listed = getattr(module, name[1], None)
        if listed is None:
            return name[0]
        *before, last = listed() if name[2] else listed
        return f"{', '.join(before)} or {last}"

    return re.sub(r"`([A-Z_]+|[a-z_]+(?=\(\)))(\(\))?`", choices, meaning)


def _spelled(value: object) -> str:
    """A default as `--set` takes it; nothing where it is chosen."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _print_line(name: str, default: str, meaning: str) -> None:
    head = f"  {name:<{_HERE - 3}} {default}"
    lines = textwrap.wrap(meaning, _WIDTH - _MEANING, break_on_hyphens=False) or [""]
    typer.echo(f"{head:<{_MEANING - 1}} {lines[0]}".rstrip())
    for line in lines[1:]:
        typer.echo(" " * _MEANING + line)
