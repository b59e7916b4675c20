"""Whatever bytes or characters come: a result or a clear error, never a traceback, and probabilities that sum to 1."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thereafter
from breadth import core
from thereafter.ngram.smoothing import SMOOTHINGS
from thereafter.text.tokenizers import TOKENIZERS

EXAMPLES = 80
"""For each tokenizer; three and a half times as many are breadth."""
PIECES = ("bpe", "wordpiece", "unigram")

nasty_texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="ab \n\r\0\t\x85\u2028\ufeffé漢😀\u0301שلا<>/sunk_0٣", max_size=60),
    st.sampled_from(["", "x", "\n", " ", "\0", "<unk>", "<s>", "</s>", "<s> </s> <unk>\n", "\ufeff", "\r\n", "\ud800"]),
    st.builds(
        lambda token, times: token * times, st.sampled_from(["a ", "a", "\n", "the\n", "漢", "1 "]), st.integers(0, 60)
    ),
)
nasty_sources = st.one_of(nasty_texts, st.binary(max_size=80))
recipes = st.fixed_dictionaries(
    {
        "order": st.integers(1, 10),
        "smoothing": st.sampled_from(list(SMOOTHINGS)),
        "min_count": st.sampled_from([None, 1, 3]),
        "cutoffs": st.sampled_from([(), (0, 1), (1,), (0, 0, 2)]),
    }
)


@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(280, marks=pytest.mark.wide)])
@pytest.mark.parametrize("tokens", core(TOKENIZERS, ["word", "byte", "bpe", "prose"]))
def test_any_input_through_every_verb(tokens: str, examples: int, tmp_path: Path):
    reached = 0
    refusals: list[str] = []

    @settings(max_examples=examples)
    @given(source=nasty_sources, other=nasty_texts, recipe=recipes, seed=st.integers(0, 2**32))
    def through_every_verb(source: str | bytes, other: str, recipe: dict, seed: int) -> None:
        nonlocal reached
        if tokens in ("byte", *PIECES):  # they keep every byte: there is no rare form to drop
            recipe = recipe | {"vocabulary": None if tokens == "byte" else 300, "min_count": None}
        try:
            if isinstance(source, bytes):
                path = Path(tempfile.mkstemp(dir=tmp_path)[1])
                path.write_bytes(source)
                lm = thereafter.train(path, tokens=tokens, **recipe)
            else:
                lm = thereafter.train(text=source, tokens=tokens, **recipe)
            assert_verbs_agree(lm, other, seed, Path(tempfile.mkdtemp(dir=tmp_path)) / "run")
            reached += 1
        except thereafter.ThereafterError as error:
            refusals.append(str(error))

    through_every_verb()
    assert all(len(refusal) > 20 for refusal in refusals)
    assert reached > examples // 3  # a third of the inputs and more are trained on, not refused


def assert_verbs_agree(lm: thereafter.LanguageModel, other: str, seed: int, folder: Path) -> None:
    again = thereafter.load(lm.save(folder))
    prompt = "" if "\ud800" in other else other
    for context in ("", prompt):
        assert lm.distribution(context).sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_array_equal(lm.distribution(context), again.distribution(context))
    assert all(0 <= p <= 1 + 1e-6 for _, p in lm.next(prompt, k=3))
    said = lm.generate(prompt, 5, seed=seed)
    assert said == again.generate(prompt, 5, seed=seed)
    assert said.startswith(prompt)
    score = lm.score(text=other)
    assert score == again.score(text=other)
    assert score.nats >= -1e-3
    if lm.config["ngram"]["smoothing"] != "mle":
        assert math.isfinite(score.bits_per_byte)


def test_a_recipe_that_makes_no_sense_is_refused():
    for wrong in (
        {"order": 0},
        {"order": 11},
        {"smoothing": "kneser-nay"},
        {"cutoffs": (0, 3, 1)},
        {"ordr": 3},
        {"order": "5"},
        {"order": 2.5},
        {"alpha": "much"},
        {"lower": "yes"},
        {"cutoffs": ("x",)},
        {"min_count": 0},
    ):
        with pytest.raises(thereafter.ThereafterError):
            thereafter.train(text="a b a b", **wrong)


@pytest.mark.parametrize("tokens", list(TOKENIZERS))
def test_a_script_never_seen_gets_an_honest_score(corpora_folder: Path, tokens: str):
    """Greek after English: finite, and no cheaper than a model that knows nothing but bytes would ask."""
    english = thereafter.train("time-machine", tokens=tokens, order=4)
    greek = "Ἐν ἀρχῇ ἦν ὁ λόγος, καὶ ὁ λόγος ἦν πρὸς τὸν θεόν.\n"
    score = english.score(text=greek)
    assert score.bytes == len(greek.encode())
    assert math.isfinite(score.bits_per_byte)
    assert 5 < score.bits_per_byte < 40
    own = english.score("time-machine")
    assert own.bits_per_byte < 3
