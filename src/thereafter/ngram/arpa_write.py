"""Writing a model as an ARPA file, the format KenLM, SRILM and speech recognisers read (plain, or gzip by `.gz`).

Fields end at white space, so tokens that contain it are escaped. Those of `word` contain none. In others every
separator becomes `\\xHH`, and so does the backslash of a token that looks like such an escape; nothing else changes, so
Penn Treebank's `\\/` stays `\\/`.
"""

from __future__ import annotations

import gzip
import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from thereafter.base import progress
from thereafter.base.storage import replacing
from thereafter.errors import OptionError
from thereafter.ngram.model import NgramModel

NEVER = -99.0  # log 0 in this format
_BLOCK = 1 << 16


def write_arpa(model: NgramModel, forms: Sequence[bytes], path: str | Path, *, escaped: bool = False) -> Path:
    """Write `model` with the spellings `forms` [V] of its tokens; returns the path.

    `escaped`: tokens may contain white space, which `escape` replaces; else they are written literally.

    An ARPA file is a back-off model, so add-alpha, which gives unseen words equal probabilities, cannot be written.
    """
    if model.uniform:
        raise OptionError(
            f"a model smoothed by {model.smoothing} is not a back-off model, and an ARPA file contains nothing else; "
            "try smoothing='modified-kneser-ney'"
        )
    target = Path(path)
    tables = model.tables
    with (
        progress.task(f"writing {target.name}", total=len(tables.word), unit="n-grams") as advance,
        replacing(target) as temporary,
        _open(temporary, target.suffix == ".gz") as file,
    ):
        file.write(b"\\data\\\n")
        for order, size in enumerate(np.diff(tables.level_starts)[1:].tolist(), start=1):
            file.write(b"ngram %d=%d\n" % (order, size))
        words = [*(map(escape, forms) if escaped else forms), b"<s>"]
        above: list[bytes] = []
        for order in range(1, tables.order + 1):
            file.write(b"\n\\%d-grams:\n" % order)
            lines, above = _level(model, order, words, above)
            for block in lines:
                file.write(b"".join(block))
                advance(len(block))
        file.write(b"\n\\end\\\n")
    return target


def _level(
    model: NgramModel, order: int, words: list[bytes], above: list[bytes]
) -> tuple[Iterator[list[bytes]], list[bytes]]:
    """The lines of one order in blocks, and its n-grams as text, with which those of the next order begin."""
    tables = model.tables
    first, end = int(tables.level_starts[order]), int(tables.level_starts[order + 1])
    last = [words[w] for w in tables.word[first:end].tolist()]
    if order == 1:
        grams = last
    else:
        parents_from, parents_to = int(tables.level_starts[order - 1]), int(tables.level_starts[order])
        children = np.diff(tables.first_child[parents_from : parents_to + 1])
        parent = np.repeat(np.arange(parents_to - parents_from), children).tolist()
        grams = [above[p] + b" " + word for p, word in zip(parent, last, strict=True)]
    probs = _log10(tables.logp[first:end])
    template = b"%.7g\t%s\n"
    columns: list[Sequence[object]] = [probs, grams]
    if order < tables.order:
        template = b"%.7g\t%s\t%.7g\n"
        columns.append(_log10(tables.backoff[first:end]))
    blocks = (
        [template % line for line in zip(*(column[a : a + _BLOCK] for column in columns), strict=True)]
        for a in range(0, len(grams), _BLOCK)
    )
    return blocks, grams


def _log10(logs: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[float]:
    """Natural logarithms to base 10, log 0 as -99."""
    tens = logs.astype(np.float64) / math.log(10)
    numbers: list[float] = np.where(np.isneginf(tens), NEVER, tens).tolist()
    return numbers


@contextmanager
def _open(path: Path, packed: bool) -> Iterator[io.BufferedIOBase]:
    with path.open("wb") as raw:
        if not packed:
            yield raw
            return
        # no time stamp and no name inside: the same model gives the same bytes
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as file:
            yield file


_SEPARATORS = re.compile(rb"[\x00\t\n\v\f\r ]|\\(?=x[0-9a-f]{2})")
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def escape(token: bytes) -> bytes:
    r"""
    >>> escape(b" mat"), escape(b"1\\/2"), escape(b"\\x20")
    (b'\\x20mat', b'1\\/2', b'\\x5cx20')
    """
    return _SEPARATORS.sub(lambda match: rb"\x%02x" % match.group()[0], token)


def unescape(field: bytes) -> bytes:
    r"""
    >>> unescape(escape(b"a \\x20 b"))
    b'a \\x20 b'
    """
    return _ESCAPED.sub(lambda match: bytes([int(match.group(1), 16)]), field)
