"""Vocabularies and the counter that may go to disk, against `collections.Counter`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import assert_refused
from thereafter.base.storage import cache_folder
from thereafter.errors import FormatError, OptionError, StorageError
from thereafter.text.tokenizers.base import Vocabulary
from thereafter.text.tokenizers.forms import FormCounter


def test_order_is_count_then_code_point() -> None:
    counts = {"b": 2, "é": 2, "a": 2, "Z": 2, "often": 9, "once": 1}
    vocabulary = Vocabulary.from_counts(counts, reserved={"<unk>": 0}, min_count=2)
    assert vocabulary.forms == ["<unk>", "often", "Z", "a", "b", "é"]
    assert vocabulary.counts == [1, 9, 2, 2, 2, 2]
    assert [vocabulary.index[form] for form in vocabulary.forms] == list(range(6))


def test_max_size_counts_reserved_forms() -> None:
    counts = {"a": 3, "b": 2, "c": 1}
    vocabulary = Vocabulary.from_counts(counts, reserved={"<unk>": 0, "</s>": 4}, max_size=3)
    assert (vocabulary.forms, vocabulary.counts) == (["<unk>", "</s>", "a"], [3, 4, 3])
    assert len(Vocabulary.from_counts(counts, reserved={"<unk>": 0}, max_size=1)) == 1
    with assert_refused(OptionError, "max_size", 1, 2):
        Vocabulary.from_counts(counts, reserved={"<unk>": 0, "</s>": 4}, max_size=1)
    with assert_refused(OptionError, "min_count=1"):
        Vocabulary.from_counts(counts, reserved={}, min_count=0)


def test_json_round_trip_and_refusals() -> None:
    vocabulary = Vocabulary(["<unk>", "a"], [0, 2])
    again = Vocabulary.from_json(vocabulary.to_json())
    assert (again, again.counts) == (vocabulary, [0, 2])
    assert Vocabulary.from_json({"forms": ["x"]}).counts is None
    for wrong in (
        None,
        [],
        {},
        {"forms": "ab"},
        {"forms": [1]},
        {"forms": ["a", "a"]},
        {"forms": ["\ud800"]},
        {"forms": ["a"], "counts": [1, 2]},
        {"forms": ["a"], "counts": [-1]},
        {"forms": ["a"], "counts": [True]},
        {"forms": ["a"], "counts": [float("nan")]},
    ):
        with assert_refused(FormatError):
            Vocabulary.from_json(wrong)


FORMS = st.lists(st.one_of(st.just("\n"), st.text(max_size=3).map(lambda text: text.replace("\n", "") or "x")))


@pytest.mark.wide
@given(st.lists(FORMS, max_size=6), st.integers(1, 3), st.sampled_from([0, 2, 1000]))
def test_counting_on_disk_equals_counting_in_memory(groups: list[list[str]], least: int, most: int) -> None:
    truth = Counter(form for group in groups for form in group)
    with FormCounter(most_forms=most) as counter:
        for group in groups:
            counter.add(group, sum(map(len, group)))
        assert counter.total == truth.total()
        assert counter.take("x") == truth.pop("x", 0)
        assert counter.at_least(least) == {form: count for form, count in truth.items() if count >= least}


def test_long_forms_go_to_disk_and_nothing_stays_there() -> None:
    with FormCounter(most_chars=1000) as counter:
        for number in range(20):
            counter.add([str(number % 10) * 400], 400)
        assert len(list((cache_folder() / "counts").iterdir())) == 1
        assert sorted(counter.at_least(2).values()) == [2] * 10
    assert list((cache_folder() / "counts").iterdir()) == []


def test_no_room_to_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "file"))
    with assert_refused(StorageError, "THEREAFTER_CACHE"), FormCounter(most_forms=0) as counter:
        counter.add(["a"], 1)
