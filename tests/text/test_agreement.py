"""The agreement corpus: what a sentence says about itself is true, and streams, parts and files behave."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from refusals import assert_refused
from thereafter.base import progress
from thereafter.errors import FormatError, OptionError, SourceError, StorageError, UnknownNameError
from thereafter.text import agreement
from thereafter.text.agreement import Sentence, read_sentences, sentences, write_corpus
from thereafter.text.agreement.lexicon import add_ed, add_s, lexicon

ALL_PAIRS = ("agreement", "reflexive", "either-or", "quotes", "brackets")
SINGULAR = {noun.singular for noun in lexicon().all_nouns}
PLURAL = {noun.plural for noun in lexicon().all_nouns}


@pytest.fixture(scope="module")
def many() -> list[Sentence]:
    return list(sentences(6000, seed=11))


def closing_forms(word: str) -> tuple[str, str]:
    """(singular, plural) of a verb, found by spelling and not through the generator's own tables."""
    for singular, plural in (("is", "are"), ("was", "were"), ("has", "have")):
        if word in (singular, plural):
            return singular, plural
    bases = {verb.base for verb in lexicon().all_verbs}
    if word in bases:
        return add_s(word), word
    [base] = [base for base in bases if add_s(base) == word]
    return word, base


def test_same_seed_same_sentences() -> None:
    assert list(sentences(200, seed=4)) == list(sentences(200, seed=4))
    assert list(sentences(200, seed=4)) != list(sentences(200, seed=5))


def test_a_longer_stream_begins_with_the_shorter_one() -> None:
    endless = sentences(None, seed=9, part="valid", pairs=ALL_PAIRS)
    assert list(islice(endless, 60)) == list(sentences(60, seed=9, part="valid", pairs=ALL_PAIRS))
    assert list(sentences(0)) == []


def test_the_default_stream_never_changes() -> None:
    """Scores are compared across machines and versions, so these sentences are pinned."""
    text = "\n".join(one.text for one in sentences(500))
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "a6c4edf7f5da6d3fd288f77676917cde01c5c837c1bd29a4412b65e4db8acb5b"
    )


def test_recorded_positions_are_true(many: list[Sentence]) -> None:
    for one in many:
        words = one.text.split(" ")
        assert tuple(words) == one.words
        assert words[-1] == "."
        nouns = [at for at, word in enumerate(words) if word in SINGULAR | PLURAL]
        assert one.subject == nouns[0]  # no noun comes before the subject
        assert [a.position for a in one.attractors] == [at for at in nouns if one.subject < at < one.verb]
        for at, number in [(one.subject, one.number), *one.attractors]:
            assert words[at] in (PLURAL if number == "plural" else SINGULAR)
        assert one.distance == len(words[one.subject + 1 : one.verb])
        assert not set(words[one.subject : one.verb]) & {",", ".", "or", "nor"}


def test_right_and_wrong_forms(many: list[Sentence]) -> None:
    for one in many:
        singular, plural = closing_forms(one.correct_form)
        expected = (plural, singular) if one.number == "plural" else (singular, plural)
        assert (one.correct_form, one.wrong_form) == expected
        assert one.right.split()[:-1] == one.wrong.split()[:-1] == list(one.prefix)
        assert (one.right.split()[-1], one.wrong.split()[-1]) == expected
        assert one.text.startswith(one.right + " ")


def test_congruence_is_the_last_attractors(many: list[Sentence]) -> None:
    for one in many:
        if one.attractors:
            assert one.congruent == ((one.words[one.attractors[-1].position] in PLURAL) == (one.number == "plural"))
        else:
            assert one.congruent is None
    assert {one.congruent for one in many} == {True, False, None}


def test_distances_are_even_from_0_to_40(many: list[Sentence]) -> None:
    counts = Counter(one.distance for one in many)
    assert sorted(counts) == list(range(41))
    expected = len(many) / 41
    assert (
        sum((count - expected) ** 2 / expected for count in counts.values()) < 73.4
    )  # chi-square, 40 degrees, p 0.001


def test_attractors_vary_at_one_distance(many: list[Sentence]) -> None:
    for distance in (10, 20, 30, 40):
        counts = {len(one.attractors) for one in many if one.distance == distance}
        assert len(counts) >= 4
    assert {len(one.attractors) for one in many if one.distance == 0} == {0}


