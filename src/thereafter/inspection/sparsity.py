"""How few n-grams of a language a text shows: what was counted, of what could be, and of what comes next.

Shapes: T tokens, M orders.
"""

from __future__ import annotations

import numpy as np

from thereafter.inspection.measurement import Measurement
from thereafter.models.base import Ids
from thereafter.ngram.model import NgramModel


def sparsity(model: NgramModel, new_ids: Ids, *, text: str = "") -> Measurement:
    """By order n: `counted` different n-grams, `possible` V^n, and of the n-grams of a new text the share `seen`.

    The longest n-gram the model finds at a token has the order of the trace; since a part of an n-gram that was seen
    was seen too, an order counts as seen at every token whose order is that or more.
    """
    order_T = model.record(new_ids, model.start(1))["order"][1].astype(np.int64)
    orders = np.arange(1, model.order + 1)
    counted = np.bincount(model.tables.order_of(np.arange(len(model.tables.word))), minlength=model.order + 1)[1:]
    return Measurement(
        "sparsity",
        {
            "order": orders,
            "counted": counted,
            "possible": float(model.vocabulary_size) ** orders,
            "seen": np.array([(order_T >= order).mean() for order in orders]),
        },
        dict.fromkeys(("order", "counted", "possible", "seen"), ("order",)),
        {"model": f"{model.order}-gram", "text": text, "new": len(order_T), "vocabulary": model.vocabulary_size},
    )
