"""A text as one model read it: its tokens with their costs, the units they make up; and what an item is read after.

An *item* is a line of a text, a row of a table or a record of JSON. Lines of a *document* continue each other; items,
such as the sentences of an experiment, do not. They are read

    item        each from a fresh state, as if the model were asked for it alone
    N           each from a fresh state, after the N items before it, which are read and not counted
    document    the state is carried from one to the next

Shapes: T tokens, U units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from thereafter.base.tabular import Row
from thereafter.errors import OptionError
from thereafter.evaluation.aligning import align_units
from thereafter.evaluation.conditions import WordCounts
from thereafter.evaluation.predicted import TokenPredictions
from thereafter.evaluation.scores import Walk, score_items, score_pieces
from thereafter.evaluation.text_units import LINE_END, TextUnits, cut_units, words_alone
from thereafter.evaluation.token_costs import TokenCosts
from thereafter.models.base import NOT_NORMALISED
from thereafter.text.reading import lines_of
from thereafter.text.sources import Source
from thereafter.text.spaces import Places, code_points, is_space
from thereafter.text.tokenizers.base import Tokenizer


@dataclass(frozen=True)
class TextReading:
    """A text as one model read it.

    `model` and `text` are names. `predicted` is None unless it was asked for. `notes`: what makes it another reading
    than that of one plain model, and what to be careful about. `written`: the text before it was brought into the
    form of a pre-tokenised corpus, whose words are then the units; "" where nothing was changed. `before`: how many
    items were read before each; None for a document. `rows`: those of the table that the text is a column of, a row a
    line. `counts`: the words of the training text, where they were asked for.
    """

    model: str
    text: str
    tokenizer: Tokenizer
    context: str
    costs: TokenCosts
    predicted: TokenPredictions | None = None
    notes: tuple[str, ...] = ()
    written: str = ""
    before: int | None = None
    rows: Sequence[Row] = ()
    counts: WordCounts | None = None

    @property
    def are_items(self) -> bool:
        """Whether lines are items, by how they were read or where they stand."""
        return self.before is not None or bool(self.rows)

    @property
    def normalised(self) -> bool:
        """Whether the scores are probabilities."""
        return NOT_NORMALISED not in self.notes

    @property
    def nats(self) -> float:
        """The sum of -log p over all tokens: that of the score."""
        return float(self.costs.nats_T.sum())

    @property
    def spelling_nats(self) -> float:
        return float(self.costs.spelling_T.sum())

    @cached_property
    def places_T(self) -> Places:
        return self.costs.places()

    @property
    def as_written(self) -> str:
        """The text as it was written."""
        return self.written or self.costs.text

    @property
    def has_sentence_a_line(self) -> bool:
        """Whether the model begins every line afresh, and the text has its form: then a sentence is a line."""
        return "line" in self.context and not self.written

    def units(self, by: str) -> TextUnits:
        """The words as they were written, or the tokens, sentences and lines as they were read."""
        if by == "token":
            newlines = np.flatnonzero(code_points(self.costs.text) == ord(LINE_END))
            lines_T = 1 + (self.costs.item_T if self.before is not None else np.searchsorted(newlines, self.places_T))
            return TextUnits(self.pieces(), lines_T, np.arange(len(self.costs.ids) + 1))
        units = cut_units(self.costs.text, self.places_T, by, sentence_a_line=self.has_sentence_a_line)
        if by == "word" and self.as_written != self.costs.text:
            return align_units([units, words_alone(self.as_written)], shown=1)[0]
        return units

    def pieces(self) -> list[str]:
        """The text of each token."""
        distinct, which_T = np.unique(self.costs.ids, return_inverse=True)
        texts = [self.tokenizer.piece(number) for number in distinct.tolist()]
        return [texts[number] for number in which_T.tolist()]

    def decisive(self, units: TextUnits) -> Places:
        """The first token of each unit that is not white space alone; the number of tokens where a unit has none."""
        blank_T = is_space(code_points(self.costs.text)[self.places_T])
        steps = np.arange(len(blank_T))
        solid = np.append(np.where(blank_T, len(blank_T), steps), len(blank_T))
        first = units.first_U1[:-1]
        chosen = np.minimum.reduceat(solid, first)
        chosen = np.where(chosen < units.first_U1[1:], chosen, first)
        return np.where(first == units.first_U1[1:], len(blank_T), chosen)


Context = str | int | None
"""As the user gives it; None takes the default: items for a column of a table, else a document."""


def items_before(context: Context, *, of_table: bool) -> int | None:
    """How many items are read before each: 0 for `item`; None for `document`, all that came.

    >>> items_before(None, of_table=True), items_before("2", of_table=False), items_before("document", of_table=True)
    (0, 2, None)
    """
    if context is None or context in ("item", "document"):
        return 0 if context == "item" or (context is None and of_table) else None
    if isinstance(context, bool) or not str(context).isdecimal():
        raise OptionError(
            f"context is {context!r}; expected item (each line or row from a fresh state), document (the state is "
            "carried on), or the number of lines that are read before each; try item"
        )
    return int(context)


def describe_context(before: int | None, item: str = "line") -> str:
    """A sentence for the output, with the word that changes it. `item`: what an item is called."""
    if before is None:
        return f"context document: the state is carried from {item} to {item} (--context item: each from a fresh state)"
    if before == 0:
        return f"context item: each {item} is read from a fresh state (--context document: the state is carried on)"
    several = f"{before} {item}s" if before > 1 else item
    return f"context {before}: each {item} is read from a fresh state, after the {several} before it"


def walk_of(text: Source, before: int | None) -> tuple[Iterable[str], Walk]:
    """The pieces of a text and how they are read; of items each is a line with its line end, rewritten by itself."""
    if before is None:
        return text.chunks("scoring"), score_pieces
    return _items(text), partial(score_items, before=before)


def _items(text: Source) -> Iterator[str]:
    for line in lines_of(replace(text, rewriting=None).chunks("scoring"), ends=True):
        item = line if line.endswith("\n") else f"{line}\n"
        yield item if text.rewriting is None else "".join(text.rewriting.rewrite([item]))
