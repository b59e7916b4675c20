"""Claims of the books on long dependencies besides number: learned by gates where a window and counts must guess."""

from __future__ import annotations

from typing import Any

import pytest

from claimed.dependencies import BRACKETS, right_beyond
from claimed.learning import LINES

SENTENCES: dict[str, Any] = {"lines": 6000, "longest": 5, "seed": 0, "asked": 800}
GATED: dict[str, Any] = {"hidden": 40, "rate": 0.02, "tokens_budget": 80_000, **LINES}


@pytest.mark.wide
@pytest.mark.parametrize("name", ["reflexives", "filler-gap"])
def test_gates_keep_what_counts_and_windows_cannot_see(name: str) -> None:
    """Four or five words between: outside a 4-gram and a window of three, within reach of a GRU."""
    counted = right_beyond(name, "ngram", 4, order=4, **SENTENCES)
    window = right_beyond(name, "window", 4, window=3, hidden=32, rate=0.01, tokens_budget=30_000, **SENTENCES)
    assert abs(counted - 0.5) < 0.12  # some 320 sentences: 4 standard deviations
    assert abs(window - 0.5) < 0.12
    assert right_beyond(name, "gru", 4, **SENTENCES, **GATED) > 0.85


def test_an_lstm_keeps_a_pronouns_noun() -> None:
    assert right_beyond("reflexives", "lstm", 4, **SENTENCES, **GATED) > 0.85


@pytest.mark.wide
def test_gates_keep_the_kind_of_an_open_bracket() -> None:
    """Four to ten words back, in sight neither of a 4-gram nor of a window of three."""
    brackets: dict[str, Any] = {"lines": 700, "longest": 10, "seed": 0}
    small: dict[str, Any] = {"hidden": 24, "rate": 0.02, "epochs": 5, **LINES}
    for kind in ("lstm", "gru"):
        assert right_beyond(BRACKETS, kind, 4, **brackets, **small) > 0.85
    assert abs(right_beyond(BRACKETS, "ngram", 4, order=4, **brackets) - 0.5) < 0.1
    window = right_beyond(BRACKETS, "window", 4, window=3, hidden=32, rate=0.01, epochs=2, **brackets)
    assert abs(window - 0.5) < 0.1
