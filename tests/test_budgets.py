"""Budgets count text, not time: what is trained by default is the same on a quiet machine and on a busy one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from thereafter.comparing import tables, timing
from thereafter.comparing.compare import compare
from thereafter.comparing.comparison import Comparison
from thereafter.ready import models as ready
from thereafter.studio import worker

ROOT = Path(__file__).parents[1]
TIMED = {"train tok/s", "next ms", "train s"}


@contextmanager
def busy() -> Iterator[None]:
    """An endless loop beside, which takes its share of a core."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def untimed(compared: Comparison) -> list[Any]:
    """All that a comparison shows but what it measured with a clock."""
    heads, lines = tables.score_table(compared)
    scores = [[cell for head, cell in zip(heads, line, strict=True) if head not in TIMED] for line in lines]
    probes = [tables.probe_tables(probed) for probed in compared.probes()]
    assert probes, "the sentences offer a probe"
    return [scores, probes, [row.first.seen for row in compared.rows]]


def test_the_demo_shows_the_same_table_beside_a_busy_loop(
    demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(timing, "next_token_latency", lambda *given: 0.0)  # a clock's figure, of hundreds of steps
    texts = demo.sentences(tmp_path / "sentences", {"train": 200, "valid": 20, "test": 40})
    options = demo.AGREEMENT | {"tokens_budget": 600, "validate_every": 2}
    quiet = compare(texts, out=tmp_path / "quiet", **options)
    with busy():
        loaded = compare(texts, out=tmp_path / "busy", **options)
    assert untimed(quiet) == untimed(loaded)
    neural = [row.first for row in quiet.rows if row.first.model != "ngram"]
    assert len(neural) == 7
    assert {trial.seen for trial in neural} == {neural[0].seen}
    assert neural[0].seen >= 600


def test_the_budgets_of_the_demo_are_tokens(demo: ModuleType):
    for options in (demo.AGREEMENT, demo.DOCS):
        budgets = {name for name in options if name.rpartition(".")[2] in ("minutes", "epochs", "tokens_budget")}
        assert budgets == {"tokens_budget"}


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_no_recipe_is_measured_in_minutes(path: Path):
    training = tomllib.loads(path.read_text(encoding="utf-8")).get("training", {})
    assert "minutes" not in training


def test_all_ready_models_of_the_sentences_read_equally_much():
    budgets = {one.budget for one in ready.READY if one.source == ready.SENTENCES_NAME and one.kind != "ngram"}
    assert budgets == {ready.BUDGET}


def test_a_training_of_the_studio_has_epochs_unless_minutes_are_asked_for(tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\n" * 100_000, encoding="utf-8")
    chosen = worker.watched_options(str(text), "prose", {})
    assert chosen["epochs"] == pytest.approx(2_000_000 / (0.9 * 2_300_000 / 5), rel=0.05)
    assert "minutes" not in chosen
    for asked in ({"minutes": 1.0}, {"epochs": 2.0}):
        assert not {"epochs", "minutes", "tokens_budget"} & set(worker.watched_options(str(text), None, asked))
