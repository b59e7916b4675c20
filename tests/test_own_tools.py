"""What the tests themselves lean on: another order is a pure function of its seed, and what is left behind is named."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counted import any_variables, anys, casts, ignores, questions, strongly_connected
from leftovers import changes, traces
from shuffling import shuffled
from stand_ins import write_corpora
from thereafter.data.catalogue import CARDS
from thereafter.data.download import content_problem

TESTS: list[Any] = [SimpleNamespace(nodeid=f"tests/test_{file}.py::test_{n}") for file in "abcde" for n in range(6)]


def test_an_order_is_decided_by_its_seed_and_keeps_files_together():
    orders = {seed: [item.nodeid for item in shuffled(TESTS, seed)] for seed in range(4)}
    assert len({tuple(order) for order in orders.values()}) == 4
    for seed, order in orders.items():
        assert sorted(order) == [item.nodeid for item in TESTS]
        files = [name.partition("::")[0] for name in order]
        assert sum(one != other for one, other in pairwise(files)) == 4
        assert order == [item.nodeid for item in shuffled(TESTS, seed)]
        some = [item for item in TESTS if "test_b" in item.nodeid]  # as when a file runs alone
        assert [item.nodeid for item in shuffled(some, seed)] == [name for name in order if "test_b" in name]


def test_what_is_left_behind_is_named(tmp_path: Path):
    before = traces()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THEREAFTER_LEFT", "1")
        patch.chdir(tmp_path)
        patch.setitem(CARDS, "ptb", CARDS["agreement"])  # deleted and put back it would come last
        left = "; ".join(changes(before, traces()))
    assert "the environment: THEREAFTER_LEFT was None, is '1'" in left
    assert f"the working folder: path was {before['the working folder']['path']!r}, is {str(tmp_path)!r}" in left
    assert "the table of corpora: ptb was CorpusCard" in left
    assert changes(before, traces()) == []


@pytest.mark.wide
def test_stand_ins_are_the_same_everywhere_and_what_their_cards_say(tmp_path: Path):
    cards = write_corpora(tmp_path / "one")
    assert cards == write_corpora(tmp_path / "two")
    assert list(cards) == [name for name, card in CARDS.items() if not card.builtin]
    for name, card in cards.items():
        assert [(file.part, file.filename) for file in card.files] == [
            (file.part, file.filename) for file in CARDS[name].files
        ]
        assert not any(file.urls for file in card.files)
        here = {path.name.removesuffix(".gz"): path for path in (tmp_path / "one" / name).iterdir()}
        for file in card.files:
            assert content_problem(here[file.filename], sha256=file.sha256, size=file.bytes) is None


COUNTED = '''"""Any, cast(x), getattr(model, "a") and type: ignore in a text do not count."""
import typing
from typing import Any, cast

def first(model: Any, others: "list[Any]", settings: ModelSettings) -> typing.Any:
    held: Any = model
    empty: dict[str, Any]
    return cast("Any", held)  # type: ignore[return-value]

class Second:
    def ask(self, lm: object, task: TaskSettings) -> None:
        getattr(lm.model, "read", None), hasattr(self._net, "read"), getattr(self, "read")
        getattr(task, "hidden"), getattr(lm.model.settings, "hidden")
'''


def test_what_goes_past_a_contract_is_counted_once_and_nothing_else(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text(COUNTED, encoding="utf-8")
    assert [place.line for place in anys([path])] == [5, 5, 5, 6, 7, 8]
    assert [place.line for place in casts([path])] == [8]
    assert [place.line for place in any_variables([path])] == [6]
    assert [place.line for place in ignores([path])] == [8]
    assert [place.line for place in questions([path])] == [12, 12]


def test_circles_of_imports_are_found_whole():
    graph = {"a": {"b", "e"}, "b": {"c"}, "c": {"a"}, "d": {"c", "d"}, "e": {"f"}, "f": set(), "g": {"h"}, "h": {"g"}}
    assert strongly_connected(graph) == [["a", "b", "c"], ["d"], ["g", "h"]]
