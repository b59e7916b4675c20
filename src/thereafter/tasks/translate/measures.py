"""How good translations are: BLEU and chrF, counted by sacreBLEU, and BLEU by the length of the source.

    BLEU = 100 exp(min(0, 1 - reference words / words)) (p_1 p_2 p_3 p_4)^(1/4)

with p_n the share of n-grams that the reference has too, none counted more often than it has it, over the whole corpus
(Papineni and others 2002). chrF is the F2 of character n-grams of order 1 to 6 (Popović 2015). Both compare plain text,
as a reader would see it: "detokenised". sacreBLEU (Post 2018) cuts it into words by its own rules, `13a`, so that
scores compare; the signature says so and belongs beside every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import ModuleType

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.packages import require
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError, OptionError

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
