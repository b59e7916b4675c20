"""Which networks of a task are compared, and on which part of their table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from thereafter.config import Table
from thereafter.data.files import AnySource
from thereafter.errors import OptionError, UnknownNameError
from thereafter.tasks import finding, fitting
from thereafter.tasks.task import AnyTask

Networks = Mapping[str, Table] | Sequence[str] | None
"""Names with the options in which networks differ, or kinds of network by name alone."""


def choose_networks(task: AnyTask, models: Networks) -> dict[str, Table]:
    """The networks by name, each with its own options; a kind of network is one by its name alone."""
    if isinstance(models, str):
        models = [name.strip() for name in models.split(",") if name.strip()]
    named = dict(models) if isinstance(models, Mapping) else {name: {} for name in models or task.peers()}
    for name, own in named.items():
        if not re.fullmatch(r"[\w-][\w.-]*", name):
            raise OptionError(f"{name!r} cannot be the name of a network; expected letters, digits, -, _ and dots")
        if name in task.kinds() and task.chooses not in {option.rpartition(".")[2] for option in own}:
            named[name] = {task.chooses: name, **own}
        elif not own and task.kinds():
            raise UnknownNameError(f"network of the task {task.name!r}", name, task.kinds())
        elif not own and not isinstance(models, Mapping):
            raise OptionError(f"{name!r} names no options; expected a table; try models={{{name!r}: {{'hidden': 64}}}}")
    return named or {task.name: {}}


def with_test_part(task: AnyTask, source: AnySource, options: Mapping[str, object]) -> dict[str, object]:
    """The options, with those that give a table a test part where it has none of its own."""
    if not task.compared:
        return dict(options)
    settings, _ = fitting.settle(task, dict(options))
    own = finding.located(task, source).part_files  # files of their own, and none of them to test on
    if own is not None or finding.has(task.configured(settings), source, "test"):
        return dict(options)
    return {**task.compared, **options}
