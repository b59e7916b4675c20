"""What the network of a task did with one example, as a `Trace`.

Of every task the gates and states of its recurrent layers at each word, named as in a language model's trace
("l0.forget", "l0_reverse.h"); and what the task itself can show: the probabilities of tags, the evidence of words,
where each word of a translation looked.
"""

from __future__ import annotations

import numpy as np

from thereafter.inspection.trace import Trace
from thereafter.models.look import watch
from thereafter.tasks.fitting import Fitted


def trace(fitted: Fitted, example: object) -> Trace:
    """Answer one example and keep what happened."""
    task = fitted.task
    batch = task.batch([example], fitted.codecs).to(fitted.net.device)
    with watch(fitted.net, task.reads) as seen:
        shown = task.shown(fitted.net, batch, example, fitted.codecs)
    fields = dict(shown.fields)
    for module, layers in seen.items():
        prefix, axis = task.reads[module]
        for layer in layers:
            for name, array_BTH in layer.arrays.items():
                fields[f"{prefix}{layer.name}.{name}"] = ((axis, "unit"), array_BTH[0].detach().float().cpu().numpy())
    return Trace(
        shown.tokens,
        shown.vocabulary,
        {name: np.ascontiguousarray(array) for name, (_, array) in fields.items()},
        {name: axes for name, (axes, _) in fields.items()},
        {"model": task.name, **shown.about},
    )
