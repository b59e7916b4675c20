"""BLEU with several references and CIDEr-D: against NLTK, sacreBLEU and pycocoevalcap, and against plain loops."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from breadth import core
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.vision.captioning.measures import (
    Words,
    bleu_of_sums,
    bleu_statistics,
    caption_words,
    cider_of_each,
    count_captions,
)


def bleu(answers: Sequence[Words], references: Sequence[Sequence[Words]], order: int = 4) -> tuple[float, ...]:
    """BLEU-1 to BLEU-order of answers as words, 0 to 100; every answer may have several references."""
    sums_S = bleu_statistics(count_captions(answers, references, order)).sum(axis=0)
    return tuple(bleu_of_sums(sums_S[None])[0].tolist())


def cider_d(answers: Sequence[Words], references: Sequence[Sequence[Words]]) -> tuple[float, NDArray[np.float64]]:
    """CIDEr-D of answers as words: the mean, and that of each."""
    each_N = cider_of_each(count_captions(answers, references))
    return float(each_N.mean()), each_N


ROOT = Path(__file__).resolve().parents[2]
WORDS = ["a", "dog", "the", "man", "red", "runs", "in", "of", "ball", "on", "grass", "woman", "and"]

Captions = tuple[list[list[str]], list[list[list[str]]]]


def captions(seed: int, pictures: int = 40, shortest: int = 0) -> Captions:
    """Answers and one to five references, all with words in common; some are empty, some have one word."""
    draw = random.Random(seed)
    answers, references = [], []
    for _ in range(pictures):
        base = draw.choices(WORDS, k=draw.randint(shortest, 14))
        several = [[draw.choice(WORDS) if draw.random() < 0.3 else word for word in base] for _ in range(6)]
        answers.append(several[0][: draw.randint(shortest, 14)])
        references.append([one + draw.choices(WORDS, k=draw.randint(0, 3)) for one in several[1 : draw.randint(2, 6)]])
    return answers, references


def plain_cider(answers: list[list[str]], references: list[list[list[str]]]) -> list[float]:
    """CIDEr-D as the paper writes it, k-gram by k-gram."""

    def grams(words: list[str], k: int) -> Counter[tuple[str, ...]]:
        return Counter(tuple(words[at : at + k]) for at in range(len(words) - k + 1))

    def weight(gram: tuple[str, ...], times: int) -> float:
        documents = sum(any(gram in one for one in several) for several in written)
        return times * (math.log(len(references)) - math.log(max(1, documents)))

    written = [[set().union(*(grams(ref, k) for k in range(1, 5))) for ref in several] for several in references]

    scores = []
    for answer, several in zip(answers, references, strict=True):
        total = 0.0
        for ref in several:
            distance = max(0, len(answer) - 1) - max(0, len(ref) - 1)
            for k in range(1, 5):
                one, other = ({g: weight(g, n) for g, n in grams(words, k).items()} for words in (answer, ref))
                norms = math.hypot(*one.values()) * math.hypot(*other.values())
                common = sum(min(value, other.get(g, 0.0)) * other.get(g, 0.0) for g, value in one.items())
                total += common / norms * math.exp(-(distance**2) / 72) if norms else 0.0
        scores.append(10 * total / 4 / len(several))
    return scores


@pytest.mark.parametrize("seed", core(range(4), [0]))
def test_bleu_of_captions_equals_sacrebleu_without_smoothing(seed: int) -> None:
    answers, references = captions(seed, shortest=4)  # NLTK counts a shorter answer as a miss, sacreBLEU does not
    streams = [[" ".join(one[n % len(one)]) for one in references] for n in range(5)]  # twice the same adds nothing
    for n, score in enumerate(bleu(answers, references), 1):
        metric = BLEU(tokenize="none", smooth_method="none", max_ngram_order=n, force=True)
        assert score == pytest.approx(metric.corpus_score([" ".join(one) for one in answers], streams).score)
        assert bleu(answers, references, order=n)[-1] == score


def test_bleu_counts_a_word_as_often_as_the_reference_that_has_it_most() -> None:
    # Papineni and others 2002: of seven "the" two are in the first reference
    references = [["the", "cat", "is", "on", "the", "mat"], ["there", "is", "a", "cat", "on", "the", "mat"]]
    assert bleu([["the"] * 7], [references], order=1) == pytest.approx((100 * 2 / 7,))


def test_captions_that_are_too_short_pay_by_the_nearest_reference() -> None:
    references = [["a"] * 3, ["a"] * 5, ["a"] * 9]
    assert bleu([["a"] * 4], [references], order=1)[0] == 100.0  # three and five are equally near: the shorter counts
    assert bleu([["a"] * 2], [references], order=1)[0] == pytest.approx(100 * math.exp(1 - 3 / 2))
    assert bleu([[], []], [references] * 2) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("seed", core(range(3), [0]))
def test_cider_d_equals_plain_loops(seed: int) -> None:
    answers, references = captions(seed, pictures=15)
    mean, each_N = cider_d(answers, references)
    wanted = plain_cider(answers, references)
    np.testing.assert_allclose(each_N, wanted, rtol=0, atol=1e-12)
    assert mean == pytest.approx(sum(wanted) / len(wanted))
    assert mean > 0.1


@pytest.mark.oracle
@pytest.mark.parametrize("seed", core([7, 8], [8]))
def test_captions_score_as_nltk_and_pycocoevalcap_have_it(seed: int, tmp_path: Path) -> None:
    named = os.environ.get("THEREAFTER_ORACLES")
    python = Path(named) if named else ROOT / ".oracles" / "bin" / "python"
    if not python.exists():
        pytest.skip("SKIPPED LOUDLY: the oracles nltk and pycocoevalcap are not installed; run `make oracles`")
    answers, references = captions(seed, pictures=200)
    given = tmp_path / "captions.json"
    given.write_text(json.dumps([answers, references]))
    script = ROOT / "tests" / "oracles" / "caption_scores.py"
    done = subprocess.run([python, script, given], capture_output=True, check=True, text=True)
    wanted = json.loads(done.stdout)
    mean, each_N = cider_d(answers, references)
    np.testing.assert_allclose(each_N, wanted["cider_d_of_each"], rtol=0, atol=1e-12)
    assert mean == pytest.approx(wanted["cider_d"])
    assert bleu(answers, references) == pytest.approx(wanted["bleu"], abs=1e-9)


def test_the_caption_of_one_picture_alone_has_no_cider_d() -> None:
    assert cider_d([["a", "dog"]], [[["a", "dog"]]])[0] == 0.0
    mean, each_N = cider_d([["a", "dog"], ["a", "cat"]], [[["a", "dog"]], [["a", "cat"]]])
    assert each_N.tolist() == pytest.approx([5.0, 5.0])  # words and pairs are as they should be; longer there are none
    assert mean == pytest.approx(5.0)


def test_words_of_captions_are_runs_of_letters() -> None:
    assert caption_words(" Two dogs, 2 balls: tri-colored dog's .\t") == [
        "two",
        "dogs",
        "balls",
        "tri",
        "colored",
        "dog",
        "s",
    ]
    assert caption_words("Ein KÄFER_fährt; e\u0301t\u0301e हिन्दी ÷ ٣") == [
        "ein",
        "käfer",
        "fährt",
        "ét\u0301e",
        "हिन्दी",
    ]
    assert caption_words(" . 42") == []


def test_captions_that_do_not_fit_are_a_sentence() -> None:
    with assert_refused(OptionError, 1, 2):
        bleu([["a"]], [[["a"]], [["b"]]])
    with assert_refused(OptionError, 1):
        cider_d([["a"], ["b"]], [[["a"]], []])
    with assert_refused(EmptyCorpusError, "captions"):
        bleu([], [])
