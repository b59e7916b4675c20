"""What an item is read after: nothing, the items before it, or the whole document so far.

An *item* is a line of a text, a row of a table or a record of JSON. Lines of a *document* continue each other; items,
such as the sentences of an experiment, do not.

    item        each from a fresh state, as if the model were asked for it alone
    N           each from a fresh state, after the N items before it, which are read and not counted
    document    the state is carried from one to the next
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from thereafter.errors import OptionError
from thereafter.evaluation.scores import Walk, score_items, score_pieces
from thereafter.text.lines import lines_of
from thereafter.text.sources import Source

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
