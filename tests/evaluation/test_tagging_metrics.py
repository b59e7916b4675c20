"""Figures of tagging: spans against seqeval on sequences that keep the scheme and on those that break it, the rest
against numbers counted by hand."""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth import core
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.tasks.tag.measures import RARE, TaggingScore, measure_spans, measure_tagging, spans_of

seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")

KINDS = ("PER", "LOC", "A-B", "")
ANY = [letter + ("-" + kind if kind else "") for letter in "BIES" for kind in KINDS] + ["O", "O", "O"]
BIO = ["B-PER", "I-PER", "B-LOC", "I-LOC", "O"]


def corpus(seed: int, tags: list[str], sentences: int = 30) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences of tags, and a copy with every fifth tag drawn anew."""
    draw = random.Random(seed)
    gold = [[draw.choice(tags) for _ in range(draw.randint(1, 12))] for _ in range(sentences)]
    return gold, [[draw.choice(tags) if draw.random() < 0.2 else tag for tag in one] for one in gold]


def valid(sentence: list[str]) -> list[str]:
    """The same with every I that no span of its kind comes before turned into B."""
    kept: list[str] = []
    for tag in sentence:
        goes_on = tag.startswith("I-") and kept and kept[-1] in (f"B-{tag[2:]}", tag)
        kept.append(tag if not tag.startswith("I-") or goes_on else f"B-{tag[2:]}")
    return kept


def assert_equals_seqeval(gold: list[list[str]], predicted: list[list[str]]) -> None:
    ours = measure_spans(gold, predicted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quotients over 0
        theirs = seqeval.precision_recall_fscore_support(gold, predicted, average=None)
        micro = seqeval.precision_recall_fscore_support(gold, predicted, average="micro")
        macro = seqeval.f1_score(gold, predicted, average="macro") if ours.per_kind else 0.0
    rows = zip(*(list(column) for column in theirs), strict=True)
    for score, (precision, recall, f1, support) in zip(ours.per_kind.values(), rows, strict=True):
        assert (score.precision, score.recall, score.f1) == pytest.approx((precision, recall, f1), abs=1e-12)
        assert score.support == support
    whole = ours.overall
    assert (whole.precision, whole.recall, whole.f1) == pytest.approx(micro[:3], abs=1e-12)
    assert ours.macro_f1 == pytest.approx(macro, abs=1e-12)


@pytest.mark.parametrize("seed", core(range(20), range(6)))
def test_spans_equal_seqeval_on_valid_sequences(seed: int) -> None:
    gold, predicted = corpus(seed, BIO)
    assert_equals_seqeval([valid(one) for one in gold], [valid(one) for one in predicted])


@pytest.mark.parametrize("seed", core(range(20), range(6)))
@pytest.mark.parametrize("tags", [BIO, ANY], ids=["BIO", "BIOES with and without kinds"])
def test_spans_equal_seqeval_on_sequences_that_break_the_scheme(seed: int, tags: list[str]) -> None:
    assert_equals_seqeval(*corpus(seed, tags))


@given(st.lists(st.sampled_from(ANY), max_size=12))
def test_spans_of_a_sentence_are_those_of_seqeval(tags: list[str]) -> None:
    assert spans_of(tags) == seqeval.get_entities(tags)


def test_no_spans_on_either_side() -> None:
    assert_equals_seqeval([["O", "O"], ["B-PER"]], [["O", "O"], ["O"]])
    assert_equals_seqeval([["O", "O"], ["O"]], [["O", "O"], ["I-PER"]])
    nothing = measure_spans([["O"]], [["O"]])
    assert (nothing.overall.f1, nothing.macro_f1, nothing.per_kind) == (0.0, 0.0, {})


GOLD = [["DET", "NOUN", "VERB"], ["NOUN", "VERB"], ["DET", "NOUN"]]
GIVEN = [["DET", "VERB", "VERB"], ["NOUN", "VERB"], ["DET", "VERB"]]
WORDS = [["the", "gnu", "runs"], ["gnus", "run"], ["the", "gnat"]]


def test_accuracy_known_and_unknown_words_by_hand() -> None:
    seen = Counter({"the": 50, "gnu": RARE, "runs": RARE + 1})
    score = measure_tagging(GOLD, GIVEN, WORDS, seen)
    assert score.accuracy == pytest.approx(5 / 7)
    assert (score.sentences.right, score.sentences.total) == (1, 3)
    assert score.known is not None
    assert (score.known.right, score.known.total) == (3, 4)
    assert score.unknown is not None
    assert (score.unknown.right, score.unknown.total) == (2, 3)
    assert score.rare is not None
    assert (score.rare.right, score.rare.total) == (0, 1)
    assert score.spans is None
    assert score.confusions() == [("NOUN", "VERB", 2)]
    noun, verb = score.per_tag["NOUN"], score.per_tag["VERB"]
    assert (noun.precision, noun.recall, noun.f1) == pytest.approx((1.0, 1 / 3, 0.5))
    assert (verb.precision, verb.recall, verb.f1) == pytest.approx((0.5, 1.0, 2 / 3))
    assert str(score) == (
        "accuracy 71.43 % (5 of 7 words), unknown words 66.67 % of 3, known words 75.00 % of 4, rare words 0.00 % of 1"
    )


def test_a_set_of_words_has_no_rare_ones_and_no_words_no_groups() -> None:
    score = measure_tagging(GOLD, GIVEN, WORDS, {"the", "gnu", "runs"})
    assert score.rare is None
    assert score.known == measure_tagging(GOLD, GIVEN, WORDS, Counter(["the", "gnu", "runs"])).known
    assert measure_tagging(GOLD, GIVEN).unknown is None


def test_spans_are_measured_where_tags_are_those_of_spans() -> None:
    gold, predicted = corpus(3, BIO)
    assert measure_tagging(gold, predicted).spans == measure_spans(gold, predicted)
    assert measure_tagging([["O", "B-PER"]], [["O", "NOUN"]]).spans is None
    assert measure_tagging([["I", "O"]], [["O", "O"]]).spans is None  # perhaps someone's parts of speech


def test_everything_can_be_written_as_json() -> None:
    def stored(score: TaggingScore) -> dict[str, object]:
        return json.loads(json.dumps(score.as_dict(), allow_nan=False))

    tagged = stored(measure_tagging(GOLD, GIVEN, WORDS, Counter(word for one in WORDS for word in one)))
    assert tagged["unknown"] == {"right": 0, "total": 0, "accuracy": None}
    assert tagged["confusions"] == [["NOUN", "VERB", 2]]
    gold, predicted = corpus(5, BIO)
    spans = stored(measure_tagging(gold, predicted))["spans"]
    assert isinstance(spans, dict)
    assert spans["f1"] == measure_spans(gold, predicted).overall.f1


def test_what_does_not_fit_is_a_sentence() -> None:
    with assert_refused(OptionError, 1, 2):
        measure_tagging([["X"]], [["X"], ["X"]])
    with assert_refused(OptionError, 2, 1):
        measure_spans([["O"], ["O"]], [["O"], ["O", "O"]])
    with assert_refused(OptionError, 1, 2):
        measure_tagging([["X"]], [["X"]], [["a", "b"]], {"a"})
    with assert_refused(OptionError):
        measure_tagging([["X"]], [["X"]], training={"a"})
    with assert_refused(OptionError, "NOUN"):
        measure_spans([["NOUN"]], [["O"]])
    with pytest.raises(EmptyCorpusError):
        measure_tagging([], [])
