"""What a program must know of a model to feed it: its state, its words, how they become text."""

from __future__ import annotations

from collections.abc import Sequence

from thereafter.export.parts import StatePart
from thereafter.export.plan import Plan


def facts_of(plan: Plan, state: Sequence[StatePart]) -> dict[str, object]:
    """By name, all of it JSON; `pieces` are the bytes that each token appends, in hexadecimal digits."""
    words = plan.wording
    return {
        "kind": plan.kind,
        "start": words.start,
        "line_end": words.line_end,
        "unknown": words.unknown,
        "line_by_line": words.restart is not None,
        "lower": words.lower,
        "letters_only": words.letters_only,
        "state": [
            {
                "name": part.name,
                "shape": part.shape,
                "fresh": part.fresh,
                "type": "int64" if part.whole else "float32",
            }
            for part in state
        ],
        "vocabulary": words.forms,
        "pieces": [piece.hex() for piece in words.pieces],
        "tokenizer": words.tokenizer,
    }
