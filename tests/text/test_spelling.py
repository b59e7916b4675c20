"""The price of an unknown form, against the formula written out."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thereafter.text.tokenizers.base import Spelling

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.lists(TEXT, max_size=8, unique=True), TEXT)
def test_the_formula(types: list[str], form: str) -> None:
    counts: Counter[int] = Counter(byte for known in types for byte in known.encode())
    total = counts.total() + len(types) + 257
    expected = -math.log((len(types) + 1) / total)
    expected -= sum(math.log((counts[byte] + 1) / total) for byte in form.encode())
    assert Spelling.from_forms(types).nats(form) == pytest.approx(expected, rel=1e-12)


def test_totals_and_the_unseen() -> None:
    spelling = Spelling.from_forms(["the", "cat"])
    assert spelling.total([]) == 0
    assert spelling.total(["cat", "ὥς", "cat"]) == pytest.approx(2 * spelling.nats("cat") + spelling.nats("ὥς"))
    assert Spelling.from_forms([]).nats("") == pytest.approx(math.log(257))
    assert spelling.nats("tea") < spelling.nats("zzz")


def test_it_is_a_distribution() -> None:
    spelling = Spelling.from_forms(["the", "cat", "né"])
    assert np.exp(-spelling._costs).sum() == pytest.approx(1, abs=1e-12)
    assert len(spelling._costs) == 257
