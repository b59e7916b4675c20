"""The verb `trace`: what a model did over a text, as plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from thereafter.errors import OptionError
from thereafter.language_model import LanguageModel


def trace(lm: LanguageModel, text: str, *, limit: int, top: int, fields: list[str] | None = None) -> dict[str, Any]:
    """A trace of a text: tokens, and for each field its axes and values. `fields` chooses some; none means all.

    Values are those of `lm.trace`, in float32 as they are.
    """
    found = lm.trace(text, limit=limit, top=top)
    wanted = [name for name in found.arrays if name != "top_token"] if fields is None else fields
    missing = [name for name in wanted if name not in found.arrays]
    if missing:
        raise OptionError(f"the trace has no field {missing[0]!r}; it has {', '.join(found.arrays)}")
    return {
        "tokens": found.tokens,
        "fields": {name: {"axes": list(found.axes[name]), "values": plain(found[name])} for name in wanted},
        "top": [[{"text": word, "p": p} for word, p in found.top(step)] for step in range(len(found.tokens))],
    }


def plain(values: Any) -> Any:
    """An array as nested lists; numbers that are none become null, which JSON has."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return np.where(np.isfinite(array), array.astype(object), np.array(None, dtype=object)).tolist()
    return array.tolist()
