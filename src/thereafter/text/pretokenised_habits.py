"""How a pre-tokenised text was written, as plain facts: what `pretokenised.WritingStyle` acts by."""

from __future__ import annotations

from dataclasses import dataclass

_BEYOND_MARKS = frozenset({"<unk>"})


@dataclass(frozen=True)
class Habits:
    """What was done to a text before it became a corpus. Marks stand apart from words in all of them."""

    lower: bool = False
    """Only lower case."""
    clitics: str = "n't"
    """How `don't` is cut: "n't" (do n't), "'t" (don 't), "" (not at all). Other clitics follow."""
    hyphens: str = "joined"
    """Inside words: "joined" (long-term), "split" (long - term), "spaced" (long term)."""
    glue: bool = False
    """`@-@`, `@,@` and `@.@` inside words and numbers, as in WikiText."""
    numbers: str = ""
    """What stands for every number: "N" in the Penn Treebank of language models."""
    quotes: str = ""
    """Double quotes: '"', or "``" for `` and ''; "" leaves them as they are."""
    brackets: str = "("
    """Brackets as they are, or "-LRB-" or "-lrb-" for their names."""
    marks: tuple[str, ...] = ()
    """The marks that stand alone in it, most frequent first."""
    stripped: bool = False
    """Marks that are not in `marks` were taken out."""
    unknown: bool = False
    """Rare words were replaced by `<unk>`."""
    sentence_lines: bool = False
    """Every line is a sentence."""
    straight: bool = True
    """Apostrophes are straight (')."""
    runs: bool = False
    """Several marks in a row, as in `!!!`, are one word."""

    def keeps(self, mark: str) -> bool:
        """Whether a mark is written at all."""
        return not self.stripped or mark in self.marks or mark in _BEYOND_MARKS


ENGLISH = Habits(hyphens="split", straight=False, runs=True)
"""English words as Universal Dependencies cuts them."""
