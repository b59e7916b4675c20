"""The score of captions: how near they are to those that people wrote of the same pictures, by BLEU-1 to BLEU-4 and
CIDEr-D.

    BLEU-n = 100 exp(min(0, 1 - r / c)) (p_1 ... p_n)^(1/n)

p_k is the share of the k-grams of the answers that a reference has too, none counted more often than in the reference
that has it most; c counts the words of the answers, r those of the references nearest in length (Papineni and others
2002). As NLTK's `corpus_bleu` has it: without smoothing, and an answer too short for any k-gram counts as one miss.

    CIDEr-D = 10 mean_k mean_r exp(-(l - l_r)^2 / 2 sigma^2) sum_g min(w_g, w_rg) w_rg / (|w_k| |w_rk|)        sigma = 6

w_g = (how often g stands in the caption) (log N - log max(1, d_g)), where d_g of the N pictures have the k-gram g in a
reference; k = 1 .. 4 (Vedantam, Zitnick and Parikh 2015). As pycocoevalcap's `CiderScorer` has it, whose documents are
the references given, and whose lengths l count pairs of words. Tables often print 100 times this number.

Shapes: N pictures, each with an answer; R references of all of them; C captions, the answers before the references;
X kinds of k-gram by caption; S statistics that are summed over pictures.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.tasks.task import Headed

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = Sequence[str]

RULE = "lower case; words are runs of letters; digits and punctuation left out"
"""What counts as a word of a caption: BLEU and CIDEr-D compare only under one rule."""
ORDER = 4
SIGMA = 6.0
SCALE = 10.0
_ASCII = re.compile("[a-z]+")


def caption_words(text: str) -> list[str]:
    """The words of a caption by RULE.

    >>> caption_words("A tri-colored dog 's 2 toys .")
    ['a', 'tri', 'colored', 'dog', 's', 'toys']
    """
    if text.isascii():
        return _ASCII.findall(text.lower())
    written = unicodedata.normalize("NFC", text.lower())
    return "".join(sign if unicodedata.category(sign)[0] in "LM" else " " for sign in written).split()


@dataclass(frozen=True, eq=False)
class Grams:
    """The k-grams of one order: `gram_X`, of 0 to `kinds` - 1, stands `count_X` times in caption `caption_X`.

    Sorted by caption, then by k-gram.
    """

    caption_X: Integers
    gram_X: Integers
    count_X: Integers
    kinds: int


@dataclass(frozen=True, eq=False)
class CountedCaptions:
    """All k-grams of answers and references, by order; `picture_R` says which picture a reference is of, in order."""

    grams: tuple[Grams, ...]
    picture_R: Integers
    length_N: Integers
    length_R: Integers

    @property
    def pictures(self) -> int:
        return int(self.picture_R[-1]) + 1

    @property
    def begin_N(self) -> Integers:
        """Where the references of each picture begin."""
        return np.searchsorted(self.picture_R, np.arange(self.pictures))


def count_grams(captions: Sequence[Words], order: int = ORDER) -> tuple[Grams, ...]:
    """The k-grams of captions for k = 1 .. order: those of k words are those of k - 1 and one word more."""
    length_C = np.array([len(words) for words in captions], np.int64)
    ids: dict[str, int] = {}
    word_T = np.array([ids.setdefault(word, len(ids)) for words in captions for word in words], np.int64)
    caption_T = np.repeat(np.arange(len(captions)), length_C)
    left_T = np.repeat(np.cumsum(length_C), length_C) - np.arange(len(word_T))  # words up to the end, this one too
    gram_T, kinds = word_T, len(ids)
    counted = []
    for k in range(1, order + 1):
        if k > 1:
            longer_T = np.flatnonzero(left_T >= k)
            joined, gram_of_longer = np.unique(
                gram_T[longer_T] * max(1, len(ids)) + word_T[longer_T + k - 1], return_inverse=True
            )
            kinds, gram_T = len(joined), np.zeros_like(word_T)
            gram_T[longer_T] = gram_of_longer
        has_T = left_T >= k
        key_X, count_X = np.unique(caption_T[has_T] * max(1, kinds) + gram_T[has_T], return_counts=True)
        counted.append(Grams(key_X // max(1, kinds), key_X % max(1, kinds), count_X.astype(np.int64), kinds))
    return tuple(counted)


def count_captions(
    answers: Sequence[Words], references: Sequence[Sequence[Words]], order: int = ORDER
) -> CountedCaptions:
    """Answers and references as words, ready for both measures."""
    check_captions(answers, references)
    flat = [words for several in references for words in several]
    return CountedCaptions(
        count_grams([*answers, *flat], order),
        np.repeat(np.arange(len(references)), [len(several) for several in references]),
        np.array([len(words) for words in answers], np.int64),
        np.array([len(words) for words in flat], np.int64),
    )


def most_of_references(grams: Grams, picture_R: Integers, answers: int) -> tuple[Integers, Integers]:
    """Keys picture * kinds + gram, sorted, and how often the reference that has the k-gram most has it.

    The first `answers` captions of `grams` are none of the references.
    """
    begin = np.searchsorted(grams.caption_X, answers)
    key_X = picture_R[grams.caption_X[begin:] - answers] * grams.kinds + grams.gram_X[begin:]
    order_X = np.argsort(key_X, kind="stable")
    key_Y, first_Y = np.unique(key_X[order_X], return_index=True)
    count_X = grams.count_X[begin:][order_X]
    return key_Y, np.maximum.reduceat(count_X, first_Y) if len(first_Y) else count_X


def nearest_length(length_N: Integers, counted: CountedCaptions) -> Integers:
    """The length of the reference nearest in length to that of each answer, of equally near ones the shorter."""
    longest = int(max(counted.length_R.max(), length_N.max())) + 1
    away_R = np.abs(counted.length_R - length_N[counted.picture_R])
    nearest: Integers = np.minimum.reduceat(away_R * longest + counted.length_R, counted.begin_N) % longest
    return nearest


def bleu_statistics(counted: CountedCaptions) -> Floats:
    """What BLEU is made of, a picture a row, [N, S]: k-grams in common, k-grams of the answer (at least 1), both for
    k = 1 .. order; words of the answer, words of the reference nearest in length."""
    pictures = counted.pictures
    columns = []
    for grams in counted.grams:
        key_Y, most_Y = most_of_references(grams, counted.picture_R, pictures)
        end = np.searchsorted(grams.caption_X, pictures)
        picture_X, count_X = grams.caption_X[:end], grams.count_X[:end]
        allowed_X = _looked_up(picture_X * grams.kinds + grams.gram_X[:end], key_Y, most_Y.astype(np.float64))
        columns.append(np.bincount(picture_X, np.minimum(count_X, allowed_X), pictures))
    for k in range(1, len(counted.grams) + 1):
        columns.append(np.maximum(counted.length_N - k + 1, 1).astype(np.float64))
    lengths = (counted.length_N, nearest_length(counted.length_N, counted))
    return np.stack([*columns, *(length.astype(np.float64) for length in lengths)], axis=1)


def bleu_of_sums(sums_RS: Floats) -> Floats:
    """BLEU-1 to BLEU-order, 0 to 100, of sums of `bleu_statistics`, [R, order]."""
    order = (sums_RS.shape[1] - 2) // 2
    common_RO, possible_RO, words_R, near_R = np.split(sums_RS, [order, 2 * order, 2 * order + 1], axis=1)
    with np.errstate(divide="ignore"):
        log_RO = np.log(common_RO) - np.log(possible_RO)
        brevity_R = np.where(words_R > 0, np.minimum(0.0, 1 - near_R / np.maximum(words_R, 1)), -np.inf)
    scores_RO: Floats = 100 * np.exp(brevity_R + np.cumsum(log_RO, axis=1) / np.arange(1, order + 1))
    return scores_RO


def cider_of_each(counted: CountedCaptions) -> Floats:
    """CIDEr-D of every answer, [N]; documents are the pictures that `counted` has references of. One picture alone
    scores 0: every k-gram is common."""
    pictures, captions = counted.pictures, counted.pictures + len(counted.picture_R)
    similar_R = np.zeros(len(counted.picture_R))
    for grams in counted.grams:
        documents_Y, _ = most_of_references(grams, counted.picture_R, pictures)
        documents_G = np.bincount(documents_Y % max(1, grams.kinds), minlength=grams.kinds)
        weight_X = grams.count_X * (np.log(pictures) - np.log(np.maximum(1, documents_G)))[grams.gram_X]
        norm_C = np.sqrt(np.bincount(grams.caption_X, weight_X**2, captions))
        end = np.searchsorted(grams.caption_X, pictures)
        at_X = grams.caption_X[end:] - pictures
        key_X, gram_X = grams.caption_X[:end] * grams.kinds + grams.gram_X[:end], grams.gram_X[end:]
        answer_X = _looked_up(counted.picture_R[at_X] * grams.kinds + gram_X, key_X, weight_X[:end])
        common_R = np.bincount(at_X, np.minimum(answer_X, weight_X[end:]) * weight_X[end:], len(similar_R))
        norms_R = norm_C[:pictures][counted.picture_R] * norm_C[pictures:]
        similar_R += common_R / np.where(norms_R > 0, norms_R, 1.0)
    pairs_N, pairs_R = (np.maximum(length - 1, 0) for length in (counted.length_N, counted.length_R))
    similar_R *= np.exp(-((pairs_N[counted.picture_R] - pairs_R) ** 2) / (2 * SIGMA**2))
    total_N = np.bincount(counted.picture_R, similar_R, pictures)
    each_N: Floats = SCALE * total_N / len(counted.grams) / np.bincount(counted.picture_R, minlength=pictures)
    return each_N


def check_captions(answers: Sequence[object], references: Sequence[Sequence[object]]) -> None:
    """Raise unless there is an answer for each picture, and a reference at least."""
    for given, what in ((answers, "answers"), (references, "references")):
        if isinstance(given, str):
            raise OptionError(f"{what} is one string, expected a list with an entry for each picture; try [{what}]")
    if len(answers) != len(references):
        raise OptionError(
            f"there are {len(answers):,} captions and references of {len(references):,} pictures, expected as many"
        )
    if not references:
        raise EmptyCorpusError("there are no captions to judge; expected at least one")
    for row, several in enumerate(references):
        if isinstance(several, str):
            raise OptionError(
                f"the references of picture {row} are one string, expected a list of captions; try [[...]]"
            )
        if not len(several):
            raise OptionError(f"picture {row} has no reference, expected at least one; leave it out")


def _looked_up(key_X: Integers, known_Y: Integers, value_Y: Floats) -> Floats:
    """The value of every key among those that are known, which are sorted; 0 of one that is not."""
    if not len(known_Y):
        return np.zeros(len(key_X))
    at_X = np.minimum(np.searchsorted(known_Y, key_X), len(known_Y) - 1)
    values: Floats = np.where(known_Y[at_X] == key_X, value_Y[at_X], 0.0)
    return values


@dataclass(frozen=True)
class CaptionScore(Headed, Tabular):
    """BLEU-1 to BLEU-4 (0 to 100) and CIDEr-D (mostly 0 to 2) of `captions` answers, one a picture.

    `references` is how many captions of people a picture has on average, `distinct` how many different captions were
    given, `length` their mean number of words, `rule` what counts as a word.
    """

    headline = ("cider_d", "CIDEr-D")
    more_is_better = True

    bleu_1: float
    bleu_2: float
    bleu_3: float
    bleu_4: float
    cider_d: float
    captions: int
    references: float
    distinct: int
    length: float
    rule: str = RULE

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        return asdict(self)

    def to_rows(self) -> list[Row]:
        """One row."""
        return [asdict(self)]

    def line(self) -> str:
        """The figures that captioners are compared by, in one line."""
        return f"BLEU-1 {self.bleu_1:.1f}, BLEU-4 {self.bleu_4:.1f}, CIDEr-D {self.cider_d:.3f}"

    def __str__(self) -> str:
        return (
            f"BLEU-1 {self.bleu_1:.1f}, BLEU-2 {self.bleu_2:.1f}, BLEU-3 {self.bleu_3:.1f}, BLEU-4 {self.bleu_4:.1f}, "
            f"CIDEr-D {self.cider_d:.3f} over {self.captions:,} pictures, {self.references:.3g} references each\n"
            f"{self.distinct:,} different captions of {self.length:.1f} words on average ({self.rule})"
        )


def measure_captions(answers: Sequence[str], references: Sequence[Sequence[str]]) -> CaptionScore:
    """Captions, one a picture, against those that people wrote of it; what counts as a word is `caption_words`."""
    counted, words = counted_texts(answers, references)
    bleu_1, bleu_2, bleu_3, bleu_4 = bleu_of_sums(bleu_statistics(counted).sum(axis=0)[None])[0].tolist()
    return CaptionScore(
        bleu_1,
        bleu_2,
        bleu_3,
        bleu_4,
        cider_d=float(cider_of_each(counted).mean()),
        captions=len(answers),
        references=len(counted.picture_R) / len(answers),
        distinct=len(set(map(tuple, words))),
        length=float(counted.length_N.mean()),
    )


def counted_texts(
    answers: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[CountedCaptions, list[list[str]]]:
    """The k-grams of captions as they are written, and the words of the answers."""
    check_captions(answers, references)
    words = [caption_words(text) for text in answers]
    return count_captions(words, [[caption_words(text) for text in several] for several in references]), words
