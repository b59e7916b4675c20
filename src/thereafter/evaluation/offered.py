"""Which probes the built-in corpora offer: the table, and the questions about a test text.

Corpora whose sentences know a pair of words that depend on each other ask for the form of the second: agreement,
reflexives, filler-gap (`agreement.py` measures). Memory tasks ask what must be kept over n words of a generated line
(`inspection.memory` measures). A new corpus that knows the truth about its lines gets a row here, and
`thereafter compare` asks its questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thereafter.errors import OptionError
from thereafter.evaluation.agreement import ATTRACTORS, BINS, CONGRUENCE, CONGRUENT, measure_agreement
from thereafter.evaluation.corpus_probe import (
    Column,
    CorpusProbe,
    ProbeTable,
    ProbeWords,
    Questions,
    distance_columns,
    name_span,
)
from thereafter.evaluation.verdicts import Tally, Verdicts, count_by
from thereafter.inspection.memory import answers
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.agreement import Sentence, read_sentences
from thereafter.text.memory import DEFAULT_LINES, Line, lines, task
from thereafter.text.sources import Source

NOUNS = ((0, 0), (1, 1), (2, 2), (3, 5), (6, 99))
"""Numbers of nouns between that are shown together, both ends included."""
_CHANCE = 0.5  # each question is between two forms, and each is right as often as the other


@dataclass(frozen=True)
class DependencyQuestions:
    """For each sentence: which of two forms is the likelier one."""

    sentences: tuple[Sentence, ...]

    def ask(self, reader: SentenceReader) -> Verdicts:
        prepare = reader.prepare if reader.lower or reader.letters_only else None
        return measure_agreement(
            reader.model, reader.tokenizer, self.sentences, context=reader.context, prepare=prepare
        )


@dataclass(frozen=True)
class DependencyProbe:
    """How often a model knows the form that a word far back asks for, in a corpus of that name.

    `by_distance` and `by_nouns` are the titles of its two tables; `has_number`: whether nouns in between can lead the
    second word of the pair astray, since it agrees in number with the first.
    """

    name: str
    words: ProbeWords
    by_distance: str
    by_nouns: str
    has_number: bool = True

    @property
    def chance(self) -> float:
        return _CHANCE

    def questions(self, test: Source) -> DependencyQuestions | None:
        """The sentences of `NAME.test.txt`, by the records that the generator wrote beside it."""
        if len(test.files) != 1 or not test.files[0].name.startswith(f"{self.name}."):
            return None
        records = test.files[0].with_suffix(".jsonl")
        return DependencyQuestions(tuple(read_sentences(records))) if records.is_file() else None

    def tables(self, results: Sequence[Verdicts]) -> list[ProbeTable]:
        """By words between the two; by nouns between them, and by the number of the last where there is one."""
        nouns = max((key for one in results for key in one.groups[ATTRACTORS] if isinstance(key, int)), default=0)
        columns = [Column("all", lambda verdicts: verdicts.overall)]
        columns += [
            Column(f"{name_span(low, min(high, nouns))} noun{'s' * (high != 1)}", _with_nouns(low, high))
            for low, high in NOUNS
            if low <= nouns
        ]
        if self.has_number:
            columns += [Column(name, _with_last(name)) for same, name in CONGRUENCE.items() if same is not None]
        return [
            ProbeTable(self.by_distance, distance_columns(BINS, results)),
            ProbeTable(self.by_nouns, tuple(columns)),
        ]


def _with_nouns(low: int, high: int) -> Callable[[Verdicts], Tally]:
    return lambda verdicts: verdicts.among(ATTRACTORS, low, high)


def _with_last(name: str) -> Callable[[Verdicts], Tally]:
    return lambda verdicts: verdicts.under(CONGRUENT, name)


_PURPOSE = "Where words far apart depend on each other"

DEPENDENCIES = (
    DependencyProbe(
        "agreement",
        ProbeWords(
            heading="Agreement over a distance",
            title="Accuracy of the verb's number by distance",
            x_label="words between subject and verb",
            y_label="verbs with the right number",
            caption="How often the model prefers the verb form that its subject asks for.",
            remark="Every noun's number is drawn by a coin, so a model that cannot see the subject can only guess.",
            items="sentences",
            span="words in between",
            lesson="what a word far back asks for",
            purpose=_PURPOSE,
            answer="its verb",
        ),
        "The verb's number by words between it and its subject",
        "The same by nouns between them, and by the number of the last of these",
    ),
    DependencyProbe(
        "reflexives",
        ProbeWords(
            heading="Reflexive pronouns over a distance",
            title="Accuracy of the reflexive pronoun by distance",
            x_label="words between noun and pronoun",
            y_label="pronouns that fit their noun",
            caption="How often the model prefers the reflexive pronoun that fits the noun it refers to.",
            remark="Gender and number of the noun are drawn by a coin: a model that cannot see it can only guess.",
            items="sentences",
            span="words in between",
            lesson="whom a reflexive pronoun refers to",
            purpose=_PURPOSE,
            answer="its pronoun",
        ),
        "The reflexive pronoun by words between it and its noun",
        "The same by nouns between them, and by the number of the last of these",
    ),
    DependencyProbe(
        "filler-gap",
        ProbeWords(
            heading="Fillers and gaps over a distance",
            title="Accuracy of the verb's object by distance",
            x_label="words between filler and gap",
            y_label="objects left out or said as the filler asks",
            caption="How often the model knows whether the object of a verb is missing.",
            remark="A coin decides whether the clause has a filler: without its first word a model can only guess.",
            items="sentences",
            span="words in between",
            lesson="whether a filler far back leaves a gap",
            purpose=_PURPOSE,
            answer="its object",
        ),
        "The verb's object, missing or not, by words between it and the word that decides",
        "The same by nouns between them",
        has_number=False,
    ),
)


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


PROBES: dict[str, CorpusProbe] = {probe.name: probe for probe in (*DEPENDENCIES, *MEMORY_TASKS)}

ALWAYS_STORED = ("agreement",)
"""The results that files have a key for whether they were measured or not: those of the first probe there was."""


def offered_questions(test: Source) -> dict[str, Questions]:
    """The questions that the corpus of a test text asks, by the name of their probe; none for any other text."""
    offered = {name: probe.questions(test) for name, probe in PROBES.items()}
    return {name: questions for name, questions in offered.items() if questions is not None}
