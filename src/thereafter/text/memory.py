"""Synthetic memory tasks: lines whose last words depend on what was read n steps before, and on nothing else.

Three tasks of growing demand: keep one symbol (`remember-first`), count (`count-and-fire`), keep a stack
(`balanced-brackets`). n is drawn before the words, so how long something must be remembered is a matter of design. A
line knows its questions, so that a trained model can be tested for how far back it remembers.

>>> task("remember-first").line(Dice("an example"), 3).text
'b y x = b'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType

from thereafter.errors import OptionError, UnknownNameError
from thereafter.text.agreement.grammar import Dice


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Before word `at` of the line, `answer` must be likelier than each of `others`."""

    at: int
    answer: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What must be remembered over n steps; answered if it is answered at every place.

    >>> Question(3, (AnswerPlace(4, "a", ("b", "c", "d")),)).chance
    0.25
    """

    n: int
    places: tuple[AnswerPlace, ...]

    @property
    def chance(self) -> float:
        """The accuracy of a guess that takes all forms for equally likely."""
        return math.prod(1 / (1 + len(place.others)) for place in self.places)


@dataclass(frozen=True, slots=True)
class Line:
    """Words and the questions about them."""

    words: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


SYMBOLS = ("a", "b", "c", "d")
FILLERS = ("x", "y", "z")
CUE = "="
COUNTED, ECHOED, FIRE = "a", "b", "!"
PAIRS = (("(", ")"), ("[", "]"))


@dataclass(frozen=True)
class MemoryTask:
    """A way to make lines: `make` for n steps, of which there are `shortest`, `shortest + stride`, ... `longest`.

    `longest` is what the corpus of that name holds; a line may be requested with any n beyond it.
    """

    name: str
    question: str
    make: Callable[[Dice, int], Line]
    shortest: int
    longest: int
    stride: int = 1

    def line(self, dice: Dice, n: int) -> Line:
        """A line whose last question spans n steps."""
        if n < self.shortest or (n - self.shortest) % self.stride:
            every = "" if self.stride == 1 else f" in steps of {self.stride}"
            raise OptionError(f"n is {n}; {self.name} has lines for n from {self.shortest} on{every}")
        return self.make(dice, n)

    def spans(self, shortest: int | None = None, longest: int | None = None) -> range:
        """Every n between the two, by default those of the corpus."""
        first = self.shortest if shortest is None else max(shortest, self.shortest)
        first += (self.shortest - first) % self.stride
        return range(first, (self.longest if longest is None else longest) + 1, self.stride)


def task(name: str) -> MemoryTask:
    """The task of that name; UnknownNameError with the nearest ones for any other."""
    if name not in TASKS:
        raise UnknownNameError("memory task", name, TASKS)
    return TASKS[name]


def remember_first(dice: Dice, n: int) -> Line:
    """`c x z = c`: the first symbol comes back after n words of noise, the last of which, `=`, asks for it.

    The latching problem of Bengio, Simard and Frasconi 1994 (Learning long-term dependencies with gradient descent is
    difficult): what is to be kept is shown once, and noise follows.
    """
    first = dice.pick(SYMBOLS)
    noise = tuple(dice.pick(FILLERS) for _ in range(n - 1))
    others = tuple(symbol for symbol in SYMBOLS if symbol != first)
    return Line((first, *noise, CUE, first), (Question(n, (AnswerPlace(n + 1, first, others),)),))


def count_and_fire(dice: Dice, n: int) -> Line:
    """`a a a b b b !`: n times `a` are counted, and `!` comes after n times `b`, not before and not later.

    The language a^n b^n of Gers and Schmidhuber 2001 (LSTM recurrent networks learn simple context-free and
    context-sensitive languages). Every word after the first `b` is a question, and all must be right.
    """
    words = (COUNTED,) * n + (ECHOED,) * n + (FIRE,)
    waits = tuple(AnswerPlace(at, ECHOED, (FIRE,)) for at in range(n + 1, 2 * n))
    return Line(words, (Question(n, (*waits, AnswerPlace(2 * n, FIRE, (ECHOED,)))),))


def balanced_brackets(dice: Dice, n: int) -> Line:
    """`( [ ] ( ) )`: each closing bracket is of the kind of the one it closes, n words before it.

    The Dyck language with two kinds of brackets. The outermost pair spans the n words between; within, the line is cut
    into balanced pieces at random. Each closing bracket is a question of its own.
    """
    words: list[str] = []
    questions: list[Question] = []
    _pair(dice, n, words, questions)
    return Line(tuple(words), tuple(questions))


def _pair(dice: Dice, inside: int, words: list[str], questions: list[Question]) -> None:
    """A pair of brackets with `inside` words between them."""
    # a stack of what is still to be written: a bracket to open over that many words, or one to close
    waiting: list[tuple[str, int]] = [("open", inside)]
    while waiting:
        what, size = waiting.pop()
        if what != "open":
            others = tuple(closer for _, closer in PAIRS if closer != what)
            questions.append(Question(size, (AnswerPlace(len(words), what, others),)))
            words.append(what)
            continue
        opener, closer = dice.pick(PAIRS)
        words.append(opener)
        pieces = []
        remaining = size
        while remaining:
            pieces.append(2 * dice.between(1, remaining // 2))
            remaining -= pieces[-1]
        waiting += [(closer, size), *(("open", piece - 2) for piece in reversed(pieces))]


TASKS = {
    task.name: task
    for task in (
        MemoryTask("remember-first", "which symbol came first, n words ago", remember_first, 1, 30),
        MemoryTask(
            "count-and-fire", "when to fire: after exactly as many words as were counted, n", count_and_fire, 1, 20
        ),
        MemoryTask("balanced-brackets", "which bracket is open, n words back", balanced_brackets, 0, 30, stride=2),
    )
}


DEFAULT_SEED = 1
DEFAULT_LINES = MappingProxyType({"train": 8_000, "valid": 500, "test": 1_000})


def lines(
    task: MemoryTask,
    count: int,
    seed: int = DEFAULT_SEED,
    part: str = "train",
    *,
    shortest: int | None = None,
    longest: int | None = None,
) -> Iterator[Line]:
    """`count` lines, n drawn evenly from `shortest` to `longest`, by default those of the task.

    The parts are different draws. Short lines are few, so the same one may well be in two parts: what is asked is not
    whether a line was seen before, but over how many steps something is kept.
    """
    spans = task.spans(shortest, longest)
    if not spans:
        raise OptionError(
            f"n from {shortest} to {longest} was requested; {task.name} has n from {task.shortest} to {task.longest}"
        )
    dice = Dice(f"{task.name} {part} {seed}")
    return (task.line(dice, dice.pick(spans)) for _ in range(count))


def text_of(
    task: MemoryTask,
    part: str = "train",
    *,
    count: int | None = None,
    seed: int = DEFAULT_SEED,
    shortest: int | None = None,
    longest: int | None = None,
) -> str:
    """A part of the corpus as text, one line each."""
    size = DEFAULT_LINES[part] if count is None else count
    return "".join(f"{line.text}\n" for line in lines(task, size, seed, part, shortest=shortest, longest=longest))
