"""What the network of a task did with one example, as a `Trace`.

Of every task the gates and states of its recurrent layers at each word, named as in a language model's trace
("l0.forget", "l0_reverse.h"); and what the task itself can show: the probabilities of tags, the evidence of words,
where each word of a translation looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from torch import Tensor, nn

from thereafter.inspection.trace import Trace
from thereafter.layers.inputs import Lengths
from thereafter.layers.recurrent import Recurrent
from thereafter.tasks.fitting import Fitted

_Records = dict[str, dict[str, dict[str, Tensor]]]


def trace(fitted: Fitted, example: object) -> Trace:
    """Answer one example and keep what happened."""
    task = fitted.task
    batch = task.batch([example], fitted.codecs).to(fitted.net.device)
    with _recorded(fitted.net, task.reads) as records:
        shown = task.shown(fitted.net, batch, example, fitted.codecs)
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
def _recorded(net: nn.Module, names: Mapping[str, object]) -> Iterator[_Records]:
    """Within it every call of these recurrent layers is traced; of several calls of one the last is kept."""
    records: _Records = {}
    layers = {name: layer for name, layer in net.named_modules() if name in names and isinstance(layer, Recurrent)}

    def tracing(name: str, layer: Recurrent) -> Callable[..., tuple[object, object]]:
        def forward(
            input: Tensor, hx: object = None, *, lengths: Lengths | None = None, reset: Tensor | None = None
        ) -> tuple[object, object]:
            traced = layer.trace(input, hx, lengths=lengths, reset=reset)
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
