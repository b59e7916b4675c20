"""How good translations are: BLEU and chrF, counted by sacreBLEU, and BLEU by the length of the source.

    BLEU = 100 exp(min(0, 1 - reference words / words)) (p_1 p_2 p_3 p_4)^(1/4)

with p_n the share of n-grams that the reference has too, none counted more often than it has it, over the whole corpus
(Papineni and others 2002). chrF is the F2 of character n-grams of order 1 to 6 (Popović 2015). Both compare plain text,
as a reader would see it: "detokenised". sacreBLEU (Post 2018) cuts it into words by its own rules, `13a`, so that
scores compare; the signature says so and belongs beside every number.

`Pairs` has the share of answers that are exactly right beside them. Its `words` is the share of the places of all
references at which an answer has the same word: a figure for tasks that have one right answer, such as a reversed
sequence. A translation is measured by BLEU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.packages import installed, require
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.evaluation.bootstrap import Floats

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

BINS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, None))
"""Lengths of sources that are shown together, both ends included; None is without end."""


@dataclass(frozen=True)
class LengthBin:
    """BLEU over the sentences whose sources have `low` to `high` words; 0 where no translation has four words."""

    low: int
    high: int | None
    sentences: int
    bleu: float

    @property
    def name(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class Translation(Tabular):
    """The scores of a corpus, 0 to 100. `precisions` are BLEU's p_1 to p_4; `ratio` is words to reference words."""

    bleu: float
    chrf: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    ratio: float
    sentences: int
    bleu_signature: str
    chrf_signature: str
    by_length: tuple[LengthBin, ...] = ()

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        figures = asdict(self)
        return figures | {"precisions": list(self.precisions), "by_length": [asdict(one) for one in self.by_length]}

    def to_rows(self) -> list[Row]:
        """A row for all sentences and one for each bin of source lengths, which has no chrF."""
        whole: Row = {"words_of_source": "all", "sentences": self.sentences, "bleu": self.bleu, "chrf": self.chrf}
        return [whole] + [
            {"words_of_source": one.name, "sentences": one.sentences, "bleu": one.bleu, "chrf": None}
            for one in self.by_length
        ]

    def __str__(self) -> str:
        return (
            f"BLEU {self.bleu:.2f} ({self.bleu_signature}), chrF {self.chrf:.2f} ({self.chrf_signature}) "
            f"over {self.sentences:,} sentences"
        )


def measure_translation(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    sources: Sequence[str | Sequence[str]] | None = None,
    bins: Sequence[tuple[int, int | None]] = BINS,
) -> Translation:
    """BLEU (13a) and chrF of detokenised translations against one reference each.

    With `sources`, BLEU by their length: words between white space, or tokens where a source is a list of them. Bins
    that no source falls into are left out.
    """
    _check(hypotheses, references, "references")
    metrics = _sacrebleu().metrics
    # force: sacreBLEU would complain about tokenised text through logging; a note says it instead
    bleu = metrics.BLEU(tokenize="13a", lowercase=lowercase, force=True)
    chrf = metrics.CHRF(lowercase=lowercase)
    words, characters = (metric.corpus_score(list(hypotheses), [list(references)]) for metric in (bleu, chrf))
    if sum(line.rstrip().endswith(" .") for line in hypotheses) > len(hypotheses) / 2:
        progress.note("most translations end in ' .', as tokenised text does; BLEU is meant for detokenised text")
    return Translation(
        bleu=float(words.score),
        chrf=float(characters.score),
        precisions=tuple(map(float, words.precisions)),
        brevity_penalty=float(words.bp),
        ratio=float(words.ratio),
        sentences=len(hypotheses),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        by_length=() if sources is None else bleu_by_length(hypotheses, references, sources, lowercase, bins),
    )


def bleu_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str | Sequence[str]],
    lowercase: bool = False,
    bins: Sequence[tuple[int, int | None]] = BINS,
) -> tuple[LengthBin, ...]:
    """Corpus BLEU of the sentences in each bin of source lengths that has any."""
    _check(hypotheses, references, "references")
    _check(hypotheses, sources, "sources")
    lengths = [len(source.split()) if isinstance(source, str) else len(source) for source in sources]
    bleu = _sacrebleu().metrics.BLEU(tokenize="13a", lowercase=lowercase, force=True)
    scored: list[LengthBin] = []
    for low, high in bins:
        rows = [row for row, length in enumerate(lengths) if low <= length and (high is None or length <= high)]
        if rows:
            score = bleu.corpus_score([hypotheses[row] for row in rows], [[references[row] for row in rows]])
            scored.append(LengthBin(low, high, len(rows), float(score.score)))
    return tuple(scored)


