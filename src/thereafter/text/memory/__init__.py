"""Synthetic memory tasks: lines whose last words depend on what was read n steps before, and on nothing else.

Three tasks of growing demand: keep one symbol (`remember-first`), count (`count-and-fire`), keep a stack
(`balanced-brackets`). A line knows its questions, so that a trained model can be asked how far back it remembers.

>>> task("remember-first").line(Dice("an example"), 3).text
'b y x = b'
"""

from thereafter.text.agreement.dice import Dice
from thereafter.text.memory.generator import DEFAULT_LINES, DEFAULT_SEED, lines, text_of
from thereafter.text.memory.line import AnswerPlace, Line, Question
from thereafter.text.memory.tasks import TASKS, MemoryTask, task

__all__ = [
    "DEFAULT_LINES",
    "DEFAULT_SEED",
    "TASKS",
    "AnswerPlace",
    "Dice",
    "Line",
    "MemoryTask",
    "Question",
    "lines",
    "task",
    "text_of",
]
