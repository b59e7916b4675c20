"""What the network of a task did with one example, as a `Trace`.

Of every task the gates and states of its recurrent layers at each word, named as in a language model's trace
("l0.forget", "l0_reverse.h"); and what the task itself can show: the probabilities of tags, the evidence of words,
where each word of a translation looked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.inspection.trace import Trace
from thereafter.layers.recurrent import Recurrent
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import Lexicons

Fields = dict[str, tuple[tuple[str, ...], NDArray[Any]]]
_Records = dict[str, dict[str, dict[str, Tensor]]]


@dataclass(frozen=True)
class Shown:
    """What a task says of an example: the words that are its steps, the forms that `fields` number, the answer."""

    tokens: list[str]
    vocabulary: list[str]
    fields: Fields
    about: dict[str, Any] = field(default_factory=dict)


class Tracing(Protocol):
    """What a task must know to be traced. `reads`: its network's recurrent layers, each with the prefix of its arrays
    and the axis of its steps."""

    reads: Mapping[str, tuple[str, str]]

    def shown(self, net: Any, batch: Any, example: Any, lexicons: Lexicons) -> Shown:
        """The answer to one example with what led to it; the last call of each recurrent layer is the one recorded."""


def trace(fitted: Fitted, example: Any) -> Trace:
    """Answer one example and keep what happened."""
    task: Any = fitted.task
    if not hasattr(task, "shown"):
        raise OptionError(f"the task {task.name!r} has nothing to trace; try predict")
    batch = task.batch([example], fitted.lexicons).to(fitted.net.device)
    with _recorded(fitted.net, task.reads) as records:
        shown: Shown = task.shown(fitted.net, batch, example, fitted.lexicons)
    fields = dict(shown.fields)
    for layer, lanes in records.items():
        prefix, axis = task.reads[layer]
        for lane, arrays in lanes.items():
            for name, array_BTH in arrays.items():
                fields[f"{prefix}{lane}.{name}"] = ((axis, "unit"), array_BTH[0].detach().float().cpu().numpy())
    return Trace(
        shown.tokens,
        shown.vocabulary,
        {name: np.ascontiguousarray(array) for name, (_, array) in fields.items()},
        {name: axes for name, (axes, _) in fields.items()},
        {"model": task.name, **shown.about},
    )


@contextmanager
def _recorded(net: nn.Module, names: Mapping[str, Any]) -> Iterator[_Records]:
    """Within it every call of these recurrent layers is traced; of several calls of one the last is kept."""
    records: _Records = {}
    layers = {name: layer for name, layer in net.named_modules() if name in names and isinstance(layer, Recurrent)}

    def tracing(name: str, layer: Recurrent) -> Any:
        def forward(*given: Any, **options: Any) -> tuple[Any, Any]:
            traced = layer.trace(*given, **options)
            records[name] = traced.records
            return traced.output, traced.state

        return forward

    for name, layer in layers.items():
        vars(layer)["forward"] = tracing(name, layer)  # an attribute of its own hides the class's method
    try:
        yield records
    finally:
        for layer in layers.values():
            del vars(layer)["forward"]
