"""A task's model asked by several threads at once gives each of them what it gives one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from toys import labelled, reversed_pairs, tagged

import thereafter

TASKS: dict[str, tuple[Callable[[Path], Path], dict[str, Any], list[str]]] = {
    "tag": (tagged, {"hidden": 24, "epochs": 1}, ["abd Ko7 testing", "Mue", "late9 dok Tel soming abd abd"]),
    "classify": (labelled, {"hidden": 24, "epochs": 1}, ["the film was gripping", "dull", "we saw a dull film"]),
    "translate": (reversed_pairs, {"hidden": 24, "epochs": 1}, ["a b d", "k", "l m o s t u"]),
}


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    """Threads take turns as often as the interpreter can make them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("task", TASKS)
def test_threads_get_the_answers_of_one_thread(task: str, tmp_path: Path) -> None:
    made, options, texts = TASKS[task]
    found = thereafter.train(str(made(tmp_path / "examples.tsv")), task=task, **options)
    asks: list[Callable[[], Any]] = [lambda: found.predict(texts), lambda: str(found.explain(texts[0]))] * 12
    expected = [ask() for ask in asks]
    found.net.train()  # asked while it is being trained: dropout must be off for all of them
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda ask: ask(), asks)) == expected
    assert found.net.training
