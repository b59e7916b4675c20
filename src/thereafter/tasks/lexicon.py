"""Forms and their numbers: the words, characters or labels of a task, in one column or several.

Where the network of a task begins with a language model, `WordReading` reads words as that model does. A `word` model
takes what stands between spaces; a piece that it does not know is cut into words and marks, so that the "film." of
plain text is "film" and ".". A `prose` model takes its own pieces, words with the space before them. Plain text is
brought into the way the text of the language model was written first: training, scores and predictions alike.

`Wording` is one side of a sentence pair as ids: a tokenizer with an end mark. Id 0 ends a sentence and pads rows; the
ids of the tokenizer follow. White space is made single. Where spaces belong to words, one is put before the first word,
so that "the" is the same form everywhere in a sentence. What the tasks have in common that answer in sentences is here
too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.decoding.sources import AnswerSettings, decode_answers
from thereafter.errors import FormatError
from thereafter.inspection.trace import record
from thereafter.models.task_net import Memory
from thereafter.models.word_decoder import END, WordDecoder
from thereafter.tasks.answers import Fields, Shown
from thereafter.text.pretokenised import WritingStyle, style_of_forms, style_of_vocabulary
from thereafter.text.sources import Source
from thereafter.text.tokenizers import TOKENIZERS, tokenizer_from_json
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.tokenizers.forms import ProseTokenizer

_MARKS = 1
_END_FORM = "</s>"
_REMEMBERED_SENTENCES = 1 << 20  # sentences whose ids are kept: they come again every epoch
_SPACED = ("prose", "bpe", "wordpiece", "unigram")  # tokenizers whose words begin with their space


class Wording:
    """Sentences to ids and back: see `data.codecs.Codec`. `seen`: the tokens of the longest training sentence.

    >>> side = Wording.fit(["a cat", "a dog", "a cat"], "word", min_count=1)
    >>> side.decode(side.encode("a dog"))
    'a dog'
    """

    codec: ClassVar[str] = "sentences"

    def __init__(self, tokenizer: Tokenizer, *, lower: bool, longest: int, seen: int = 0) -> None:
        self.tokenizer, self.lower, self.longest, self.seen = tokenizer, lower, longest, seen
        self.as_written = False
        self._known: dict[str, NDArray[np.int64]] = {}

    @classmethod
    def fit(
        cls,
        sentences: Iterable[str],
        tokens: str,
        *,
        vocabulary: int = 0,
        min_count: int = 2,
        lower: bool = False,
        longest: int = 250,
    ) -> Wording:
        """The wording of training sentences; `vocabulary` forms at most, 0 has it chosen."""
        text = "".join(_normalise(sentence, tokens, lower) + "\n" for sentence in sentences)
        least = None if tokens == "unigram" else min_count  # its pieces are chosen by probability
        fitted = TOKENIZERS.load(tokens).fit(lambda: [text], min_count=least, max_size=vocabulary or None)
        return cls(fitted, lower=lower, longest=longest)

    def __len__(self) -> int:
        return _MARKS + len(self.tokenizer.vocabulary)

    @property
    def size(self) -> int:
        return len(self)

    def verbatim(self) -> Wording:
        """The same, for sentences that are read as they are written, whatever the training sentences were."""
        same = copy(self)
        same.as_written = True
        return same

    @property
    def style(self) -> WritingStyle | None:
        """How the sentences were written, where they were pre-tokenised."""
        return None if self.as_written else self._style

    @cached_property
    def _style(self) -> WritingStyle | None:
        style = style_of_vocabulary(self.tokenizer)
        return None if style is None else replace(style, sentence_lines=False)

    @property
    def unknown(self) -> int | None:
        """The id of forms that were never met, where there can be any."""
        return None if self.tokenizer.unknown_id is None else _MARKS + self.tokenizer.unknown_id

    def count(self, sentence: str) -> int:
        """The tokens of a sentence, however long it is."""
        return len(self._with_end(sentence)) - 1

    def encode(self, sentence: str) -> NDArray[np.int64]:
        """The ids of a sentence with its end; of one that is longer than `longest` the first so many, without it."""
        ids = self._with_end(sentence)
        return ids[: self.longest] if len(ids) - 1 > self.longest else ids

    def decode(self, ids: Sequence[int] | NDArray[np.int64]) -> str:
        """The sentence that ids spell; marks are left out."""
        return self.tokenizer.decode([number - _MARKS for number in ids if number >= _MARKS]).strip()

    def continuation(self, prompt: str, ids: Sequence[int], /) -> str:
        """The prompt with the text of ids after it, as a text that grows is spelled."""
        return self.tokenizer.continuation(prompt, [number - _MARKS for number in ids if number >= _MARKS])

    def forms(self, ids: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """Each id as a reader may be shown it."""
        piece = self.tokenizer.piece
        return [_END_FORM if number < _MARKS else piece(int(number) - _MARKS) for number in ids]

    def to_json(self) -> Table:
        """What `from_json` reads."""
        about = {"lower": self.lower, "longest": self.longest, "seen": self.seen}
        return {"tokenizer": self.tokenizer.to_json(), **about}

    @classmethod
    def from_json(cls, stored: Table) -> Wording:
        lower, longest, seen = (stored.get(name) for name in ("lower", "longest", "seen"))
        if type(lower) is not bool or type(longest) is not int or type(seen) is not int:
            raise FormatError("a wording of this run is damaged; expected lower, longest and seen; try training again")
        return cls(tokenizer_from_json(stored.get("tokenizer")), lower=lower, longest=longest, seen=seen)

    def _with_end(self, sentence: str) -> NDArray[np.int64]:
        """All ids of a sentence and the END; worked out once, and never written to."""
        ids = self._known.get(sentence)
        if ids is None:
            if len(self._known) >= _REMEMBERED_SENTENCES:
                self._known.clear()
            normal = _normalise(sentence, self.tokenizer.name, self.lower)
            ids = self._known[sentence] = np.append(self.tokenizer.encode(normal).astype(np.int64) + _MARKS, END)
            ids.flags.writeable = False
        return ids


def _normalise(sentence: str, tokens: str, lower: bool) -> str:
    text = " ".join((sentence.lower() if lower else sentence).split())
    return f" {text}" if tokens in _SPACED else text


def generators_of(questions: Iterable[tuple[int, ...]], settings: AnswerSettings) -> list[np.random.Generator] | None:
    """One for each question, of the seed and the question's own numbers, so that its batch does not matter; and of how
    often it came before, so that one asked several times has several answers. None where nothing is drawn."""
    if not settings.do_sample:
        return None
    if settings.seed is None:
        return [np.random.default_rng() for _ in questions]
    rngs, came = [], Counter[tuple[int, ...]]()
    for question in questions:
        rngs.append(np.random.default_rng([settings.seed, came[question], *question]))
        came[question] += 1
    return rngs


def shown_answer(net: WordDecoder, memory: Memory, words: Wording, about: Table) -> Shown:
    """The likeliest answer to the one source of a memory, with what the decoder did at each of its tokens."""
    (answer,) = decode_answers(net, memory, AnswerSettings())
    ids = np.array([*answer, END])
    traced = record(net.given(memory), ids, words.forms(ids), words.forms(range(len(words))))
    fields: Fields = {name: (traced.axes[name], array) for name, array in traced.arrays.items()}
    return Shown(traced.tokens, traced.vocabulary, fields, {"answer": words.decode(answer), **about})


PAD, UNKNOWN = "<pad>", "<unk>"
_REMEMBERED = 1 << 17  # words whose letters are kept, and texts that are rewritten: they come again every epoch


class Lexicon:
    """Numbers for forms: see `data.codecs.Codec`.

    With `open` ones the first two are padding and the unknown form; labels are closed.

    `counts`: how often training met each form, rare ones included; empty unless `fit` was asked to remember them.
    `reading`: how the language model reads words that the forms are from; None where the task reads them by itself.

    >>> words = Lexicon.fit({"the": 5, "cat": 1, "dog": 1}, min_count=2)
    >>> words.encode(["the", "cat"]).tolist(), len(words)
    ([2, 1], 3)
    """

    codec: ClassVar[str] = "forms"

    def __init__(
        self,
        forms: Sequence[str],
        *,
        opened: bool = True,
        counts: Mapping[str, int] | None = None,
        reading: WordReading | None = None,
    ) -> None:
        self.forms = [PAD, UNKNOWN, *forms] if opened else list(forms)
        self.opened = opened
        self.counts = dict(counts or {})
        self.reading = reading
        self.as_written = False
        self._spelled: dict[str, NDArray[np.int64]] = {}
        self._ids = {form: number for number, form in enumerate(self.forms)}
        if len(self._ids) != len(self.forms):
            raise FormatError("a lexicon holds a form twice; try training again")

    @classmethod
    def fit(
        cls, counts: Mapping[str, int], *, min_count: int = 1, opened: bool = True, remember: bool = False
    ) -> Lexicon:
        """The forms that were counted often enough, the most frequent first, equal ones by their spelling.

        With `remember` the counts stay with them.
        """
        kept = sorted((form for form, n in counts.items() if n >= min_count), key=lambda form: (-counts[form], form))
        forms = [form for form in kept if not (opened and form in (PAD, UNKNOWN))]
        return cls(forms, opened=opened, counts=counts if remember else None)

    def __len__(self) -> int:
        return len(self.forms)

    def verbatim(self) -> Lexicon:
        """The same forms, for texts that are read as they are written, whatever the training texts were."""
        same = copy(self)
        same.as_written = True
        return same

    def form(self, word: str) -> str:
        """What a word is called here: in lower case, or as the language model calls it."""
        return word.lower() if self.reading is None else self.reading.form(word, self)

    @property
    def style(self) -> WritingStyle | None:
        """How the text was written that the words are from, where it was pre-tokenised; a `reading` has its own."""
        return None if self.as_written or self.reading is not None else self._style

    @cached_property
    def _style(self) -> WritingStyle | None:
        style = style_of_forms(self.forms)
        return style if style is not None and (style.clitics or style.stripped) else None

    @property
    def size(self) -> int:
        return len(self.forms)

    def __contains__(self, form: object) -> bool:
        return form in self._ids

    def encode(self, forms: Iterable[str]) -> NDArray[np.int64]:
        """The number of each form, that of the unknown one where it was never met; of labels all must be known."""
        if self.opened:
            return np.array([self._ids.get(form, 1) for form in forms], np.int64)
        return np.array([self._ids[form] for form in forms], np.int64)

    def spell(self, word: str) -> NDArray[np.int64]:
        """The numbers of the letters of a word; worked out once for every word."""
        letters = self._spelled.get(word)
        if letters is None:
            if len(self._spelled) >= _REMEMBERED:
                self._spelled.clear()
            letters = self.encode(word)
            letters.flags.writeable = False  # every batch with this word is given the same array
            self._spelled[word] = letters
        return letters

    def decode(self, numbers: NDArray[np.generic]) -> list[str]:
        """The form of each number."""
        return [self.forms[int(number)] for number in np.asarray(numbers)]

    def to_json(self) -> Table:
        """What `from_json` reads."""
        stored: Table = {"open": self.opened, "forms": self.forms[2:] if self.opened else self.forms}
        stored |= {"counts": self.counts} if self.counts else {}
        return stored | ({} if self.reading is None else {"reading": self.reading.to_json()})

    @classmethod
    def from_json(cls, stored: Table) -> Lexicon:
        forms, opened = stored.get("forms"), stored.get("open")
        if not isinstance(forms, list) or not isinstance(opened, bool) or not all(isinstance(f, str) for f in forms):
            raise FormatError("a lexicon of this run is damaged; expected a list of forms; try training again")
        counts = stored.get("counts", {})
        if not isinstance(counts, dict) or not all(type(n) is int for n in counts.values()):
            raise FormatError("a lexicon of this run is damaged; expected a count for each form; try training again")
        reading = stored.get("reading")
        return cls(
            forms, opened=opened, counts=counts, reading=None if reading is None else WordReading.from_json(reading)
        )


def padded(rows: Sequence[NDArray[np.int64]], fill: int = 0) -> NDArray[np.int64]:
    """Rows of several lengths as one array, [rows, longest]."""
    flat = np.concatenate(rows) if rows else np.empty(0, np.int64)
    return laid_out(flat, np.array([len(row) for row in rows], np.int64), fill)


def laid_out(flat: NDArray[np.int64], lengths: NDArray[np.int64], fill: int = 0) -> NDArray[np.int64]:
    """Rows that lie one after the other as one array, [rows, longest].

    >>> laid_out(np.array([1, 2, 3]), np.array([1, 2])).tolist()
    [[1, 0], [2, 3]]
    """
    made = np.full((len(lengths), max(1, int(lengths.max(initial=0)))), fill, np.int64)
    made[np.arange(made.shape[1]) < lengths[:, None]] = flat
    return made


_DAMAGED = "the labels of this run are damaged; expected a list of labels for each column; try training again"


class ColumnLexicons:
    """Numbers for the labels of each column, such as the digit of a clip and its direction: see `data.codecs.Codec`.

    >>> columns = ColumnLexicons({"digit": ["1", "7"], "direction": ["E", "N"]})
    >>> columns.encode({"direction": "N", "digit": "1"}).tolist(), columns.size
    ([0, 1], 4)
    """

    codec: ClassVar[str] = "label-columns"

    def __init__(self, forms: Mapping[str, Sequence[str]]) -> None:
        self.columns = {name: Lexicon(labels, opened=False) for name, labels in forms.items()}

    @classmethod
    def fit(cls, columns: Mapping[str, Sequence[str]]) -> ColumnLexicons:
        """The labels that each column has, sorted."""
        return cls({name: sorted(set(labels)) for name, labels in columns.items()})

    @property
    def names(self) -> list[str]:
        """The columns in order."""
        return list(self.columns)

    @property
    def forms(self) -> dict[str, list[str]]:
        """The labels of each column."""
        return {name: lexicon.forms for name, lexicon in self.columns.items()}

    @property
    def counts(self) -> tuple[int, ...]:
        """How many labels each column has."""
        return tuple(len(lexicon) for lexicon in self.columns.values())

    @property
    def size(self) -> int:
        return sum(self.counts)

    def encode(self, labels: Mapping[str, str]) -> NDArray[np.int64]:
        """The number of the label in each column; all must be known."""
        return np.array([lexicon.encode([labels[name]])[0] for name, lexicon in self.columns.items()], np.int64)

    def encode_rows(self, rows: Sequence[Mapping[str, str]]) -> NDArray[np.int64]:
        """The numbers of several examples at once, [examples, columns]."""
        columns = [lexicon.encode(row[name] for row in rows) for name, lexicon in self.columns.items()]
        return np.stack(columns, axis=1)

    def decode(self, numbers: NDArray[np.generic]) -> dict[str, str]:
        """The label of each column."""
        pairs = zip(self.columns.items(), np.asarray(numbers).tolist(), strict=True)
        return {name: lexicon.forms[int(number)] for (name, lexicon), number in pairs}

    def to_json(self) -> Table:
        return {"columns": self.forms}

    @classmethod
    def from_json(cls, stored: Table) -> ColumnLexicons:
        columns = stored.get("columns")
        if not isinstance(columns, dict) or not columns:
            raise FormatError(_DAMAGED)
        for labels in columns.values():
            if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
                raise FormatError(_DAMAGED)
        return cls(columns)


READINGS = ("word", "prose")
"""The tokenizers whose forms are words."""
WORDS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[^\w\s]+|_+")
"""Words with their apostrophes, numbers and marks."""
_NOTHING = "<unk>"


@dataclass(frozen=True)
class WordReading:
    """The tokenizer of a language model, how it normalises text, and how the text it learned from was written.

    >>> WordReading("word", lower=True).cut("It was n't Good.", {"it", "was", "n't"})
    ['it', 'was', "n't", 'good', '.']
    >>> WordReading("prose").cut("the cat", {" the", " cat"})
    [' the', ' cat']
    """

    tokens: str
    lower: bool = False
    letters_only: bool = False
    style: WritingStyle | None = None

    def cut(self, text: str, known: Container[str], *, as_written: bool = False) -> list[str]:
        """The words of a text, at least one: an empty text is an unknown word. `as_written`: not by the style."""
        text = self._normalise(text)
        if self.style is not None and not as_written:
            text = _rewrite(self.style, text)
        if self.tokens == "word":
            pieces = text.split()
            words = [word for piece in pieces for word in ([piece] if piece in known else WORDS.findall(piece))]
        else:
            words = [self._spaced(piece, known) for piece in ProseTokenizer.forms_of(text)]
        return words or [_NOTHING]

    def form(self, word: str, known: Container[str]) -> str:
        """What one word of a sentence is called in the vocabulary."""
        word = self._normalise(word)
        return word if self.tokens == "word" else self._spaced(word, known)

    def _spaced(self, piece: str, known: Container[str]) -> str:
        """The form with a space before it, as inside a line, where that is the known one."""
        return f" {piece}" if piece not in known and f" {piece}" in known else piece

    def _normalise(self, text: str) -> str:
        if self.letters_only:
            return Source.of_text(text, lower=self.lower, letters_only=True).text().strip("\n")
        return text.lower() if self.lower else text

    def to_json(self) -> Table:
        """What `from_json` reads."""
        stored: Table = {"tokens": self.tokens, "lower": self.lower, "letters_only": self.letters_only}
        return stored | ({} if self.style is None else {"style": self.style.to_table()})

    @classmethod
    def from_json(cls, stored: object) -> WordReading:
        match stored:
            case {"tokens": str(tokens), "lower": bool(lower), "letters_only": bool(letters), **others} if (
                tokens in READINGS
            ):
                style = others.get("style")
                if style is None:
                    return cls(tokens, lower, letters)
                if isinstance(style, dict):
                    return cls(tokens, lower, letters, WritingStyle.from_table(style))
        raise FormatError("how a lexicon of this run reads words is damaged; try training again")


@lru_cache(maxsize=_REMEMBERED)
def _rewrite(style: WritingStyle, text: str) -> str:
    return style.rewritten(text)
