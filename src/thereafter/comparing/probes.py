"""What a built-in corpus offers to be asked of every model that was trained on it: the contract, and the table.

The lines of such a corpus have something in them that must be remembered, and the corpus knows what. A probe turns
that into questions whose answers are known, and says in which words the answers are shown.

Corpora whose sentences know a pair of words that depend on each other ask for the form of the second: agreement,
reflexives, filler-gap (`evaluation.agreement` measures). Memory tasks ask what must be kept over n words of a generated
line (`inspection.memory` measures). A new corpus that knows the truth about its lines gets a row here, and
`thereafter compare` asks its questions; it knows no probe by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from thereafter.errors import OptionError
from thereafter.evaluation.agreement import (
    ATTRACTORS,
    BINS,
    CONGRUENCE,
    CONGRUENT,
    Tally,
    Verdicts,
    count_by,
    measure_agreement,
)
from thereafter.inspection.memory import answers
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.agreement import read_sentences
from thereafter.text.memory import DEFAULT_LINES, lines, task
from thereafter.text.sources import Source


@dataclass(frozen=True)
class ProbeWords:
    """How a probe is spoken of, in tables, pictures and advice.

    Of `agreement`, for instance: `items` are "sentences", `span` is "words in between", `answer` is "its verb".
    """

    heading: str
    """Over its section of a report."""
    x_label: str
    y_label: str
    caption: str
    """What is counted as right, a sentence."""
    remark: str
    """Who guesses, and why, a sentence."""
    lesson: str
    """What is to be learned: "No model has learned LESSON"."""
    answer: str
    """What is right or wrong: "ANSWER is right in 97 %"."""
    purpose: str = "Where words far apart depend on each other"
    """When the best model is the one to use: "PURPOSE, use lstm"."""
    items: str = "sentences"
    """What is counted, in the plural."""
    span: str = "words in between"
    """What a distance is a number of: "with 20 to 40 SPAN"."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, and which of the answers it counts."""

    label: str
    count: Callable[[Verdicts], Tally]


@dataclass(frozen=True)
class ProbeTable:
    """A table with a line for each model."""

    title: str
    columns: tuple[Column, ...]


Questions = Callable[[SentenceReader], Verdicts | None]
"""Questions about one test text: the answers of a model; None where it cannot be asked, as it reads other tokens."""


def name_span(low: int, high: int) -> str:
    """`3-5`, or `3` where both are the same."""
    return str(low) if low == high else f"{low}-{high}"


def distance_columns(bins: Sequence[tuple[int, int]], results: Sequence[Verdicts]) -> tuple[Column, ...]:
    """A column for each of the bins that the results reach."""
    longest = max((one.longest for one in results if one.distance), default=0)
    return tuple(
        Column(name_span(low, high), partial(Verdicts.between, shortest=low, longest=high))
        for low, high in bins
        if low <= longest
    )


NOUNS = ((0, 0), (1, 1), (2, 2), (3, 5), (6, 99))
"""Numbers of nouns between that are shown together, both ends included."""


def sentence_questions(name: str, test: Source) -> Questions | None:
    """Which of two forms is the likelier one, for each sentence of `NAME.test.txt` by the records beside it."""
    if len(test.files) != 1 or not test.files[0].name.startswith(f"{name}."):
        return None
    records = test.files[0].with_suffix(".jsonl")
    if not records.is_file():
        return None
    sentences = tuple(read_sentences(records))

    def ask(reader: SentenceReader) -> Verdicts:
        prepare = reader.prepare if reader.lower or reader.letters_only else None
        return measure_agreement(reader.model, reader.tokenizer, sentences, context=reader.context, prepare=prepare)

    return ask


def memory_questions(name: str, test: Source) -> Questions | None:
    """What came n words before, for all lines of a memory task; they are drawn again, a pure function of their seed."""
    if len(test.files) != 1 or not test.files[0].parent.name.startswith(f"{name}-"):
        return None
    drawn = tuple(lines(task(name), DEFAULT_LINES["test"], part="test"))
    if test.text() != "".join(f"{line.text}\n" for line in drawn):
        return None

    def ask(reader: SentenceReader) -> Verdicts | None:
        try:
            pairs = list(answers(reader, drawn))
        except OptionError:  # it reads other tokens than words, or does not know them
            return None
        counted = count_by((question.n for question, _ in pairs), (share for _, share in pairs))
        return Verdicts(dict(sorted(counted.items())))

    return ask


