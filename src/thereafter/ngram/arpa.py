"""ARPA files, the format KenLM, SRILM and speech recognisers read (plain, or gzip by `.gz`), written and read.

The n-grams of a file from any toolkit are sorted, and those that it may omit are added.

Fields end at white space, so tokens that contain it are escaped. Those of `word` contain none. In others every
separator becomes `\\xHH`, and so does the backslash of a token that looks like such an escape; nothing else changes, so
Penn Treebank's `\\/` stays `\\/`.

Shapes: M_n n-grams of order n, each a row of n word ids.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.storage import replacing
from thereafter.errors import FormatError, OptionError
from thereafter.ngram.counts import MAX_ORDER
from thereafter.ngram.model import NgramModel
from thereafter.ngram.tables import Tables

NEVER = -99.0  # log 0 in this format
_WRITTEN_AT_ONCE = 1 << 16


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
            lines, above = _section_lines(model, order, words, above)
            for block in lines:
                file.write(b"".join(block))
                advance(len(block))
        file.write(b"\n\\end\\\n")
    return target


def _section_lines(
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
        [template % line for line in zip(*(column[a : a + _WRITTEN_AT_ONCE] for column in columns), strict=True)]
        for a in range(0, len(grams), _WRITTEN_AT_ONCE)
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
        tables, context="line" if file.has_line_end else "stream", line_end=line_end, smoothing="arpa", notes=file.notes
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
            sorted_keys = keys[depth - 1]
            if not len(sorted_keys):
                return np.full(len(rows), -1)
            place = np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)
            node = np.where((node >= 0) & (sorted_keys[place] == wanted), place, -1)
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
        index_of = _index(level)
        absent = needed[[row.tobytes() not in index_of for row in needed]]
        level.rows = np.concatenate([level.rows, absent])
        level.backoff = np.concatenate([level.backoff, np.zeros(len(absent))])
        missing.append((order, absent))
    for order, absent in reversed(missing):  # the shortest first: each is implied by the order below it
        level, below = levels[order - 1], levels[order - 2]
        index_of = _index(below)
        context = np.array([index_of[row[:-1].tobytes()] for row in absent], dtype=np.int64)
        suffix = np.array([index_of[row[1:].tobytes()] for row in absent], dtype=np.int64)
        level.logp = np.concatenate([level.logp, below.backoff[context] + below.logp[suffix]])
    return sum(len(absent) for _, absent in missing)


def _index(level: ArpaLevel) -> dict[bytes, int]:
    return {row.tobytes(): place for place, row in enumerate(level.rows)}


Int = NDArray[np.int32]
Float = NDArray[np.float64]

_BLOCK = 1 << 12
_MARK = b" \0 "
_COUNT = re.compile(rb"ngram\s+(\d{1,3})\s*=\s*(\d{1,18})")
_RESERVED = (b"<unk>", b"</s>", b"<s>")


@dataclass
class ArpaLevel:
    """The n-grams of one order in the order of the file: rows [M, n], natural logs of p and of the back-off weight."""

    rows: Int
    logp: Float
    backoff: Float


@dataclass
class ArpaFile:
    """A parsed file. `forms` [V] are the spellings by id: `<unk>`, `</s>` if it has it, then as in the file."""

    forms: list[bytes]
    levels: list[ArpaLevel]
    has_line_end: bool
    notes: list[str] = field(default_factory=list)


def parse(path: Path) -> ArpaFile:
    """Parse an ARPA file, plain or gzip (recognised by content); FormatError says what is wrong and where."""
    reader = _ArpaLines(path)
    try:
        with reader:
            sizes = _header(reader)
            forms, index, first, notes = _unigrams(reader, sizes[0])
            levels, left_out = [first], 0
            with progress.task(f"reading {path.name}", total=sum(sizes), unit="n-grams") as advance:
                for order, size in enumerate(sizes[1:], start=2):
                    level, beside = _level(reader, order, size, index, order == len(sizes), advance)
                    levels.append(level)
                    left_out += beside
            _end(reader)
            if left_out:
                notes.append(f"{left_out:,} n-grams with <s> after their first word were left out")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(
            f"{path} is a gzip file that is damaged or cut short ({error}); try copying it again"
        ) from error
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}; expected an ARPA file") from error
    return ArpaFile(forms, levels, b"</s>" in index, notes)


class _ArpaLines:
    """The lines of the file as bytes, with their numbers, after a check of the kind of file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0

    def __enter__(self) -> _ArpaLines:
        with self.path.open("rb") as raw:
            head = raw.read(64)
        if head.startswith(b"mmap lm http://kheafield.com/code"):
            raise self.wrong("it is a KenLM binary, not an ARPA file; try the ARPA file it was built from")
        packed = head.startswith(b"\x1f\x8b")
        self._file: io.BufferedIOBase = gzip.open(self.path, "rb") if packed else self.path.open("rb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self.number += 1
            yield line

    def block(self, lines: int) -> list[bytes]:
        taken = list(islice(self._file, lines))
        self.number += len(taken)
        return taken

    def after_blanks(self) -> bytes:
        """The next line that is not blank, stripped; empty at the end of the file."""
        for line in self:
            if line.strip():
                return line.strip()
        return b""

    def wrong(self, what: str, number: int | None = None) -> FormatError:
        place = f", line {number}" if number else ""
        return FormatError(f"{self.path}{place}: {what}")


def _header(lines: _ArpaLines) -> list[int]:
    first = lines.after_blanks()
    for _ in range(1000):  # some toolkits write comments before \data\
        if first == b"\\data\\" or not first:
            break
        if b"\0" in first or len(first) > 10_000:
            raise lines.wrong("it looks like a binary file; expected an ARPA file, which begins with \\data\\")
        first = lines.after_blanks()
    if first != b"\\data\\":
        raise lines.wrong(
            "expected an ARPA file, which begins with \\data\\; got no such line; try `thereafter arpa RUN FILE`"
        )
    sizes: list[int] = []
    for line in lines:
        if not line.strip():
            if sizes:
                break
            continue
        match = _COUNT.fullmatch(line.strip())
        if not match or int(match.group(1)) != len(sizes) + 1:
            raise lines.wrong(f"got {_quote(line)}; expected 'ngram {len(sizes) + 1}=COUNT'", lines.number)
        sizes.append(int(match.group(2)))
    if not sizes or sizes[0] == 0:
        raise lines.wrong("\\data\\ announces no words (is the file cut short?)")
    if len(sizes) > MAX_ORDER:
        raise lines.wrong(f"it is a model of order {len(sizes)}; expected at most {MAX_ORDER}")
    return sizes


def _unigrams(lines: _ArpaLines, size: int) -> tuple[list[bytes], dict[bytes, int], ArpaLevel, list[str]]:
    blocks = list(_section(lines, 1, size))
    spelled = [word for block in blocks for word in block.columns[0]]
    if len(set(spelled)) != len(spelled):
        twice = Counter(spelled).most_common(1)[0][0]
        raise lines.wrong(f"{_quote(twice)} occurs twice among the 1-grams; try making the file again")
    notes = []
    if b"<unk>" not in spelled:
        notes.append("the file has no <unk>: unknown words have probability 0")
    ordinary = [word for word in spelled if word not in _RESERVED]
    forms = [b"<unk>", *([b"</s>"] if b"</s>" in spelled else []), *ordinary]
    index = {word: number for number, word in enumerate(forms)}
    index[b"<s>"] = len(forms)
    place = np.array([index[word] for word in spelled], dtype=np.int64)
    logp, backoff = np.full(len(forms) + 1, -np.inf), np.zeros(len(forms) + 1)
    logp[place] = _natural(np.concatenate([block.logp for block in blocks]))
    backoff[place] = _natural(np.concatenate([block.backoff for block in blocks]))
    logp[len(forms)] = -np.inf  # <s> is an input, never predicted, whatever the file says
    rows = np.arange(len(forms) + 1, dtype=np.int32)[:, None]
    return forms, index, ArpaLevel(rows, logp, backoff), notes


def _level(
    lines: _ArpaLines, order: int, size: int, index: dict[bytes, int], last: bool, advance: progress.Advance
) -> tuple[ArpaLevel, int]:
    """The n-grams of one order, and how many were left out because they have `<s>` after the first word."""
    rows, logp, backoff = [np.empty((0, order), dtype=np.int32)], [np.empty(0)], [np.empty(0)]
    for block in _section(lines, order, size):
        # Looked up while the words are still in the processor's cache.
        ids = np.stack([_ids(lines, order, spelled, index) for spelled in block.columns], axis=1)
        usable = np.all(ids[:, 1:] != index[b"<s>"], axis=1)
        rows.append(ids[usable])
        logp.append(block.logp[usable])
        backoff.append(block.backoff[usable])
        advance(len(ids))
    level = ArpaLevel(np.concatenate(rows), _natural(np.concatenate(logp)), _natural(np.concatenate(backoff)))
    if last:
        level.backoff[:] = 0.0
    return level, size - len(level.rows)


def _ids(lines: _ArpaLines, order: int, spelled: list[bytes], index: dict[bytes, int]) -> Int:
    ids = np.fromiter(map(index.get, spelled, repeat(-1)), dtype=np.int32, count=len(spelled))
    if ids.min() < 0:
        stranger = int(np.argmin(ids))
        raise lines.wrong(
            f"the {order}-grams use {_quote(spelled[stranger])}, which is not among the 1-grams; "
            "try making the file again",
            lines.number - len(spelled) + stranger + 1,
        )
    return ids


@dataclass(frozen=True)
class _ArpaBlock:
    """Consecutive lines of a section: their words by column, and the two logs to base 10."""

    columns: list[list[bytes]]
    logp: Float
    backoff: Float


def _section(lines: _ArpaLines, order: int, size: int) -> Iterator[_ArpaBlock]:
    """One `\\N-grams:` section, block by block; memory grows with the lines that come, not with the stated size."""
    title = lines.after_blanks()
    if title != b"\\%d-grams:" % order:
        raise lines.wrong(f"got {_quote(title)}; expected '\\{order}-grams:' (is the file cut short?)", lines.number)
    done = 0
    while done < size:
        block = lines.block(min(_BLOCK, size - done))
        if not block:
            raise lines.wrong(
                f"fewer than the announced {size:,} {order}-grams: it holds {done:,} (is the file cut short?)"
            )
        yield _all_at_once(block, order) or _one_by_one(lines, block, order, size)
        done += len(block)


def _all_at_once(block: list[bytes], order: int) -> _ArpaBlock | None:
    """A block whose lines all have the same number of fields; None if they do not, or something is wrong."""
    # A mark at the end of each line shows that the fields of one line have not slipped into the next.
    fields = b"".join(block).replace(b"\n", _MARK).split()
    width, uneven = divmod(len(fields), len(block))
    if uneven or width - 2 not in (order, order + 1) or fields[width - 1 :: width].count(b"\0") != len(block):
        return None
    try:
        logp = np.array(list(map(float, fields[::width])))
        backoff = np.array(list(map(float, fields[order + 1 :: width]))) if width == order + 3 else np.zeros(len(block))
    except ValueError:
        return None
    if not (logp.max() < np.inf and backoff.max() < np.inf):  # also false where one is not a number
        return None
    return _ArpaBlock([fields[column::width] for column in range(1, order + 1)], logp, backoff)


def _one_by_one(lines: _ArpaLines, block: list[bytes], order: int, size: int) -> _ArpaBlock:
    """The slow way to read a block, if only some lines have a back-off weight or something is wrong."""
    columns: list[list[bytes]] = [[] for _ in range(order)]
    logp, backoff = np.zeros(len(block)), np.zeros(len(block))
    for k, line in enumerate(block):
        number = lines.number - len(block) + k + 1
        parts = line.split()
        if not parts or parts[0].startswith(b"\\"):
            raise lines.wrong(f"fewer than the announced {size:,} {order}-grams (is the file cut short?)", number)
        if len(parts) not in (order + 1, order + 2):
            raise lines.wrong(
                f"got {_quote(line)}; expected a log, {order} words and perhaps a back-off weight", number
            )
        try:
            logp[k] = float(parts[0])
            backoff[k] = float(parts[order + 1]) if len(parts) == order + 2 else 0.0
        except ValueError:
            raise lines.wrong(f"got {_quote(line)}; expected numbers around the words", number) from None
        if not (logp[k] < np.inf and backoff[k] < np.inf):
            raise lines.wrong(f"got {_quote(line)}; expected a logarithm, not nan or infinity", number)
        for column, word in zip(columns, parts[1 : order + 1], strict=True):
            column.append(word)
    return _ArpaBlock(columns, logp, backoff)


def _natural(tens: Float) -> Float:
    return np.where(tens <= NEVER, -np.inf, tens * math.log(10))


def _end(lines: _ArpaLines) -> None:
    line = lines.after_blanks()
    if line != b"\\end\\":
        raise lines.wrong(f"got {_quote(line)}; expected \\end\\ (is the file cut short?)", lines.number)
    while lines.block(_BLOCK):  # a gzip file checks itself at its very end
        pass


def _quote(line: bytes) -> str:
    return repr(line.strip()[:60].decode("utf-8", "replace")) if line else "the end of the file"
