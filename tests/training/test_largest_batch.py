"""`batch="auto"`: the largest batch that fits is found by trying, and the training is that of the number found.

A limit of memory is imitated: steps over more rows than that raise torch's error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from refusals import assert_refused
from thereafter.base import config
from thereafter.errors import DeviceMemoryError, OptionError
from thereafter.tasks.batching import ExampleLearner
from thereafter.tasks.fitting import longest_examples
from thereafter.training import fit
from thereafter.training.fit import largest
from thereafter.training.neural import TextLearner
from thereafter.training.settings import TrainingSettings

SMALL: dict[str, Any] = {"hidden": 8, "embed": 8, "epochs": 1, "seed": 3, "device": "cpu"}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat\nthe dog ran far away from it\n" * 120, encoding="utf-8")
    return path


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    path = tmp_path / "labelled.tsv"
    path.write_text("a gripping film\tgood\na dull and long film\tbad\n" * 60, encoding="utf-8")
    return path


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every batch; more than 61 do not fit into memory, which is searched on a CPU too."""
    monkeypatch.setattr(fit, "SEARCHED", {"cpu"})
    rows: list[int] = []
    for learner in (TextLearner, ExampleLearner):
        own = learner.loss

        def loss(self: Any, batch: Any, state: Any, own: Any = own) -> Any:
            rows.append(batch.rows)
            if batch.rows > 61 and torch.is_grad_enabled():
                raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
            return own(self, batch, state)

        monkeypatch.setattr(learner, "loss", loss)
    return rows


@pytest.mark.parametrize("limit", [1, 7, 8, 9, 100, 1000, 4095])
@pytest.mark.parametrize("first", [1, 20, 5000])
def test_the_search_ends_close_below_the_limit(limit: int, first: int) -> None:
    asked: list[int] = []
    rows = largest(lambda rows: asked.append(rows) or rows <= limit, first, 5000)
    assert rows <= limit < rows + max(9, rows // 8)
    assert len(asked) < 25


def test_nothing_fits_and_everything_fits() -> None:
    assert largest(lambda rows: False, 20, 5000) == 0
    assert largest(lambda rows: True, 20, 5000) == 5000
    assert largest(lambda rows: True, 20, 7) == 7


@pytest.mark.wide
def test_a_language_model_trains_as_with_the_number_written_down(text: Path, tmp_path: Path, tried: list[int]) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    searched = thereafter.train(text, model="lstm", tokens="word", batch="auto", steps=4, out=tmp_path / "run", **SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    assert max(tried) > 61
    rows = searched.config["training"]["batch"]
    assert 56 <= rows <= 61
    assert config.loads((tmp_path / "run" / "config.toml").read_text())["training"]["batch"] == rows
    assert any(f"batch {rows}: the largest that fits" in note for note in searched.log[0]["notes"])
    given = thereafter.train(text, model="lstm", tokens="word", batch=rows, steps=4, **SMALL)
    assert all(torch.equal(a, b) for a, b in zip(searched.model.parameters(), given.model.parameters(), strict=True))


@pytest.mark.wide
def test_a_task_trains_as_with_the_number_written_down(labelled: Path, tried: list[int]) -> None:
    searched = thereafter.train(labelled, task="classify", batch="auto", **SMALL)
    rows = searched.config["training"]["batch"]
    assert 56 <= rows <= 61
    given = thereafter.train(labelled, task="classify", batch=rows, **SMALL)
    assert all(torch.equal(a, b) for a, b in zip(searched.net.parameters(), given.net.parameters(), strict=True))


@pytest.mark.wide
def test_no_more_rows_than_there_are(tmp_path: Path, tried: list[int]) -> None:
    few = tmp_path / "few.tsv"
    few.write_text("a gripping film\tgood\na dull film\tbad\n" * 10, encoding="utf-8")
    searched = thereafter.train(few, task="classify", batch="auto", **SMALL)
    assert searched.config["training"]["batch"] == 18  # of 20, two validate
    assert any("all that the data gives" in note for note in searched.log[0]["notes"])


def test_a_network_that_does_not_fit_at_all(text: Path, monkeypatch: pytest.MonkeyPatch, tried: list[int]) -> None:
    def loss(*given: object) -> Any:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(TextLearner, "loss", loss)
    with pytest.raises(DeviceMemoryError, match="a batch of one row needs more; try fewer steps, a smaller network"):
        thereafter.train(text, model="lstm", tokens="word", batch="auto", **SMALL)


def test_on_a_cpu_it_is_the_default(text: Path, labelled: Path) -> None:
    usual = thereafter.train(text, model="lstm", tokens="word", **SMALL)
    auto = thereafter.train(text, model="lstm", tokens="word", batch="auto", **SMALL)
    assert auto.config["training"] == usual.config["training"]
    assert any("the default: the largest that fits is searched for on a GPU" in note for note in auto.log[0]["notes"])
    judge = thereafter.train(labelled, task="classify", batch="auto", **SMALL)
    assert judge.config["training"] == thereafter.train(labelled, task="classify", **SMALL).config["training"]


def test_other_words_are_refused() -> None:
    with assert_refused(OptionError, "batch", "most", "auto", 32):
        TrainingSettings(batch="most")
    with assert_refused(OptionError, "batch", 0, 1):
        TrainingSettings(batch=0)


def test_the_longest_examples_are_tried() -> None:
    lengths = np.array([5, 40, 7, 64, 200, 3])
    assert longest_examples(lengths, 2, 128) == [[4], [1, 3]]
    assert longest_examples(np.full(4, 900), 2, 128) == [[3]]