@dataclass(frozen=True)
class CorpusProbe:
    """Questions that a corpus can ask about itself, how they are spoken of, and the titles of their tables.

    `name` is that of the corpus; results are stored under it. `chance` is the share that guessing gets right; None
    where it is not the same over all distances. `find` gives the questions about a test text; None where the text is
    not one of this corpus. `has_number`: whether nouns in between can lead the second word of a pair astray, since it
    agrees in number with the first.
    """

    name: str
    words: ProbeWords
    by_distance: str
    by_nouns: str = ""
    find: Callable[[str, Source], Questions | None] = sentence_questions
    chance: float | None = 0.5
    has_number: bool = True

    def tables(self, results: Sequence[Verdicts]) -> list[ProbeTable]:
        """By distance; where nouns stand between, by their number too, and by the number of the last of them."""
        table = ProbeTable(self.by_distance, distance_columns(BINS, results))
        if not self.by_nouns:
            return [table]
        nouns = max((key for one in results for key in one.groups[ATTRACTORS] if isinstance(key, int)), default=0)
        columns = [Column("all", lambda verdicts: verdicts.overall)]
        columns += [
            Column(
                f"{name_span(low, min(high, nouns))} noun{'s' * (high != 1)}",
                partial(Verdicts.among, group=ATTRACTORS, lowest=low, highest=high),
            )
            for low, high in NOUNS
            if low <= nouns
        ]
        if self.has_number:
            columns += [
                Column(name, partial(Verdicts.under, group=CONGRUENT, key=name))
                for same, name in CONGRUENCE.items()
                if same is not None
            ]
        return [table, ProbeTable(self.by_nouns, tuple(columns))]


_PROBES = (
    CorpusProbe(
        "agreement",
        ProbeWords(
            heading="Agreement over a distance",
            x_label="words between subject and verb",
            y_label="verbs with the right number",
            caption="How often the model prefers the verb form that its subject asks for.",
            remark="Every noun's number is drawn by a coin, so a model that cannot see the subject can only guess.",
            lesson="what a word far back asks for",
            answer="its verb",
        ),
        "The verb's number by words between it and its subject",
        "The same by nouns between them, and by the number of the last of these",
    ),
    CorpusProbe(
        "reflexives",
        ProbeWords(
            heading="Reflexive pronouns over a distance",
            x_label="words between noun and pronoun",
            y_label="pronouns that fit their noun",
            caption="How often the model prefers the reflexive pronoun that fits the noun it refers to.",
            remark="Gender and number of the noun are drawn by a coin: a model that cannot see it can only guess.",
            lesson="whom a reflexive pronoun refers to",
            answer="its pronoun",
        ),
        "The reflexive pronoun by words between it and its noun",
        "The same by nouns between them, and by the number of the last of these",
    ),
    CorpusProbe(
        "filler-gap",
        ProbeWords(
            heading="Fillers and gaps over a distance",
            x_label="words between filler and gap",
            y_label="objects left out or said as the filler asks",
            caption="How often the model knows whether the object of a verb is missing.",
            remark="A coin decides whether the clause has a filler: without its first word a model can only guess.",
            lesson="whether a filler far back leaves a gap",
            answer="its object",
        ),
        "The verb's object, missing or not, by words between it and the word that decides",
        "The same by nouns between them",
        has_number=False,
    ),
    CorpusProbe(
        "remember-first",
        ProbeWords(
            heading="Remembering the first symbol",
            x_label="words between the symbol and its return",
            y_label="symbols that are right",
            caption="How often the model expects the symbol that the line began with.",
            remark="It is one of four, drawn evenly: a model that has forgotten it is right in a quarter of the lines.",
            items="questions",
            lesson="to keep a symbol",
            purpose="Where a symbol must be kept",
            answer="its symbol",
        ),
        "The symbol that comes back, by words between",
        find=memory_questions,
        chance=0.25,
    ),
    CorpusProbe(
        "count-and-fire",
        ProbeWords(
            heading="Counting",
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
        find=memory_questions,
        chance=None,
    ),
    CorpusProbe(
        "balanced-brackets",
        ProbeWords(
            heading="Closing brackets over a distance",
            x_label="words between the two brackets",
            y_label="brackets of the right kind",
            caption="How often the model expects the kind of bracket that was opened.",
            remark="The kind of every pair is drawn by a coin: a model that has forgotten it can only guess.",
            items="questions",
            lesson="which bracket is open",
            purpose="Where brackets must be closed",
            answer="its bracket",
        ),
        "The closing bracket by words between it and the opening one",
        find=memory_questions,
    ),
)


PROBES = {probe.name: probe for probe in _PROBES}

ALWAYS_STORED = ("agreement",)
"""The results that files have a key for whether they were measured or not: those of the first probe there was."""


def offered_questions(test: Source) -> dict[str, Questions]:
    """The questions that the corpus of a test text asks, by the name of their probe; none for any other text."""
    offered = {name: probe.find(name, test) for name, probe in PROBES.items()}
    return {name: questions for name, questions in offered.items() if questions is not None}
