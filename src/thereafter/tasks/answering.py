"""What a trained network says of examples: asked for in batches of about one length, told in the order they came in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thereafter import progress
from thereafter.errors import OptionError, nearest
from thereafter.tasks import batching
from thereafter.tasks.explaining import Explained
from thereafter.tasks.fitting import Fitted

_ROWS, _PLACES = 64, 64 * 64  # examples at a time, padding included


def answers(fitted: Fitted, examples: Sequence[Any], **options: Any) -> list[Any]:
    """The answer to every example; options are those that the task is `asked` with."""
    task, net, lexicons = fitted.task, fitted.net, fitted.lexicons
    for name in options:
        if name not in task.asked:
            known = nearest(name, sorted(task.asked)) if task.asked else "it has none"
            raise OptionError(f"the task {task.name!r} answers without an option {name!r}; {known}")
    return _asked(fitted, examples, lambda batch, _: task.answers(net, batch, lexicons, **options))


def explanations(fitted: Fitted, examples: Sequence[Any]) -> list[Explained]:
    """The answer to every example with what spoke for it, where the task can say so (`explaining.Explaining`)."""
    task: Any = fitted.task
    if not hasattr(task, "explain"):
        raise OptionError(f"the task {task.name!r} explains nothing beyond its answer; try predict")
    return _asked(fitted, examples, lambda batch, chosen: task.explain(fitted.net, batch, chosen, fitted.lexicons))


def _asked(fitted: Fitted, examples: Sequence[Any], ask: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    plan = batching.batches(fitted.task.lengths(examples, fitted.lexicons), _ROWS, _PLACES, shuffle=False)
    found: list[Any] = [None] * len(examples)
    with progress.task("answering", total=len(examples)) as advance, fitted.net.remembering():
        for k in range(len(plan)):
            places = plan.examples(k).tolist()
            chosen = [examples[place] for place in places]
            batch = fitted.task.batch(chosen, fitted.lexicons).to(fitted.net.device)
            for place, answer in zip(places, ask(batch, chosen), strict=True):
                found[place] = answer
            advance(len(chosen))
    return found
