"""The seeded stream of sentences, and the corpora made of it: what each mixes, and how it is written to files.

A sentence's text alone decides which part it belongs to, so all seeds and sizes agree. A corpus keeps one long
dependency. Every question in it is between two forms, and each form is the right one of such a pair as often as the
other, so that any rule that does not look at the opener is right half the time. A corpus is plain text for models, and
beside each part a `.jsonl` with the dependency of every line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from thereafter.base import progress
from thereafter.base.storage import replacing
from thereafter.errors import FormatError, OptionError, SourceError, UnknownNameError
from thereafter.text.agreement.frames import FRAMES, Frame
from thereafter.text.agreement.grammar import Dice, Phrases
from thereafter.text.agreement.lexicon import lexicon, neutral_forms
from thereafter.text.agreement.sentence import Sentence, from_record

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = get_args(Part)

# One stream of sentences is dealt out to the parts. The default sizes are 87 : 4 : 9; a smaller share for training
# costs some draws when the corpus is written, and saves many whenever a held-out part is streamed by itself.
_BUCKETS: tuple[Part, ...] = ("train",) * 14 + ("valid",) * 2 + ("test",) * 4


def neutral_text(words: tuple[str, ...]) -> str:
    """The sentence with every choice of number (and of bracket, and of or/nor) taken out."""
    table = neutral_forms()
    return " ".join(map(table.get, words, words))  # a word that is not in the table stays itself


def part_of(words: tuple[str, ...]) -> Part:
    """The part a sentence belongs to.

    Hashing the neutral text has two uses. A held-out sentence is never a training sentence with a number changed.
    And the part says nothing about number: were the plain text hashed, a sentence held out would mean that its
    counterpart in the other number is in training more often than not, and a model could be led *below* chance.
    """
    digest = blake2b(neutral_text(words).encode(), digest_size=8).digest()
    return _BUCKETS[int.from_bytes(digest, "big") % len(_BUCKETS)]


DEFAULT_SEED = 1
DEFAULT_SENTENCES = MappingProxyType({"train": 40_000, "valid": 2_000, "test": 4_000})
LONGEST = 40


def sentences(
    count: int | None,
    seed: int = DEFAULT_SEED,
    part: Part = "train",
    pairs: Iterable[str] = ("agreement",),
    max_distance: int = LONGEST,
    min_distance: int = 0,
) -> Iterator[Sentence]:
    """A stream of `count` sentences (None: without end), each with its dependency; memory does not grow with it.

    `pairs` names the kinds to mix, in equal shares: agreement, reflexive, reflexive-gender, filler-gap, either-or,
    quotes, brackets. Distances are drawn evenly from `min_distance` to `max_distance` words (from 1 for reflexives,
    quotes and brackets, from 2 for either-or and 3 for filler-gap, which need that many). A longer stream begins with
    the shorter one. Sentences of different parts are different, whatever the seeds: see `parts.part_of`.

    >>> [one] = sentences(1, seed=7, part="test", max_distance=3)
    >>> one.correct_form in one.right.split(), 0 <= one.distance <= 3
    (True, True)
    """
    if count is not None and (not isinstance(count, int) or count < 0):
        raise OptionError(f"the number of sentences is {count!r}; expected 0 or more, or None for an endless stream")
    if part not in PARTS:
        raise UnknownNameError("part of the agreement corpus", str(part), PARTS)
    stream = deal(seed, pairs, max_distance, min_distance)
    return islice((sentence for belongs, sentence in stream if belongs == part), count)


def deal(seed: int, pairs: Iterable[str], max_distance: int, min_distance: int) -> Iterator[tuple[Part, Sentence]]:
    """The endless stream of a seed, each sentence with the part it belongs to; options are checked at once."""
    kinds = _check_kinds(pairs)
    whole = isinstance(min_distance, int) and isinstance(max_distance, int)
    if not (whole and 0 <= min_distance <= max_distance <= LONGEST):
        raise OptionError(
            f"distances from {min_distance!r} to {max_distance!r} words were requested; expected whole numbers with "
            f"0 <= min_distance <= max_distance <= {LONGEST}, for instance min_distance=0, max_distance={LONGEST}"
        )
    for kind in kinds:
        if FRAMES[kind].shortest > max_distance:
            raise OptionError(
                f"a sentence of kind {kind!r} has at least {FRAMES[kind].shortest} words between its pair, but "
                f"max_distance is {max_distance}; try max_distance={LONGEST} or leave that kind out"
            )
    return _endless(Dice(f"agreement {seed}"), kinds, min_distance, max_distance)


def _check_kinds(pairs: Iterable[str]) -> tuple[str, ...]:
    # A lone name is surely meant as a list of one, not as its characters.
    kinds = tuple(dict.fromkeys([pairs] if isinstance(pairs, str) else pairs))
    for kind in kinds:
        if kind not in FRAMES:
            raise UnknownNameError("kind of pair", str(kind), FRAMES)
    if not kinds:
        raise OptionError(f"pairs is empty; expected one or more of {', '.join(FRAMES)}")
    return kinds


def _endless(dice: Dice, kinds: tuple[str, ...], shortest: int, longest: int) -> Iterator[tuple[Part, Sentence]]:
    vocabulary = lexicon()
    while True:
        frame = FRAMES[dice.pick(kinds)]
        distance = dice.between(max(shortest, frame.shortest), longest)
        sentence = frame.make(Phrases(dice, vocabulary), distance)
        yield part_of(_neutral_pair(sentence, frame)), sentence


def _neutral_pair(sentence: Sentence, frame: Frame) -> tuple[str, ...]:
    """The words by which the part is decided: those of the pair replaced where the table of words cannot do it."""
    if frame.neutral is None:
        return sentence.words
    words = list(sentence.words)
    words[sentence.opener], words[sentence.closer] = frame.neutral
    return tuple(words)


_FEWER = MappingProxyType({"train": 20_000, "valid": 1_000, "test": 2_000})


@dataclass(frozen=True)
class SentenceCorpus:
    """A built-in corpus by its name; `question` says what its sentences ask a model."""

    name: str
    question: str
    pairs: tuple[str, ...]
    max_distance: int = LONGEST
    sizes: Mapping[str, int] = field(default_factory=lambda: DEFAULT_SENTENCES)

    def sentences(
        self, count: int, *, seed: int, part: Part = "test", longest: int | None = None
    ) -> Iterator[Sentence]:
        """New sentences of this sort, with up to `longest` words between them; default: the maximum of the corpus."""
        most = self.max_distance if longest is None else longest
        return sentences(count, seed=seed, part=part, pairs=self.pairs, max_distance=most)


CORPORA = {
    corpus.name: corpus
    for corpus in (
        SentenceCorpus("agreement", "which number the verb has", ("agreement",)),
        # half of the pairs differ in number and half in gender
        SentenceCorpus("reflexives", "whose reflexive pronoun comes", ("reflexive", "reflexive-gender"), 20, _FEWER),
        SentenceCorpus("filler-gap", "whether the verb's object is missing", ("filler-gap",), 20, _FEWER),
    )
}


def sentence_corpus(name: str) -> SentenceCorpus:
    """The corpus of that name; UnknownNameError with the nearest ones for any other.

    >>> next(sentence_corpus("filler-gap").sentences(1, seed=0)).kind
    'filler-gap'
    """
    if name not in CORPORA:
        raise UnknownNameError("corpus of sentences that know their dependency", name, CORPORA)
    return CORPORA[name]


def write_corpus(
    folder: Path,
    *,
    seed: int = DEFAULT_SEED,
    sizes: Mapping[str, int] = DEFAULT_SENTENCES,
    pairs: Iterable[str] = ("agreement",),
    max_distance: int = LONGEST,
    min_distance: int = 0,
    name: str = "agreement",
) -> dict[str, Path]:
    """Write `NAME.train.txt`, `.valid.txt` and `.test.txt`, each with its `.jsonl`; the text files by part.

    Files are written aside and moved into place once all are complete, so a reader never meets half a corpus.
    """
    for part, size in sizes.items():
        if part not in PARTS:
            raise UnknownNameError("part of the agreement corpus", str(part), PARTS)
        if not isinstance(size, int) or size < 0:
            raise OptionError(f"the size of part {part!r} is {size!r}; expected a number of sentences, 0 or more")
    stream = deal(seed, pairs, max_distance, min_distance)
    texts = {str(part): folder / f"{name}.{part}.txt" for part in PARTS if part in sizes}
    with ExitStack() as aside:  # what is entered last is moved first: the records of a part, then its text
        places = {
            part: tuple(aside.enter_context(replacing(path)) for path in (text, text.with_suffix(".jsonl")))
            for part, text in texts.items()
        }
        _write_parts(stream, dict(sizes), places, f"{name} corpus")
    return texts


def read_sentences(path: Path) -> Iterator[Sentence]:
    """The sentences of a `.jsonl` file that `write_corpus` wrote, one after the other."""
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = json.loads(line)
                except ValueError as fault:
                    raise FormatError(
                        f"line {number} of {path} is not JSON ({fault}); write the corpus again"
                    ) from fault
                yield from_record(record)
    except OSError as fault:
        raise SourceError(
            f"{path} could not be read: {fault.strerror or fault}; write_corpus makes such files, one for each part"
        ) from fault


def _write_parts(
    stream: Iterator[tuple[Part, Sentence]], wanted: dict[str, int], places: dict[str, tuple[Path, ...]], label: str
) -> None:
    """Deal the stream out to the files of its parts (text, records) until each has what it wants."""
    with ExitStack() as files, progress.task(label, total=sum(wanted.values()), unit="sentences") as advance:
        pens = {
            part: tuple(files.enter_context(open(path, "w", encoding="utf-8", newline="\n")) for path in paths)
            for part, paths in places.items()
        }
        while any(wanted.values()):
            part, sentence = next(stream)
            if not wanted.get(part):
                continue
            text, records = pens[part]
            text.write(sentence.text + "\n")
            records.write(json.dumps(sentence.record(), ensure_ascii=False) + "\n")
            wanted[part] -= 1
            advance(1)
