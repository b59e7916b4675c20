"""A stream of text cut where no token crosses, and its ids cut into mini-batches, the targets one step ahead.

Tokenizing in pieces equals tokenizing the whole. Arrays are views of the ids if possible, in their dtype; `as_torch`
makes int64 tensors. Shapes: B batch, T steps, m pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import EncodingError, OptionError

if TYPE_CHECKING:
    import torch


PIECE = 1 << 20
ENOUGH = 1 << 16

# What may still be part of an unfinished token, read from the end of the text backwards. The pattern matches the
# reversed text; what lies before the match is finished, whatever comes next.
WORD_TAIL = re.compile(r"\S*")
# A run of one class, and the spaces before it: one space belongs to the run, several are a token of their own.
PROSE_TAIL = re.compile(r"(?:[^\W\d_]+|\d+|[^\w\s]+|_+)?[^\S\n]*")


def recut(chunks: Iterable[str], tail: re.Pattern[str], size: int | None = None) -> Iterator[str]:
    """The same text in pieces of about `size` characters (a million), each ending where no token can cross.

    Every character is scanned once: text without a safe cut is put aside until one comes, so that a line of 100 MB
    without any takes linear time. Such a run becomes one piece, however long.
    """
    aside: list[str] = []
    fresh: list[str] = []
    length, enough = 0, min(ENOUGH, size or PIECE)
    for piece in slice_chunks(chunks, size):
        fresh.append(piece)
        length += len(piece)
        if length < enough:
            continue  # tiny chunks are joined first, without a look for a cut between them
        text = fresh[0] if len(fresh) == 1 else "".join(fresh)
        cut = last_cut(text, tail)
        if cut:
            yield "".join([*aside, text[:cut]])
            aside = [text[cut:]] if cut < len(text) else []
        else:
            aside.append(text)
        fresh, length = [], 0
    rest = "".join(aside + fresh)
    if rest:
        yield rest


def last_cut(text: str, tail: re.Pattern[str]) -> int:
    """The last position in `text` that no token crosses, 0 if there is none.

    >>> last_cut("the cat sat", PROSE_TAIL)
    7
    """
    line = text.rfind("\n") + 1
    if line:
        return line
    unfinished = tail.match(text[::-1])
    return len(text) - (unfinished.end() if unfinished else 0)


def look_ahead(chunks: Iterable[str], size: int) -> tuple[str, Iterator[str]]:
    """The first chunks of a text, `size` characters or more where it has so many, and all of it again.

    >>> beginning, whole = look_ahead(["so ", "long", " thanks"], 5)
    >>> beginning, list(whole)
    ('so long', ['so long', ' thanks'])
    """
    pieces, length, rest = [], 0, iter(chunks)
    for chunk in rest:
        pieces.append(chunk)
        length += len(chunk)
        if length >= size:
            break
    beginning = "".join(pieces)
    return beginning, chain([beginning] if beginning else [], rest)


def require_unicode(text: str) -> str:
    """The text itself if it can be encoded as UTF-8; a lone surrogate is an EncodingError."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as failed:
            raise EncodingError(
                f"the text has a lone surrogate, U+{ord(text[failed.start]):04X}, at character {failed.start}, "
                "expected Unicode characters; try text.encode('utf-8', 'replace').decode('utf-8')"
            ) from None
    return text


def slice_chunks(chunks: Iterable[str], size: int | None = None) -> Iterator[str]:
    """The same text in pieces of at most `size` characters (a million), cut anywhere."""
    size = PIECE if size is None else size
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield require_unicode(chunk if len(chunk) <= size else chunk[start : start + size])


IdArray = NDArray[np.integer]
Pair = tuple[IdArray, IdArray]


def random_offset_partition(
    ids: ArrayLike, steps: int, rng: np.random.Generator | None = None, *, offset: int | None = None
) -> Pair:
    """Drop the first d ids and cut the rest into m = floor((T - d - 1) / n) pairs of n = `steps` ids each.

    d is `offset`, or drawn uniformly from 0 .. n, so that each epoch cuts the text differently. In a text so short that
    some of these leave no pair, d is drawn from those that leave one. Returns inputs and targets, both [m, n].

    >>> inputs, targets = random_offset_partition(np.arange(8), 3, offset=1)
    >>> inputs.tolist(), targets.tolist()
    ([[1, 2, 3], [4, 5, 6]], [[2, 3, 4], [5, 6, 7]])
    """
    array = _check_ids(ids, steps)
    if len(array) <= steps:
        raise OptionError(
            f"the text has {len(array)} tokens, expected at least {steps + 1} for {steps} steps; "
            f"try a longer text or steps={max(1, len(array) - 1)}"
        )
    if (rng is None) == (offset is None):
        raise OptionError("got both rng and offset= or neither; expected exactly one of them")
    if offset is None and rng is not None:
        offset = int(rng.integers(0, min(steps, len(array) - 1 - steps), endpoint=True))
    if offset is None or not 0 <= offset <= steps:
        raise OptionError(f"offset is {offset}, expected 0 to steps ({steps})")
    pairs = max(0, (len(array) - offset - 1) // steps)
    end = offset + pairs * steps
    return array[offset:end].reshape(pairs, steps), array[offset + 1 : end + 1].reshape(pairs, steps)


def partition_batches(ids: ArrayLike, steps: int, batch: int, rng: np.random.Generator) -> Iterator[Pair]:
    """One epoch of the random-offset partition in random order, [B, n] at a time; the last batch may be smaller."""
    _at_least_one("batch", batch)
    inputs, targets = random_offset_partition(ids, steps, rng)
    order = rng.permutation(len(inputs))
    picks = (order[start : start + batch] for start in range(0, len(order), batch))
    return ((inputs[rows], targets[rows]) for rows in picks)


def contiguous_streams(ids: ArrayLike, batch: int, steps: int) -> Iterator[Pair]:
    """Cut the text into `batch` parallel streams, and yield them `steps` at a time, for a state that is carried on.

    Row b of a batch continues row b of the batch before. A row is L = floor((T - 1) / B) ids long; the last block
    is shorter if `steps` does not divide L. Of the T - 1 targets only the last (T - 1) mod B are not used.

    >>> [inputs.tolist() for inputs, _ in contiguous_streams(np.arange(8), batch=2, steps=2)]
    [[[0, 1], [3, 4]], [[2], [5]]]
    """
    array = _check_ids(ids, steps)
    _at_least_one("batch", batch)
    length = (len(array) - 1) // batch
    if length < 1:
        raise OptionError(
            f"the text has {len(array)} tokens, expected at least {batch + 1} for {batch} streams; "
            f"try a longer text or batch={max(1, len(array) - 1)}"
        )
    inputs = array[: batch * length].reshape(batch, length)
    targets = array[1 : batch * length + 1].reshape(batch, length)
    starts = range(0, length, steps)
    return ((inputs[:, start : start + steps], targets[:, start : start + steps]) for start in starts)


def as_torch(array: ArrayLike) -> torch.Tensor:
    """A copy as an int64 tensor, whatever the dtype of the ids, memory maps included."""
    import torch

    return torch.from_numpy(np.array(array, dtype=np.int64, order="C"))


def _check_ids(ids: ArrayLike, steps: int) -> IdArray:
    _at_least_one("steps", steps)
    array = np.asanyarray(ids)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise OptionError(
            f"ids are an array of {array.dtype} with {array.ndim} axes, expected one axis of whole numbers; "
            "try encode_source or Tokenizer.encode"
        )
    return array


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise OptionError(f"{name} is {value}, expected 1 or more")