def test_every_sort_of_verb_and_structure_occurs(many: list[Sentence]) -> None:
    verbs = Counter(one.correct_form for one in many)
    for form in ("is", "are", "was", "were", "has", "have"):
        assert verbs[form] > len(many) / 12  # a quarter of the sentences each pair, half of it each form
    assert len(verbs) > 100
    between = [" ".join(one.words[one.subject + 1 : one.verb]) for one in many]
    for sign in ("near the", "who", "that the", "by the", " and the ", "which"):
        assert sum(sign in words for words in between) > 100, sign


def test_several_hundred_word_forms(many: list[Sentence]) -> None:
    forms = {word for one in many for word in one.words}
    assert len(forms) >= 600
    assert all(form == form.lower() and " " not in form for form in forms)


def test_nouns_have_two_forms_that_are_no_other_word() -> None:
    nouns = lexicon().all_nouns
    assert len(SINGULAR) == len(PLURAL) == len(nouns)
    assert not SINGULAR & PLURAL
    verbs = {form for verb in lexicon().all_verbs for form in verb}
    assert not (SINGULAR | PLURAL) & verbs
    small: set[str] = set()
    for one in sentences(2000, seed=2, pairs=ALL_PAIRS):
        heads = {a.position for a in one.attractors} | {one.opener}
        small.update(word for at, word in enumerate(one.prefix) if at > one.opener and at not in heads)
    assert not (SINGULAR | PLURAL) & small
    assert all(verb.past not in (verb.base, verb.third) for verb in lexicon().all_verbs)


def test_regular_spelling() -> None:
    assert [add_s(word) for word in ("box", "witch", "library", "key")] == ["boxes", "witches", "libraries", "keys"]
    assert [add_ed(word) for word in ("love", "hurry", "play", "limp")] == ["loved", "hurried", "played", "limped"]


def test_parts_share_no_sentence_whatever_the_seed() -> None:
    """Not even one that differs in number only: short sentences over several seeds, so that collisions would show."""
    neutral: dict[str, set[str]] = {}
    for part in agreement.PARTS:
        neutral[part] = {
            agreement.neutral_text(one.words)
            for seed in (1, 2, 3)
            for one in sentences(400, seed=seed, part=part, pairs=ALL_PAIRS, max_distance=2)
        }
    assert not neutral["train"] & neutral["valid"]
    assert not neutral["train"] & neutral["test"]
    assert not neutral["valid"] & neutral["test"]
    assert agreement.neutral_text(("the", "dogs", "were", "ill")) == agreement.neutral_text(
        ("the", "dog", "was", "ill")
    )


def test_the_counterpart_in_the_other_number_is_in_the_same_part(many: list[Sentence]) -> None:
    noun_pairs = {noun.singular: noun.plural for noun in lexicon().all_nouns}
    noun_pairs |= {plural: singular for singular, plural in noun_pairs.items()}
    for one in many[:1000]:
        words = list(one.words)
        words[one.subject], words[one.verb] = noun_pairs[words[one.subject]], one.wrong_form
        assert agreement.part_of(tuple(words)) == "train" == agreement.part_of(one.words)


def test_reflexives() -> None:
    singular = {noun.form(False): noun.reflexive for noun in lexicon().with_reflexive}
    seen = set()
    for one in sentences(800, seed=3, pairs="reflexive"):
        subject = one.words[one.subject]
        expected = singular.get(subject, "themselves")
        assert one.correct_form == expected
        assert (one.wrong_form == "themselves") == (one.number == "singular") == (expected != "themselves")
        assert one.distance >= 1
        seen |= {one.correct_form, one.wrong_form}
    assert seen == {"himself", "herself", "itself", "themselves"}


@pytest.mark.parametrize(
    ("kind", "matching", "shortest"),
    [
        ("either-or", {"either": "or", "neither": "nor"}, 2),
        ("quotes", {"“": "”", "‘": "’"}, 1),
        ("brackets", {"(": ")", "[": "]"}, 1),
    ],
)
def test_opening_and_closing_words(kind: str, matching: dict[str, str], shortest: int) -> None:
    openers: Counter[str] = Counter()
    distances = set()
    for one in sentences(1500, seed=8, pairs=(kind,)):
        opener = one.words[one.opener]
        openers[opener] += 1
        distances.add(one.distance)
        assert one.kind == kind
        assert one.number is None
        assert one.congruent is None
        assert one.correct_form == matching[opener]
        assert {one.correct_form, one.wrong_form} == set(matching.values())
        ends = set(matching) | set(matching.values())
        assert [at for at, word in enumerate(one.words) if word in ends] == [one.opener, one.closer]
    assert set(openers) == set(matching)
    assert abs(openers.most_common()[0][1] - 750) < 3 * (1500 * 0.25) ** 0.5
    assert distances == set(range(shortest, 41))


