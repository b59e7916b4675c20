"""Memory tasks: every line keeps its rule, whatever n; the corpora are the same each time."""

from __future__ import annotations

from collections import Counter

import pytest

import thereafter
from refusals import assert_refused
from thereafter.data import corpora
from thereafter.errors import OptionError, UnknownNameError
from thereafter.text.memory import DEFAULT_LINES, TASKS, Dice, MemoryTask, lines, task, text_of

EVERY = pytest.mark.parametrize("one", TASKS.values(), ids=list(TASKS))


def closed_by(words: tuple[str, ...]) -> dict[int, int]:
    """For each closing bracket the place of its opener, by a stack; fails where they do not match."""
    stack: list[int] = []
    found = {}
    for at, word in enumerate(words):
        if word in "([":
            stack.append(at)
        else:
            found[at] = stack.pop()
            assert words[found[at]] + word in ("()", "[]")
    assert not stack
    return found


def test_the_first_symbol_comes_back_after_n_words():
    for n in (1, 2, 7, 50):
        for _ in range(20):
            line = task("remember-first").line(Dice(f"{n}"), n)
            assert line.words[0] == line.words[-1] in "abcd"
            assert line.words[-2] == "="
            assert len(line.words) == n + 2
            assert set(line.words[1:-2]) <= set("xyz")
            [question] = line.questions
            assert (question.n, question.chance) == (n, 0.25)
            assert question.places[0].at == n + 1
            assert {question.places[0].answer, *question.places[0].others} == set("abcd")


def test_the_mark_comes_after_as_many_as_were_counted():
    for n in range(1, 9):
        line = task("count-and-fire").line(Dice("any"), n)
        assert line.text == "a " * n + "b " * n + "!"
        [question] = line.questions
        assert [line.words[place.at] for place in question.places] == [place.answer for place in question.places]
        assert [place.answer for place in question.places] == ["b"] * (n - 1) + ["!"]
        assert question.chance == 0.5**n


def test_brackets_are_balanced_and_every_closing_one_is_asked_for():
    dice, seen = Dice("brackets"), Counter[int]()
    for n in task("balanced-brackets").spans(longest=40):
        for _ in range(10):
            line = task("balanced-brackets").line(dice, n)
            pairs = closed_by(line.words)
            assert len(line.words) == n + 2
            asked = {question.places[0].at: question for question in line.questions}
            assert asked.keys() == pairs.keys()
            for at, question in asked.items():
                assert question.n == at - pairs[at] - 1
                assert question.places[0].answer == line.words[at] != question.places[0].others[0]
                seen[question.n] += 1
    assert seen.keys() == set(range(0, 41, 2))


@EVERY
def test_answers_stand_where_the_places_say(one: MemoryTask):
    for line in lines(one, 30):
        for question in line.questions:
            for place in question.places:
                assert line.words[place.at] == place.answer
                assert place.answer not in place.others


@EVERY
def test_n_is_drawn_evenly_and_the_same_each_time(one: MemoryTask):
    drawn = Counter(line.questions[-1].n for line in lines(one, 2000))
    assert drawn.keys() == set(one.spans())
    assert max(drawn.values()) < 2.5 * min(drawn.values())
    assert text_of(one, count=50) == "".join(f"{line.text}\n" for line in lines(one, 50))
    assert text_of(one, "valid", count=50) != text_of(one, "test", count=50)
    assert text_of(one, count=50) != text_of(one, count=50, seed=2)
    assert text_of(one, count=80).startswith(text_of(one, count=50))
    assert {line.questions[-1].n for line in lines(one, 99, shortest=9, longest=13)} <= set(range(9, 14))


@EVERY
def test_each_is_a_corpus(one: MemoryTask):
    found = corpora.locate(one.name)
    assert found.tokens == "word"
    assert list(found.parts) == ["train", "valid", "test"]
    for part, path in found.parts.items():
        assert path.read_text() == text_of(one, part)
        assert path.read_text().count("\n") == DEFAULT_LINES[part]
    assert corpora.locate(one.name) == found


def test_a_damaged_corpus_is_written_again():
    found = corpora.locate("remember-first")
    found.parts["valid"].write_text("spoilt\n")
    assert corpora.locate("remember-first").parts["valid"].read_text() == text_of(task("remember-first"), "valid")


def test_a_corpus_trains_by_its_name():
    lm = thereafter.train("count-and-fire", order=3)
    assert lm.next("a a b", k=2)[0][0] in ("b", "!")
    assert len(lm.tokenizer.ordinary_forms) == 3


def test_mistakes_are_answered():
    with assert_refused(UnknownNameError, "remember-first"):
        task("remember-frist")
    with assert_refused(OptionError, 3, "balanced-brackets", 0, 2):
        task("balanced-brackets").line(Dice("x"), 3)
    with assert_refused(OptionError, "remember-first", 1, 30):
        lines(task("remember-first"), 5, longest=0)
