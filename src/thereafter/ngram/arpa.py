"""Reading and writing ARPA files: the parsed n-grams are sorted, and n-grams that the file may omit are added."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError
from thereafter.ngram.arpa_read import ArpaFile, ArpaLevel, parse
from thereafter.ngram.arpa_words import unescape
from thereafter.ngram.arpa_write import write_arpa
from thereafter.ngram.model import NgramModel
from thereafter.ngram.tables import Tables

__all__ = ["read_arpa", "write_arpa"]


def read_arpa(path: str | Path, *, escaped: bool = False) -> tuple[NgramModel, list[bytes]]:
    """The model in an ARPA file and the spelling of each token id: `<unk>` is 0, `</s>` is 1 if the file has it.

    `escaped`: the file was written with escaped words, which are unescaped.

    With `</s>` every line starts afresh, as in KenLM; without, the model runs on over the stream.
    """
    file = parse(Path(path))
    try:
        tables = _assemble(file)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error
    line_end = 1 if file.has_line_end else None
    model = NgramModel(
        tables,
        context="line" if file.has_line_end else "stream",
        line_end=line_end,
        smoothing="arpa",
        notes=file.notes,
    )
    return model, [unescape(form) for form in file.forms] if escaped else file.forms


def _assemble(file: ArpaFile) -> Tables:
    tables = _build_tables(file.levels, file.forms)
    if tables is None:  # a pruned model may have "a b c" but not "b c", which scoring needs
        added = _complete(file.levels)
        file.notes.append(f"{added:,} n-grams that the file omits were added with the values it implies")
        tables = _build_tables(file.levels, file.forms)
    if tables is None:
        raise FormatError("the context or suffix of some n-grams is missing; try making the file again")
    return tables


def _build_tables(levels: list[ArpaLevel], forms: list[bytes]) -> Tables | None:
    """Sort the levels into tables; None if the context or the suffix of an n-gram is missing."""
    width = len(forms) + 1
    starts = [0, 1, 1 + width]
    keys: list[NDArray[np.int64]] = []  # sorted (parent, word) of orders 2, 3, ...
    word = [np.zeros(1, np.int32), levels[0].rows[:, 0]]
    logp, backoff = [np.zeros(1), levels[0].logp], [np.zeros(1), levels[0].backoff]
    suffix = [np.zeros(1 + width, np.int64)]
    first_child = [np.ones(1, np.int64)]

    def locate(rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Index of each row within its own order, -1 if it is missing."""
        node = rows[:, 0].astype(np.int64)
        for depth in range(1, rows.shape[1]):
            wanted = node * width + rows[:, depth]
            known = keys[depth - 1]
            if not len(known):
                return np.full(len(rows), -1)
            place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            node = np.where((node >= 0) & (known[place] == wanted), place, -1)
        return node

    for level in levels[1:]:
        parent, tail = locate(level.rows[:, :-1]), locate(level.rows[:, 1:])
        if len(parent) and min(parent.min(), tail.min()) < 0:
            return None
        key = parent * width + level.rows[:, -1]
        into = np.argsort(key, kind="stable")
        keys.append(key[into])
        twice = np.flatnonzero(keys[-1][1:] == keys[-1][:-1])
        if len(twice):
            gram = b" ".join([*forms, b"<s>"][w] for w in level.rows[into[twice[0]]]).decode("utf-8", "replace")
            raise FormatError(f"the {level.rows.shape[1]}-gram {gram!r} occurs twice; try making the file again")
        word.append(level.rows[into, -1])
        logp.append(level.logp[into])
        backoff.append(level.backoff[into])
        suffix.append(tail[into] + starts[-2])
        children = np.bincount(parent, minlength=starts[-1] - starts[-2])
        first_child.append(starts[-1] + np.cumsum(children) - children)
        starts.append(starts[-1] + len(key))
    return Tables(
        word=np.concatenate(word).astype(np.int32),
        logp=np.concatenate(logp).astype(np.float32),
        suffix=np.concatenate(suffix).astype(np.int32),
        backoff=np.concatenate(backoff[:-1]).astype(np.float32),
        first_child=np.concatenate([*first_child, starts[-1:]]).astype(np.int32),
        level_starts=np.array(starts, dtype=np.int64),
    )


def _complete(levels: list[ArpaLevel]) -> int:
    """Add the contexts and suffixes that longer n-grams need, with the probability that backing off gives them."""
    missing: list[tuple[int, NDArray[np.int32]]] = []
    for order in range(len(levels) - 1, 1, -1):  # the longest first: what is added may need more below
        level, above = levels[order - 1], levels[order].rows
        needed = np.unique(np.concatenate([above[:, :-1], above[:, 1:]]), axis=0)
        known = _index(level)
        absent = needed[[row.tobytes() not in known for row in needed]]
        level.rows = np.concatenate([level.rows, absent])
        level.backoff = np.concatenate([level.backoff, np.zeros(len(absent))])
        missing.append((order, absent))
    for order, absent in reversed(missing):  # the shortest first: each is implied by the order below it
        level, below = levels[order - 1], levels[order - 2]
        known = _index(below)
        context = np.array([known[row[:-1].tobytes()] for row in absent], dtype=np.int64)
        suffix = np.array([known[row[1:].tobytes()] for row in absent], dtype=np.int64)
        level.logp = np.concatenate([level.logp, below.backoff[context] + below.logp[suffix]])
    return sum(len(absent) for _, absent in missing)


def _index(level: ArpaLevel) -> dict[bytes, int]:
    return {row.tobytes(): place for place, row in enumerate(level.rows)}
