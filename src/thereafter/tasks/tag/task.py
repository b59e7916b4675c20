"""The task `tag`: a tag for every word of a sentence, such as its part of speech or its place in a name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypedDict, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.data.finding import FileKind
from thereafter.errors import OptionError
from thereafter.tasks.answers import Shown, TaggedWords, TagsExplained
from thereafter.tasks.bodies import Body
from thereafter.tasks.lexicon import PAD, Lexicon, laid_out, padded
from thereafter.tasks.tag.chains import HiddenMarkov
from thereafter.tasks.tag.measures import ResampledTags, TaggingScore, measure_tagging
from thereafter.tasks.tag.network import TagBatch, Tagger, TaggerSettings
from thereafter.tasks.task import Asking, Baselines, Comparing, Explaining, OnBody, Tabulating, Task
from thereafter.text.conll import (
    TaggedSentence,
    WrittenSentence,
    read_tagged,
    require_known_tags,
    split_sentence,
    split_text,
)
from thereafter.text.pretokenised_words import ENGLISH, Habits, Splitter
from thereafter.text.sources import TAGGED_FILES

_RARE = 2  # words met less often are learned as the unknown one
_CUTTING = "text cut into sentences and words, marks apart (--pretokenised: a sentence a line, spaces between words)"
_MANY_TAGS = 400  # a table of three tags in a row would be too large
_SHOWN = 3  # tags of a word that an explanation names


class TagCodecs(TypedDict):
    """What numbers the parts of an example."""

    words: Lexicon
    letters: Lexicon
    tags: Lexicon


class Tagging(
    OnBody[TaggedSentence],
    Asking[TaggedSentence, TagCodecs],
    Tabulating[TaggedSentence, TagBatch, Tagger, list[str], TagCodecs],
    Explaining[TaggedSentence, TagBatch, Tagger, TagCodecs],
    Comparing[TaggedSentence, list[str], TagCodecs],
    Baselines[TaggedSentence, list[str]],
    Task[TaggerSettings, TaggedSentence, TagBatch, Tagger, list[str], TagCodecs],
):
    """See `task.Task`. Words are numbered without their case, which their letters keep."""

    name = "tag"
    kind = "tagged"
    settings = TaggerSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 12.0, "batch": 32, "rate": 2e-3, "steps": 40}
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"layers": ("", "step")}
    stack = "body"
    numbered = "sentence"
    mixed_on_gpu = True
    cuts_words = True
    file_kind: ClassVar[FileKind] = TAGGED_FILES

    def read(self, files: Sequence[Path]) -> list[TaggedSentence]:
        return [sentence for path in files for sentence in read_tagged(path)]

    def codecs(self, examples: Sequence[TaggedSentence]) -> TagCodecs:
        words = Counter(word.lower() for one in examples for word in one.words)
        letters = Counter(letter for one in examples for word in one.words for letter in word)
        tags = Counter(tag for one in examples for tag in one.tags)
        return {
            "words": Lexicon.fit(words, min_count=_RARE, remember=True),
            "letters": Lexicon.fit(letters),
            "tags": Lexicon.fit(tags, opened=False),
        }

    def body_settings(self, body: Body) -> Table:
        return {"body": body.sizes, "body_cell": body.cell, "embed": body.embed}

    def count_words(self, examples: Sequence[TaggedSentence], body: Body) -> Counter[str]:
        return Counter(body.reading.form(word, body.forms) for one in examples for word in one.words)

    def check(self, examples: Sequence[TaggedSentence], codecs: TagCodecs, name: str) -> None:
        require_known_tags(examples, codecs["tags"].forms, name)

    def build(self, settings: TaggerSettings, codecs: TagCodecs) -> Tagger:
        words, letters, tags = len(codecs["words"]), len(codecs["letters"]), len(codecs["tags"])
        return Tagger(settings, words=words, letters=letters, tags=tags)

    def lengths(self, examples: Sequence[TaggedSentence], codecs: TagCodecs) -> NDArray[np.int64]:
        return np.array([len(one) for one in examples], np.int64)

    def targets(self, examples: Sequence[TaggedSentence], codecs: TagCodecs) -> int:
        return sum(map(len, examples))

    def batch(self, examples: Sequence[TaggedSentence], codecs: TagCodecs) -> TagBatch:
        lengths = np.array([len(one) for one in examples], np.int64)
        words = [word for one in examples for word in one.words]
        distinct: dict[str, int] = {}
        spelled = np.array([distinct.setdefault(word, len(distinct)) for word in words], np.int64)
        # padding is spelled too, by the padding character: a word must have at least one
        spellings = [*map(codecs["letters"].spell, distinct), codecs["letters"].encode([PAD])]
        ids = codecs["words"].encode(map(codecs["words"].form, words))
        tags = None
        if all(one.tags for one in examples):
            tags_N = codecs["tags"].encode(tag for one in examples for tag in one.tags)
            tags = torch.from_numpy(laid_out(tags_N, lengths))
        return TagBatch(
            torch.from_numpy(laid_out(ids, lengths)),
            torch.from_numpy(lengths),
            torch.from_numpy(padded(spellings)),
            torch.tensor([len(letters) for letters in spellings]),
            torch.from_numpy(laid_out(spelled, lengths, fill=len(distinct))),
            tags,
        )

    def answers(self, net: Tagger, batch: TagBatch, codecs: TagCodecs) -> list[list[str]]:
        names = codecs["tags"].forms
        return [[names[tag] for tag in row] for row in net.decide(batch)]

    def explain(
        self, net: Tagger, batch: TagBatch, examples: Sequence[TaggedSentence], codecs: TagCodecs
    ) -> list[TagsExplained]:
        """The tags of every sentence with p of the likeliest ones of each word."""
        names, words = codecs["tags"].forms, codecs["words"]
        top = net.probabilities(batch).topk(min(_SHOWN, len(names)))
        rows = zip(examples, self.answers(net, batch, codecs), top.values.tolist(), top.indices.tolist(), strict=True)
        return [
            TagsExplained(
                one.words,
                tuple(tags),
                tuple(
                    tuple((names[tag], p) for tag, p in zip(best, ps, strict=True))
                    for best, ps in zip(best_TK[: len(one)], p_TK[: len(one)], strict=True)
                ),
                tuple(form in words for form in _forms(one, codecs)),
            )
            for one, tags, p_TK, best_TK in rows
        ]

    def shown(self, net: Tagger, batch: TagBatch, example: TaggedSentence, codecs: TagCodecs) -> Shown:
        tags = codecs["tags"].forms
        p_TK = net.probabilities(batch)[0].cpu().numpy()
        (answer,) = self.answers(net, batch, codecs)
        return Shown(list(example.words), list(tags), {"p": (("step", "tag"), p_TK)}, {"answer": answer})

    def example(self, given: object) -> TaggedSentence:
        """A sentence as people write it or with spaces between its words; or a `TaggedSentence`, whose tags are
        ignored."""
        return _without_tags(given) or _require_words(split_sentence(str(given)))

    def prepare(self, given: object, codecs: TagCodecs) -> TaggedSentence:
        ready = _without_tags(given)
        if ready is not None:
            return ready
        sentence = split_sentence(str(given), Splitter(habits_of(codecs["words"])))
        return reader_of(codecs["words"], codecs["letters"])(_require_words(sentence))

    def cut(
        self, chunks: Iterable[str], codecs: TagCodecs, *, pretokenised: bool = False
    ) -> Iterator[tuple[int, str, TaggedSentence]]:
        """Sentences, cut into words as the corpus of the tagger cuts them."""
        cutting = "a line is a sentence, with spaces between its words" if pretokenised else _CUTTING
        progress.note(f"words: {cutting}")
        habits, read = habits_of(codecs["words"]), reader_of(codecs["words"], codecs["letters"])
        sentences = split_text(chunks, pretokenised=pretokenised, habits=habits)
        for number, sentence in enumerate(sentences, start=1):
            yield number, sentence.text, read(sentence)

    def tabulate(
        self,
        net: Tagger,
        batch: TagBatch,
        texts: Sequence[str],
        examples: Sequence[TaggedSentence],
        codecs: TagCodecs,
        options: Mapping[str, object],
    ) -> list[TaggedWords]:
        """The tags of every sentence with their probabilities."""
        names = codecs["tags"].forms
        p_BTK = net.probabilities(batch)
        best_BT = p_BTK.argmax(-1).tolist() if net.crf is None else net.decide(batch)
        tagged = []
        for one, best_T, p_TK in zip(examples, best_BT, p_BTK.cpu().numpy(), strict=True):
            chosen_T = np.array(best_T[: len(one)], np.int64)
            p_T = p_TK[np.arange(len(one)), chosen_T].astype(np.float64)
            known = tuple(form in codecs["words"] for form in _forms(one, codecs))
            words, joined = (one.forms, one.joined) if isinstance(one, WrittenSentence) else (one.words, ())
            tags = tuple(names[tag] for tag in chosen_T.tolist())
            tagged.append(TaggedWords(words, tags, tuple(p_T.tolist()), known, joined or (False,) * len(one)))
        return tagged

    def choices(self, codecs: TagCodecs) -> list[str]:
        return codecs["tags"].forms

    def explain_probabilities(self, net: Tagger) -> str:
        if net.crf is None:
            return "probabilities are those of the softmax, each word's tag by itself"
        return "probabilities are the marginals of the CRF: of each word's tag, whatever the other tags are"

    def measure(
        self, examples: Sequence[TaggedSentence], answers: Sequence[Sequence[str]], codecs: TagCodecs
    ) -> TaggingScore:
        words = [_forms(one, codecs) for one in examples]
        # a word met once is learned as the unknown one, but it is not unknown: it is rare
        met = codecs["words"].counts or set(codecs["words"].forms)
        return measure_tagging([one.tags for one in examples], answers, words, met)

    def resampled(
        self, examples: Sequence[TaggedSentence], answers: Sequence[list[str]], codecs: TagCodecs
    ) -> ResampledTags:
        return ResampledTags.of([one.tags for one in examples], answers)

    def beside(
        self, learned: Sequence[TaggedSentence], asked: Sequence[TaggedSentence]
    ) -> Mapping[str, Callable[[], list[list[str]]]]:
        """A hidden Markov model with Viterbi (`tasks/tag/chains.py`)."""

        def hidden_markov() -> list[list[str]]:
            tags = {tag for one in learned for tag in one.tags}
            tagger = HiddenMarkov(order=2 if len(tags) <= _MANY_TAGS else 1)
            tagger.fit((one.words, one.tags) for one in learned)
            return [tagger.tag(one.words) for one in asked]

        return {"hidden Markov model": hidden_markov}


def _without_tags(given: object) -> TaggedSentence | None:
    """A sentence that is cut into words already; None for anything else."""
    if not isinstance(given, TaggedSentence):
        return None
    return given if isinstance(given, WrittenSentence) else _require_words(TaggedSentence(given.words, ()))


Sentence = TypeVar("Sentence", bound=TaggedSentence)


def _require_words(sentence: Sentence) -> Sentence:
    if not sentence.words:
        raise OptionError("a sentence to tag has no words; expected at least one; try 'the cat sat'")
    return sentence


def _forms(one: TaggedSentence, codecs: TagCodecs) -> list[str]:
    """The words of a sentence as they are numbered: without their case, or as a language model reads them."""
    return [codecs["words"].form(word) for word in one.words]


TAGGING = Tagging()


# How a tagger reads text that is not of its corpus: words cut as its corpus cuts them, marks as it knows them.
#
# Both are read off its lexicons. A corpus that has `-` as a word more often than words with a hyphen in them cuts at
# hyphens; one that has `don't` does not cut clitics. A mark that the tagger never met, such as “ in a book, is read as
# the one it did meet.


_HYPHENATED = re.compile(r"[^\W\d_]{2,}(?:-[^\W\d_]{2,})+")
_NEGATED = re.compile(r"[^\W\d_]{2,}n't")
_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "—": "-", "–": "-", "…": "...", "\u2011": "-"})
_OPENING = {"“": ("``", '"'), '"': ("``",), "‘": ("`", "'"), "(": ("-lrb-",), "[": ("-lsb-",), "{": ("-lcb-",)}
_CLOSING = {"”": ("''", '"'), '"': ("''",), "’": ("'",), ")": ("-rrb-",), "]": ("-rsb-",), "}": ("-rcb-",)}
_DASHES = {"—": ("—", "--", "–", "-"), "–": ("–", "--", "-"), "--": ("--", "—", "-"), "…": ("...",)}


def habits_of(words: Lexicon) -> Habits:
    """How the corpus of a tagger cuts words; where its words do not say, as Universal Dependencies has English."""
    if words.as_written:
        return ENGLISH
    counts = Counter[str]()  # without the space that a language model may have before a word
    for form, count in (words.counts or dict.fromkeys(words.forms, 1)).items():
        counts[form.strip()] += count
    hyphenated = sum(count for form, count in counts.items() if "-" in form and _HYPHENATED.fullmatch(form))
    clitics = ENGLISH.clitics
    if "n't" not in counts and any(map(_NEGATED.fullmatch, counts)):
        clitics = ""
    elif "n't" not in counts and "'t" in counts:
        clitics = "'t"
    return replace(ENGLISH, clitics=clitics, hyphens="split" if counts.get("-", 0) > hyphenated else "joined")


def reader_of(words: Lexicon, letters: Lexicon) -> Callable[[WrittenSentence], WrittenSentence]:
    """A function that gives a sentence with its words as the tagger knows them; `written` keeps them as they stood."""
    remembered: dict[tuple[str, bool], str] = {}

    def form(word: str, opening: bool) -> str:
        if words.as_written or words.form(word) in words:
            return word
        marks = (_OPENING if opening else _CLOSING).get(word, ()) + _DASHES.get(word, ())
        bare = word.strip("_*") or word  # underscores and stars are the italics of plain text
        for candidate in (*marks, bare, bare.translate(_TYPED)):
            if words.form(candidate) in words:
                return candidate
        return bare.translate(_TYPED) if any(letter not in letters for letter in bare) else bare

    def read(sentence: WrittenSentence) -> WrittenSentence:
        forms = []
        for word, close in zip(sentence.forms, sentence.joined, strict=True):
            if (word, close) not in remembered:
                remembered[word, close] = form(word, opening=close)
            forms.append(remembered[word, close])
        return replace(sentence, words=tuple(forms), written=sentence.forms)

    return read
