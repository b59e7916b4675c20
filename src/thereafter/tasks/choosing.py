"""Which task is meant where one name stands for several: `classify` takes texts, and series of numbers too."""

from __future__ import annotations

from thereafter import progress
from thereafter.data.files import AnySource
from thereafter.tasks import TASKS
from thereafter.tasks.task import AnyTask


def task_for(name: str, source: AnySource) -> AnyTask:
    """The task of that name, or the one that takes this source in its place, which is printed."""
    task: AnyTask = TASKS.load(name)
    chosen = task.name_for(source)
    if chosen == task.name:
        return task
    progress.note(f"the source holds {TASKS.load(chosen).kind}: the task {chosen!r} is taken for {name!r}")
    other: AnyTask = TASKS.load(chosen)
    return other
