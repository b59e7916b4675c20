"""The probes of the memory tasks: what must be kept over n words of a generated line. `inspection.memory` measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thereafter.errors import OptionError
from thereafter.evaluation.agreement import BINS
from thereafter.evaluation.corpus_probe import ProbeTable, ProbeWords, distance_columns
from thereafter.evaluation.verdicts import Verdicts, count_by
from thereafter.inspection.memory import answers
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.memory import DEFAULT_LINES, Line, lines, task
from thereafter.text.sources import Source

_PART = "test"


@dataclass(frozen=True)
class MemoryQuestions:
    """All questions of the lines of a test text."""

    lines: tuple[Line, ...]

    def ask(self, reader: SentenceReader) -> Verdicts | None:
        try:
            pairs = list(answers(reader, self.lines))
        except OptionError:  # it reads other tokens than words, or does not know them
            return None
        counted = count_by((question.n for question, _ in pairs), (share for _, share in pairs))
        return Verdicts(dict(sorted(counted.items())))


@dataclass(frozen=True)
class MemoryProbe:
    """How often a model knows what came n words before, in the memory task of that name."""

    name: str
    words: ProbeWords
    by_distance: str
    chance: float | None

    def questions(self, test: Source) -> MemoryQuestions | None:
        """The questions of the lines, drawn again: the corpus is a pure function of its seed."""
        if len(test.files) != 1 or not test.files[0].parent.name.startswith(f"{self.name}-"):
            return None
        drawn = tuple(lines(task(self.name), DEFAULT_LINES[_PART], part=_PART))
        return MemoryQuestions(drawn) if test.text() == "".join(f"{line.text}\n" for line in drawn) else None

    def tables(self, results: Sequence[Verdicts]) -> list[ProbeTable]:
        """By words to remember over."""
        return [ProbeTable(self.by_distance, distance_columns(BINS, results))]


MEMORY_TASKS = (
    MemoryProbe(
        "remember-first",
        ProbeWords(
            heading="Remembering the first symbol",
            title="Accuracy of the symbol that comes back, by distance",
            x_label="words between the symbol and its return",
            y_label="symbols that are right",
            caption="How often the model expects the symbol that the line began with.",
            remark="It is one of four, drawn evenly: a model that has forgotten it is right in a quarter of the lines.",
            items="questions",
            span="words in between",
            lesson="to keep a symbol",
            purpose="Where a symbol must be kept",
            answer="its symbol",
        ),
        "The symbol that comes back, by words between",
        chance=0.25,
    ),
    MemoryProbe(
        "count-and-fire",
        ProbeWords(
            heading="Counting",
            title="Accuracy of counting, by how far",
            x_label="words to count",
            y_label="lines that are right in every word",
            caption="How often the model expects the mark after as many words as it has counted, and not before.",
            remark="Every word of the answer must be right, so guessing is soon of no use.",
            items="questions",
            span="words to count",
            lesson="to count",
            purpose="Where something must be counted",
            answer="its count",
        ),
        "Counting, by the number of words",
        chance=None,
    ),
    MemoryProbe(
        "balanced-brackets",
        ProbeWords(
            heading="Closing brackets over a distance",
            title="Accuracy of the closing bracket by distance",
            x_label="words between the two brackets",
            y_label="brackets of the right kind",
            caption="How often the model expects the kind of bracket that was opened.",
            remark="The kind of every pair is drawn by a coin: a model that has forgotten it can only guess.",
            items="questions",
            span="words in between",
            lesson="which bracket is open",
            purpose="Where brackets must be closed",
            answer="its bracket",
        ),
        "The closing bracket by words between it and the opening one",
        chance=0.5,
    ),
)