def _sacrebleu() -> ModuleType:
    return require("sacrebleu", "measuring translations (BLEU, chrF)")


def _check(hypotheses: Sequence[str], others: Sequence[object], name: str) -> None:
    for sentences, what in ((hypotheses, "hypotheses"), (others, name)):
        if isinstance(sentences, str):
            raise OptionError(f"{what} is one string, expected a list of sentences; try [{what}]")
    if len(hypotheses) != len(others):
        raise OptionError(f"there are {len(hypotheses):,} translations and {len(others):,} {name}, expected as many")
    if not hypotheses:
        raise EmptyCorpusError("there are no translations to judge; expected at least one")


@dataclass(frozen=True)
class Pairs(Tabular):
    """Shares from 0 to 1; `translation` is None where sacreBLEU is not installed. `answers` are those measured."""

    exact: float
    words: float
    sentences: int
    translation: Translation | None = None
    answers: tuple[str, ...] = field(default=(), repr=False)

    def as_dict(self) -> Table:
        """All figures and the answers, for JSON."""
        figures: Table = {"exact": self.exact, "words": self.words, "sentences": self.sentences}
        return figures | (self.translation.as_dict() if self.translation else {}) | {"answers": list(self.answers)}

    def to_rows(self) -> list[Row]:
        """A row for all sentences; with BLEU, one for each bin of source lengths too, which has BLEU alone."""
        shares: Row = {"exact": self.exact, "words": self.words}
        if self.translation is None:
            return [{"words_of_source": "all", "sentences": self.sentences} | shares]
        whole, *bins = self.translation.to_rows()
        return [whole | shares] + [one | dict.fromkeys(shares) for one in bins]

    def __str__(self) -> str:
        shares = f"{self.exact:.1%} exact, {self.words:.1%} of words in their places"
        if self.translation is not None:
            return f"{self.translation}; {shares}"
        return f"{shares} over {self.sentences:,} sentences (no BLEU: sacrebleu is not installed)"


def measure_pairs(
    answers: Sequence[str], references: Sequence[str], sources: Sequence[str], *, lowercase: bool = False
) -> Pairs:
    """Answers against one reference each; white space between words does not matter for `exact` and `words`."""
    answered, expected = (
        [(text.lower() if lowercase else text).split() for text in texts] for texts in (answers, references)
    )
    right = sum(a == b for one, other in zip(answered, expected, strict=True) for a, b in zip(one, other, strict=False))
    translation = None
    if installed("sacrebleu"):
        translation = measure_translation(answers, references, lowercase=lowercase, sources=sources)
    exact = sum(one == other for one, other in zip(answered, expected, strict=True))
    words = right / max(1, sum(map(len, expected)))
    return Pairs(exact / max(1, len(expected)), words, len(expected), translation, tuple(answers))


@dataclass(frozen=True, eq=False)
class ResampledTranslations:
    """Exact answers, and BLEU and chrF where sacreBLEU is installed: its own statistics, and its own scores of them."""

    statistics_NS: Floats
    widths: tuple[int, ...]
    lowercase: bool

    @classmethod
    def of(cls, answers: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> ResampledTranslations:
        """Translations against one reference each."""
        both = [
            (one.lower(), other.lower()) if lowercase else (one, other)
            for one, other in zip(answers, references, strict=True)
        ]
        exact = np.array([[one.split() == other.split()] for one, other in both], np.float64)
        tables = [np.hstack([exact, np.ones_like(exact)])]
        for metric in _metrics(lowercase).values():
            tables.append(np.array(metric._extract_corpus_statistics(list(answers), [list(references)]), np.float64))
        return cls(np.hstack(tables), tuple(table.shape[1] for table in tables), lowercase)

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        shares_RS, *tables = np.split(sums_RS, np.cumsum(self.widths)[:-1], axis=1)
        figures = {"exact": shares_RS[:, 0] / shares_RS[:, 1]}
        for (name, metric), table_RS in zip(_metrics(self.lowercase).items(), tables, strict=True):
            scores = [metric._compute_score_from_stats(sums_S).score for sums_S in table_RS]
            figures[name] = np.array(scores, np.float64)
        return figures


def _metrics(lowercase: bool) -> dict[str, Metric]:
    """BLEU and chrF as `translation.measure_translation` has them; none where sacreBLEU is not installed."""
    if not installed("sacrebleu"):
        return {}
    metrics = require("sacrebleu", "measuring translations (BLEU, chrF)").metrics
    return {
        "bleu": metrics.BLEU(tokenize="13a", lowercase=lowercase, force=True),
        "chrf": metrics.CHRF(lowercase=lowercase),
    }