def test_kinds_are_mixed_evenly() -> None:
    kinds = Counter(one.kind for one in sentences(2000, seed=1, pairs=ALL_PAIRS))
    assert set(kinds) == set(ALL_PAIRS)
    assert all(abs(count - 400) < 4 * (2000 * 0.2 * 0.8) ** 0.5 for count in kinds.values())


def test_distance_limits() -> None:
    assert {one.distance for one in sentences(200, min_distance=7, max_distance=9)} == {7, 8, 9}
    assert {one.distance for one in sentences(20, max_distance=0)} == {0}


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: sentences(-1), OptionError, "-1"),
        (lambda: sentences(10, max_distance=41), OptionError, "max_distance <= 40"),
        (lambda: sentences(10, max_distance=-1), OptionError, "-1"),
        (lambda: sentences(10, min_distance=5, max_distance=4), OptionError, "from 5 to 4"),
        (lambda: sentences(10, pairs=("reflexiv",)), UnknownNameError, "did you mean 'reflexive'"),
        (lambda: sentences(10, pairs=()), OptionError, "agreement, reflexive"),
        (lambda: sentences(10, pairs="either-or", max_distance=1), OptionError, "at least 2 words"),
        (lambda: sentences(10, part="tests"), UnknownNameError, "did you mean 'test'"),  # type: ignore[arg-type]
        (lambda: write_corpus(Path("x"), sizes={"train": -3}), OptionError, "-3"),
        (lambda: write_corpus(Path("x"), sizes={"dev": 3}), UnknownNameError, "'dev'"),
    ],
)
def test_bad_options_are_refused_at_once(call: Callable[[], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert says in str(caught.value)


class Listener(progress.Silent):
    def __init__(self) -> None:
        self.total: float | None = None
        self.done = 0.0

    def begin(self, label: str, total: float | None, unit: str) -> Callable[[float], None]:
        self.total = total
        return self.move

    def move(self, amount: float) -> None:
        self.done += amount


def test_the_corpus_on_disk_is_the_stream(tmp_path: Path) -> None:
    sizes = {"train": 700, "valid": 40, "test": 60}
    listener = Listener()
    with progress.reporting(listener):
        paths = write_corpus(tmp_path / "new" / "folder", seed=5, sizes=sizes)
    assert listener.total == listener.done == 800
    assert list(paths) == ["train", "valid", "test"]
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 6  # three texts, three records, nothing else
    for part in agreement.PARTS:
        expected = list(sentences(sizes[part], seed=5, part=part))
        assert paths[part].name == f"agreement.{part}.txt"
        assert paths[part].read_text(encoding="utf-8") == "".join(one.text + "\n" for one in expected)
        records = paths[part].with_suffix(".jsonl")
        assert list(read_sentences(records)) == expected
        first = json.loads(records.read_text(encoding="utf-8").splitlines()[0])
        assert (first["distance"], first["correct"], first["congruent"]) == (
            expected[0].distance,
            expected[0].correct_form,
            expected[0].congruent,
        )


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_corpus(tmp_path, seed=1, sizes={"train": 5, "valid": 1, "test": 1})
    kept = before["train"].read_bytes()

    drawn = list(sentences(600, seed=2))

    def full_disk(*options: object) -> Iterator[tuple[str, Sentence]]:
        for one in drawn:
            yield "train", one
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("thereafter.text.agreement.corpora.deal", full_disk)
    with pytest.raises(StorageError, match="No space left on device"):
        write_corpus(tmp_path, seed=2)
    assert before["train"].read_bytes() == kept
    assert len(list(tmp_path.iterdir())) == 6


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with assert_refused(StorageError):
        write_corpus(tmp_path / "file", sizes={"train": 1})


def test_damaged_records_are_named(tmp_path: Path) -> None:
    path = write_corpus(tmp_path, sizes={"test": 3})["test"].with_suffix(".jsonl")
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with assert_refused(FormatError, 3):
        list(read_sentences(path))
    path.write_text('{"text": "the dog is old ."}\n')
    with assert_refused(FormatError, "KeyError"):
        list(read_sentences(path))
    with assert_refused(SourceError, "missing.jsonl"):
        list(read_sentences(tmp_path / "missing.jsonl"))


@pytest.mark.slow
def test_the_default_corpus_never_changes(tmp_path: Path) -> None:
    paths = write_corpus(tmp_path)
    digest = {part: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for part, path in paths.items()}
    assert digest == {"train": "d5e8d0edfc7f7429", "valid": "71c0e07022b0d1c5", "test": "797addd588cfca16"}
