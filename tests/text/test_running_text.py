"""A text is read as its model was taught; corpora that are no running text are refused."""

from __future__ import annotations

from pathlib import Path

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError, SourceError


def test_a_score_reads_as_its_own_model_was_taught():
    lowered = thereafter.train(text="The Cat SAT\n" * 3, tokens="word", lower=True, order=2)
    other = thereafter.train(text="The Cat SAT\n" * 3, tokens="word", order=2)
    assert other.texts is not None
    assert lowered.score(other.texts).unknown == 0
    with assert_refused(OptionError, "text="):
        lowered.score(text="a", part="valid")


def test_corpora_that_are_no_running_text_are_refused(corpora_folder: Path):
    for name in ("ud-english-ewt", "sst2", "multi30k", "eng-fra"):
        with assert_refused(SourceError):
            thereafter.train(name)
