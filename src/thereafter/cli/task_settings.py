"""The settings of a task by name: what `--set` takes, with its default and its meaning."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from itertools import pairwise
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
    from thereafter.tasks import TASKS
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
    for name, default, meaning in described_settings(TrainingSettings):
        _print_line(name, _spelled(known.defaults[name]) if name in known.defaults else default, meaning)
    typer.echo("\nWhere no default stands it is chosen from the examples or the machine.")


def described_settings(settings: type[object]) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each field of a dataclass of settings.

    A meaning is the docstring below the field, or what follows the name in the docstring of the class, or of one it
    inherits from: up to the next name.
    """
    if not is_dataclass(settings):
        raise TypeError(f"{settings!r} is not a dataclass")
    listed = [one for one in fields(settings) if not one.name.startswith("_")]
    names = [one.name for one in listed]
    meanings: dict[str, str] = {}
    for owner in settings.__mro__:
        own = owner.__dict__.get("__doc__") or ""
        meanings = _meanings(own, names) | _below_fields(owner) | meanings
    defaults = {one.name: "" if one.default is MISSING else _spelled(one.default) for one in listed}
    return [(name, defaults[name], meanings.get(name, "")) for name in names]


def _below_fields(owner: type[object]) -> dict[str, str]:
    """The docstrings that stand below the fields of a class in its source; none where there is no source."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    except (OSError, TypeError):
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        before.target.id: " ".join(after.value.value.split()).strip(" .")
        for before, after in pairwise(body)
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(after, ast.Expr)
        if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }


def _meanings(docstring: str, names: Sequence[str]) -> dict[str, str]:
    """What a docstring says after each name that stands in it as `name`.

    >>> _meanings("`hidden` units a layer, `layers`. `rate`: how fast.", ["hidden", "rate"])
    {'hidden': 'units a layer, `layers`', 'rate': 'how fast'}
    """
    text = " ".join(docstring.split())
    places = [(one.start(), one.end(), one.group(1)) for one in re.finditer(r"`(\w+)`", text) if one.group(1) in names]
    first: dict[str, str] = {}
    ends = [start for start, _, _ in places[1:]] + [len(text)]
    for (_, begin, name), end in zip(places, ends, strict=False):
        meaning = text[begin:end].strip(" :;,.")
        whole, _, rest = meaning.rpartition(". ")
        meaning = whole if whole and len(rest.split()) <= 2 else meaning  # the heading of what follows
        if meaning not in ("", "and", "or"):
            first.setdefault(name, meaning)
    return first


def _spelled(value: object) -> str:
    """A default as `--set` takes it; nothing where it is chosen."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _print_line(name: str, default: str, meaning: str) -> None:
    head = f"  {name:<{_HERE - 3}} {default}"
    lines = textwrap.wrap(meaning, _WIDTH - _MEANING) or [""]
    typer.echo(f"{head:<{_MEANING - 1}} {lines[0]}".rstrip())
    for line in lines[1:]:
        typer.echo(" " * _MEANING + line)
