"""Figures of items by condition, with intervals, and paired differences between conditions; how frequent words are.

    mean of a condition    sum of a figure over its rows / number of rows
    difference             mean over the items that have both conditions of (mean in the one - mean in the other)

95 % intervals come from a bootstrap over items (`evaluation.bootstrap`): the rows of an item are drawn together, and
what is hard in both conditions of an item cancels out. Fewer than 20 items give no interval. Shapes: N rows.

The frequency of a word in a text, whatever its case and the punctuation around it, is

    log2 frequency = log2 (count + 1) / (words + different words)

so that a word that never occurs has a frequency too (Laplace; Brysbaert and Diependaele 2013 for frequency norms).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np

from thereafter.base.tabular import Row
from thereafter.errors import OptionError, UnknownNameError
from thereafter.evaluation.bootstrap import LEAST, Floats, interval, resample_sums
from thereafter.evaluation.text_units import words_alone
from thereafter.text.reading import has_characters, lines_of

ITEM = "item"
"""The column by which rows are grouped into items."""


def check_column(name: str, columns: Sequence[str], more: Sequence[str] = ()) -> None:
    """Refuse the name of a column that a table lacks; `more`: other names that are allowed."""
    if not columns:
        raise OptionError(
            f"by is {name!r}, and the text has no columns to group by; expected {', '.join(more) or 'a table'}, or the "
            "column of a table, as in: thereafter surprisal RUN stimuli.csv:sentence --by condition"
        )
    if name not in columns:
        raise UnknownNameError("column", name, [*columns, *more])


def summarise(rows: Sequence[Row], by: str, figures: Mapping[str, Floats], item: str | None = None) -> list[Row]:
    """A row for each condition of column `by`, then for each two of them.

    `figures` [N] by name, nan where a row has none. `item`: the column of the items, by default `item` where there is
    one, else each row is an item of its own and no difference is paired.
    """
    columns = list(rows[0]) if rows else []
    check_column(by, columns)
    if item is not None:
        check_column(item, columns)
    key = item or next((name for name in columns if name.lower() == ITEM), None)
    items = [str(row[key]) if key else str(place) for place, row in enumerate(rows)]
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(str(row[by]), []).append(place)
    paired = combinations(places, 2) if key is not None and key != by else ()
    summary: list[Row] = []
    for names in [*((name,) for name in places), *paired]:
        sides = [places[name] for name in names]
        both = set.intersection(*({items[at] for at in side} for side in sides))
        if both:
            counted = sum(items[at] in both for side in sides for at in side)
            minus = "" if len(names) == 1 else names[1]
            summary.append({"by": by, "condition": names[0], "minus": minus, "items": len(both), "rows": counted})
        for figure, values_N in figures.items() if both else ():
            sums, *others = (_item_sums(side, items, values_N) for side in sides)
            for other in others:
                shared = [item for item in sums if item in other]
                sums = {item: (sums[item][0] / sums[item][1] - other[item][0] / other[item][1], 1) for item in shared}
            summary[-1] |= _with_interval(figure, np.array(list(sums.values())).reshape(-1, 2))
    return summary


def _item_sums(places: Sequence[int], items: Sequence[str], values_N: Floats) -> dict[str, tuple[float, int]]:
    """The sum of a figure over the rows of each item, and their number; rows without it are left out."""
    sums: dict[str, tuple[float, int]] = {}
    for at in places:
        if not np.isnan(values_N[at]):
            total, count = sums.get(items[at], (0.0, 0))
            sums[items[at]] = (total + float(values_N[at]), count + 1)
    return sums


def _with_interval(figure: str, statistics_I2: Floats) -> Row:
    """The mean of all items, and where it lies in 95 % of the resamples."""
    lower = upper = None
    if len(statistics_I2) >= LEAST and np.isfinite(statistics_I2).all():
        sums_R2 = resample_sums(statistics_I2)
        lower, upper = interval(sums_R2[:, 0] / sums_R2[:, 1])
    total, count = statistics_I2.sum(axis=0)
    return {figure: float(total / count) if count else None, f"{figure}_low": lower, f"{figure}_high": upper}


_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def bare_word(word: str) -> str:
    """A word without the punctuation around it; "" if it is all punctuation.

    >>> bare_word('"well-known,"'), bare_word("--")
    ('well-known', '')
    """
    return _EDGES.sub("", word)


@dataclass(frozen=True)
class WordCounts:
    """The words of a text without punctuation and case, with their counts; `total` counts all of them."""

    counts: Mapping[str, int]
    total: int

    @classmethod
    def of_text(cls, chunks: Iterable[str]) -> Self:
        """Count the words of a text that comes in chunks."""
        written: Counter[str] = Counter()
        for line in lines_of(chunks):
            written.update(words_alone(line).texts if has_characters(line) else line.split())
        counts: Counter[str] = Counter()
        for word, count in written.items():
            counts[bare_word(word).casefold()] += count
        del counts[""]
        return cls(counts, counts.total())

    def log_frequency(self, word: str) -> float:
        """log2 of the frequency of a word.

        >>> WordCounts.of_text(['The cat saw "the" dog.']).log_frequency("The,")
        -1.5849625007211563
        """
        count = self.counts.get(bare_word(word).casefold(), 0)
        return math.log2((count + 1) / (self.total + len(self.counts)))
