"""A stopped training of a task goes on with its own examples only; options that are off anyway are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toys import tagged

import thereafter
from refusals import assert_refused
from stops import stopping_at
from thereafter.errors import SourceError

SMALL: dict[str, Any] = {"hidden": 8, "epochs": 1, "batch": 4}


def stop_early(source: Path, run: Path, **options: Any) -> None:
    """Begin a training that is stopped at step 3."""
    with stopping_at(3), pytest.raises(KeyboardInterrupt):
        thereafter.train(source, task="tag", out=run, **SMALL, **options)


def test_resume_notices_that_the_validation_examples_have_changed(tmp_path: Path):
    source, valid, run = (
        tagged(tmp_path / "train.tsv", 40),
        tagged(tmp_path / "valid.tsv", 20, seed=2),
        tmp_path / "run",
    )
    stop_early(source, run, valid=valid)
    before = valid.read_text()
    valid.write_text(before.replace("\tLOW", "\tCAP", 1))
    with assert_refused(SourceError, "valid.tsv"):
        thereafter.resume(run)
    valid.write_text(before)
    assert thereafter.resume(run).log[-1]["event"] == "trained"


def test_resume_without_validation_examples_of_their_own(tmp_path: Path):
    source, run = tagged(tmp_path / "train.tsv", 40), tmp_path / "run"
    stop_early(source, run)
    tagged(source, 40, seed=3)
    with assert_refused(SourceError, "train.tsv"):
        thereafter.resume(run)
    tagged(source, 40)
    assert thereafter.resume(run).log[-1]["event"] == "trained"
    assert not (run / "state.safetensors").exists()


def test_what_a_configuration_says_of_them_is_taken(tmp_path: Path):
    fitted = thereafter.train(
        tagged(tmp_path / "t.tsv", 20), task="tag", **SMALL, jitter=False, graphs=False, batching=None
    )
    assert fitted.config["training"]["graphs"] is False
