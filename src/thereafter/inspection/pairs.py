"""Minimal pairs: two sentences that differ in one thing, of which a model should find the first one likelier.

    right where  log p(good) > log p(bad),  half right where they are equal

(Marvin and Linzen 2018; Warstadt et al. 2020, BLiMP). Any model can be asked, n-grams included: log p of a sentence is
the sum over its tokens and its line end, less the spelling of its unknown words, so that no sentence wins by being
unknown.

Two kinds of pairs say nothing about what a model has learned, and are counted apart, not in the accuracy: those that
become the *same* tokens, and those whose difference is an *unknown* word, so that one sentence has an unknown word that
the other has not. In both the spelling of a word the model never learned would decide.

A pair file has either two sentences a line with a tab between them, the good one first, or a JSON object a line with
`sentence_good` and `sentence_bad`, as BLiMP's; `field`, `linguistics_term` and `UID` are groups to count by. A `.csv`
has two columns, or columns that its first line names, as a `.tsv` may have; all of them are kept.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular, free_names
from thereafter.data.finding import FileKind, find_files
from thereafter.decoding.beam import Candidate, log_probs
from thereafter.errors import EmptyCorpusError, FormatError, OptionError, SourceError
from thereafter.evaluation.bootstrap import wilson
from thereafter.evaluation.conditions import summarise
from thereafter.evaluation.scores import MANY
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.models.base import Ids
from thereafter.text.reading import read_chunks
from thereafter.text.tables import require_characters
from thereafter.text.tokenizers.base import Spelling

GROUPS = ("field", "linguistics_term", "UID")
PAIR_FILES = FileKind("pair files", ((".jsonl",), (".tsv", ".txt"), (".csv",)))
HEADERS = (("good", "bad"), ("sentence_good", "sentence_bad"))
"""What the columns of a table of pairs are called."""
PairFiles = str | PathLike[str] | Sequence[str | PathLike[str]]
"""A path, a folder, a glob such as 'blimp/*.jsonl', or several of them."""


@dataclass(frozen=True)
class Pair:
    """Two sentences, the good one first, and the groups the pair belongs to; `file` and `line` say where it stands.

    `columns` has what else the file says of it, by name.
    """

    good: str
    bad: str
    groups: dict[str, str] = field(default_factory=dict)
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    columns: dict[str, object] = field(default_factory=dict, compare=False)


def read_pair_files(files: PairFiles, *, encoding: str | None = None) -> list[Pair]:
    """The pairs of all these files, one file after the other, each once. Of several files each is a group too."""
    given = [files] if isinstance(files, str | PathLike) else list(files)
    paths: dict[Path, None] = {}
    for one in given:
        here = find_files(one, PAIR_FILES)
        if not here:
            raise SourceError(
                f"{os.fspath(one)!r} is neither a file nor a glob that matches one; expected a file with two sentences "
                "a line and a tab between them, a .csv with two columns, or BLiMP's jsonl; try 'blimp/*.jsonl', in "
                "quotes"
            )
        paths.update(dict.fromkeys(here))
    if not paths:
        raise SourceError("the list of pair files is empty; expected at least one")
    pairs = [pair for path in paths for pair in read_pairs(path, encoding=encoding)]
    if len(paths) == 1:
        return pairs
    return [replace(pair, groups={"file": pair.file} | pair.groups) for pair in pairs]


def read_pairs(path: str | PathLike[str], *, encoding: str | None = None) -> list[Pair]:
    """The pairs of a file; empty lines are passed over, any other line without a pair is an error that names it."""
    text = "".join(read_chunks(path, encoding=encoding))
    name = Path(path).name
    first = text.lstrip().split("\n", 1)[0].lower().split("\t")
    is_sheet = name.lower().removesuffix(".gz").endswith(".csv") or (len(first) > 2 and _header_in(first) is not None)
    read = _of_sheet(text, str(Path(path))) if is_sheet else _of_lines(text, str(Path(path)))
    pairs = [replace(pair, file=name, line=number) for number, pair in read]
    if not pairs:
        raise EmptyCorpusError(f"{Path(path)} has no pairs; expected two sentences a line with a tab between them")
    return pairs


def _of_lines(text: str, file: str) -> Iterator[tuple[int, Pair]]:
    """The pairs of lines with tabs or JSON, with the numbers of their lines."""
    is_first = True
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        names = tuple(part.strip().lower() for part in line.split("\t"))
        if not (is_first and names in HEADERS):
            where = f"line {number} of {file}"
            yield number, _of_json(line, where) if line.lstrip().startswith("{") else _of_tabs(line, where)
        is_first = False


def _of_sheet(text: str, file: str) -> Iterator[tuple[int, Pair]]:
    """The pairs of a table as spreadsheets write it, with commas or semicolons between its cells."""
    begin = text.lstrip().split("\n", 1)[0]
    commas, semicolons = (len(next(csv.reader([begin], delimiter=mark), [])) for mark in ",;")
    separator = "\t" if "\t" in begin else ";" if semicolons >= 2 and commas != 2 else ","
    lines, plain = io.StringIO(text, newline=""), separator == "\t"  # as everywhere, cells of tsv are not quoted
    rows = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL)
    good, bad, others, words = 0, 1, dict[str, int](), list[str]()
    width, is_first = 2, True
    try:
        for row in rows:
            cells = [" ".join(cell.split()) for cell in row]
            if not any(cells):
                continue
            names = [cell.lower() for cell in cells]
            header = _header_in(names) if is_first else None
            if header is None and len(cells) == width and any(" " in cell for cell in cells) and words:
                listed = ", ".join(words)
                raise FormatError(f"{file} has the columns {listed}; expected the names good and bad among them")
            words = cells if is_first and header is None and " " not in "".join(cells) else []
            is_first = False
            if header is not None:
                good, bad, width = names.index(header[0]), names.index(header[1]), len(cells)
                others = {name: place for place, name in enumerate(cells) if place not in (good, bad) and name}
                continue
            where = f"line {rows.line_num} of {file}"
            if len(cells) != width:
                raise FormatError(
                    f"{where} has {len(cells)} column{'' if len(cells) == 1 else 's'} ({', '.join(cells)[:80]}); "
                    "expected two sentences, or a first line with the columns good and bad among its names; for "
                    "sentences in rows try: thereafter surprisal RUN FILE:COLUMN --by condition"
                )
            columns: dict[str, object] = {name: cells[place] for name, place in others.items()}
            yield rows.line_num, _checked(Pair(cells[good], cells[bad], _groups(columns), columns=columns), where)
    except csv.Error as error:
        raise FormatError(f"line {rows.line_num} of {file} is no CSV ({error}); expected two columns") from None


def _of_tabs(line: str, where: str) -> Pair:
    parts = [part.strip() for part in line.split("\t")]
    if len(parts) != 2:
        got = "no tab" if len(parts) == 1 else f"{len(parts)} parts between tabs"
        raise FormatError(
            f"{where} has {got}; expected two sentences with one tab between them, or a .csv with two columns, or a "
            "JSON object with sentence_good and sentence_bad"
        )
    return _checked(Pair(parts[0], parts[1]), where)


def _of_json(line: str, where: str) -> Pair:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} begins like JSON and is not ({error}); expected one whole object a line") from None
    sentences = [given.get(name) for name in ("sentence_good", "sentence_bad")]
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise FormatError(
            f"{where} lacks sentence_good or sentence_bad as text; it has {', '.join(given) or 'nothing'}"
        )
    columns = {name: value for name, value in given.items() if name not in ("sentence_good", "sentence_bad")}
    good, bad = (require_characters(sentence.strip(), where) for sentence in sentences)
    return _checked(Pair(good, bad, _groups(columns), columns=columns), where)


def _header_in(names: Sequence[str]) -> tuple[str, str] | None:
    """The two names of sentences among those of columns, in lower case."""
    return next((both for both in HEADERS if set(both) <= {name.strip() for name in names}), None)


def _groups(columns: Mapping[str, object]) -> dict[str, str]:
    return {name: str(columns[name]) for name in GROUPS if columns.get(name)}


def _checked(pair: Pair, where: str) -> Pair:
    if not pair.good or not pair.bad:
        raise FormatError(f"{where} has an empty sentence; expected two sentences")
    return pair


_AT_ONCE = 256
FIGURES = (
    *("logp_good", "logp_bad", "difference", "unknown_good", "unknown_bad"),
    *("unknown_differs", "same_tokens", "right"),
)
"""The columns of a pair that are a model's own."""


@dataclass(frozen=True, repr=False)
class PairScores(Tabular):
    """The log probabilities of both sentences of each pair, in nats; a row a pair.

    `unknown[k]` has the unknown words of the good and of the bad sentence of pair k, as the model read them.
    `unknown_K` marks the pairs whose difference is an unknown word, `same_K` those that become the same tokens.
    """

    pairs: tuple[Pair, ...]
    logp_K2: NDArray[np.float64]
    unknown: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    unknown_K: NDArray[np.bool_]
    same_K: NDArray[np.bool_]
    about: Table

    @property
    def differences_K(self) -> NDArray[np.float64]:
        """log p(good) - log p(bad) of each pair; 0 where both are impossible."""
        good_K, bad_K = self.logp_K2[:, 0], self.logp_K2[:, 1]
        with np.errstate(invalid="ignore"):
            return np.where(good_K == bad_K, 0.0, good_K - bad_K)

    @property
    def right_K(self) -> NDArray[np.float64]:
        """1 where the good sentence is likelier, 0.5 where both are equally likely, else 0."""
        differences_K = self.differences_K
        return np.where(differences_K == 0, 0.5, differences_K > 0)

    @property
    def judged_K(self) -> NDArray[np.bool_]:
        """The pairs that count: they differ in words that the model knows."""
        return ~(self.unknown_K | self.same_K)

    @property
    def accuracy(self) -> float:
        """The share of the judged pairs whose good sentence is likelier; not a number where none can be judged."""
        judged_K = self.judged_K
        return float(self.right_K[judged_K].mean()) if judged_K.any() else float("nan")

    @property
    def caution(self) -> str:
        """A sentence where more than a tenth of the pairs cannot be judged; else nothing."""
        apart = int((~self.judged_K).sum())
        if apart <= MANY * len(self.pairs):
            return ""
        forms = self._deciding_forms()
        more = "; a model of more text, or one of bpe tokens, can judge more of them"
        judgeable = any(self.pairs[place].good != self.pairs[place].bad for place in np.flatnonzero(~self.judged_K))
        often = ", ".join(repr(form) for form in forms[:5])
        return (
            f"{apart:,} of {len(self.pairs):,} pairs ({apart / len(self.pairs):.0%}) are left out of the accuracy"
            + (
                f", since they differ in words that {self.about['model']} does not know, such as {often}"
                if forms
                else ""
            )
            + (more if judgeable else ", since both sentences are the same")
        )

    @property
    def left_out(self) -> str:
        """How many pairs are not judged and why, in words; "" where all are."""
        parts: list[str] = []
        reasons = (
            (self.unknown_K, "it differs in an unknown word", "they differ in an unknown word"),
            (self.same_K, "its tokens are the same", "their tokens are the same"),
        )
        for marks_K, one, several in reasons:
            count = int(marks_K.sum())
            if count:
                noun = "" if parts else " pair" if count == 1 else " pairs"
                parts.append(
                    f"{count:,}{noun} {'is' if count == 1 else 'are'} left out: {one if count == 1 else several}"
                )
        return "; ".join(parts)

    def _deciding_forms(self) -> list[str]:
        """The unknown words in which pairs that are left out differ, by count, then by the alphabet."""
        forms: Counter[str] = Counter()
        for place in np.flatnonzero(~self.judged_K).tolist():
            good, bad = map(Counter, self.unknown[place])
            forms.update({*(good - bad), *(bad - good)})
        return sorted(forms, key=lambda form: (-forms[form], form))

    def __repr__(self) -> str:
        judged = int(self.judged_K.sum())
        share = f"{self.accuracy:.1%} of {judged:,} judged are right" if judged else "none can be judged"
        left = f"; {self.left_out}" if self.left_out else ""
        return f"<PairScores of {self.about['text']} under {self.about['model']}: {share}{left}>"

    def to_rows(self) -> list[Row]:
        """A row a pair. `right` is 1, 0, 0.5 for a tie, and nothing where the pair is not judged."""
        named = list(dict.fromkeys(name for pair in self.pairs for name in pair.columns))
        named.sort(key=lambda name: GROUPS.index(name) if name in GROUPS else len(GROUPS))
        called = free_names(named, ("file", "line", "good", "bad", *FIGURES))
        numbers = (*self.logp_K2.T, self.differences_K, self.unknown_K, self.same_K, self.right_K, self.judged_K)
        good, bad, differences, differs, same, right, judged = (column.tolist() for column in numbers)
        unknown_good, unknown_bad = zip(*([list(forms) for forms in both] for both in self.unknown), strict=True)
        verdicts = [verdict if counts else None for verdict, counts in zip(right, judged, strict=True)]
        figures = zip(good, bad, differences, unknown_good, unknown_bad, differs, same, verdicts, strict=True)
        return [
            {"file": pair.file, "line": pair.line}
            | {called[name]: pair.columns.get(name, "") for name in named}
            | {"good": pair.good, "bad": pair.bad}
            | dict(zip(FIGURES, values, strict=True))
            for pair, values in zip(self.pairs, figures, strict=True)
        ]

    def conditions(self, by: str, item: str | None = None) -> list[Row]:
        """Accuracy and mean difference by a column of the file, and paired differences (`evaluation.conditions`)."""
        rows: list[Row] = [dict(pair.columns) for pair in self.pairs]
        figures = {"accuracy": self.right_K, "nats": self.differences_K}
        judged = {name: np.where(self.judged_K, values_K, np.nan) for name, values_K in figures.items()}
        return [{"model": self.about["model"]} | row for row in summarise(rows, by, judged, item)]

    def groups(self) -> list[Row]:
        """A row for all pairs and one for each group: the table of `measurement`."""
        arrays = self.measurement().arrays
        order = ("by", "group", "total", "judged", "accuracy", "low", "high", "nats", "unknown", "same")
        columns = [arrays[name].tolist() for name in order]
        return [dict(zip(order, values, strict=True)) for values in zip(*columns, strict=True)]

    def measurement(self) -> Measurement:
        """Accuracy and mean difference over all pairs (the first row, "all") and each group, in the order of the file.

        Arrays [group]: `group` its name, `by` what it is a group of, `total` its pairs, `unknown` those whose
        difference is an unknown word, `same` those that become the same tokens, `judged` all others; over these
        `accuracy`, the ends `low` and `high` of its 95 % interval (Wilson), and `nats`, the mean difference (infinite
        where a sentence is impossible).
        """
        rows: dict[tuple[str, str], list[int]] = {("", "all"): list(range(len(self.pairs)))}
        for by in ("file", *GROUPS):
            for place, pair in enumerate(self.pairs):
                if by in pair.groups:
                    rows.setdefault((by, pair.groups[by]), []).append(place)
        judged_K, right_K, differences_K = self.judged_K, self.right_K, self.differences_K
        judged = [np.array(places)[judged_K[places]] for places in rows.values()]
        with np.errstate(invalid="ignore"):
            accuracy = np.array([right_K[places].mean() if len(places) else np.nan for places in judged])
            nats = np.array([differences_K[places].mean() if len(places) else np.nan for places in judged])
        low, high = wilson(accuracy, [len(places) for places in judged])
        arrays: Arrays = {
            "group": np.array([group for _, group in rows]),
            "by": np.array([by for by, _ in rows]),
            "accuracy": accuracy,
            "nats": nats,
            "total": np.array([len(places) for places in rows.values()]),
            "low": low,
            "high": high,
            "unknown": np.array([int(self.unknown_K[places].sum()) for places in rows.values()]),
            "same": np.array([int(self.same_K[places].sum()) for places in rows.values()]),
            "judged": np.array([len(places) for places in judged]),
        }
        about = self.about | ({"caution": self.caution} if self.caution else {})
        return Measurement.of("pairs", arrays, about)


def score_pair_files(
    reader: SentenceReader, files: PairFiles, *, encoding: str | None = None, whole: bool = True, before: int | None = 0
) -> PairScores:
    """Score the pairs of files: a path, a folder, a glob such as 'blimp/*.jsonl', or several of them.

    `whole` sentences pay for their line end too; without it they may be beginnings, such as `the dogs are`. `before`:
    how many good sentences of the pairs before are read before each pair; None for all of them.
    """
    pairs = read_pair_files(files, encoding=encoding)
    names = list(dict.fromkeys(pair.file for pair in pairs))
    name = names[0] if len(names) == 1 else f"{len(names):,} files"
    return score_each(reader, pairs, name=name, whole=whole, before=before)


def score_each(
    reader: SentenceReader, pairs: Sequence[Pair], *, name: str = "pairs", whole: bool = True, before: int | None = 0
) -> PairScores:
    """Score pairs, each sentence from a fresh start, in the form that the model was trained on; `before` as above."""
    if not pairs:
        raise EmptyCorpusError("there are no pairs to score; expected at least one")
    tokenizer, end = reader.tokenizer, "\n" if whole else ""
    spelling = None if tokenizer.unknown_id is None else Spelling.from_forms(tokenizer.ordinary_forms)
    start = reader.model.start(1)
    earlier = deque[Ids](maxlen=1 if before is None else before)
    at_once = _AT_ONCE if before == 0 else 1
    logp_K2 = np.empty((len(pairs), 2))
    unknown, differs, same = [], [], []
    with progress.task("pairs", total=len(pairs), unit="pairs") as advance:
        for at in range(0, len(pairs), at_once):
            batch = pairs[at : at + at_once]
            texts = [text for pair in batch for text in (pair.good, pair.bad)]
            read = [_read(reader, text, end, spelling) for text in texts]
            logp = log_probs(reader.model, start, [one.candidate for one in read], "sentence")
            logp_K2[at : at + at_once] = np.array(logp).reshape(-1, 2)
            if before != 0:
                good = reader.begin + reader.prepare(batch[0].good)
                earlier.append(tokenizer.encode(good if reader.begin else f"{good}\n"))
                fresh = start if before is None else reader.model.start(1)
                start = reader.model.read(np.concatenate(earlier).reshape(1, -1), fresh)
            for both in zip(read[::2], read[1::2], strict=True):
                alike = np.array_equal(both[0].candidate.ids, both[1].candidate.ids)
                unknown.append((both[0].unknown_forms, both[1].unknown_forms))
                same.append(alike)
                differs.append(not alike and both[0].unknown_words != both[1].unknown_words)
            advance(len(batch))
    about = reader.about(text=f"{len(pairs):,} pairs of {name}", whole=whole, context=_describe_context(before))
    return PairScores(tuple(pairs), logp_K2, tuple(unknown), np.array(differs), np.array(same), about)


def _describe_context(before: int | None) -> str:
    if before == 0:
        return "context item: each sentence is read from a fresh state (--context document: after those of other pairs)"
    which = "all pairs" if before is None else f"the {before} pairs" if before > 1 else "the pair"
    return f"context {'document' if before is None else before}: read after the good sentences of {which} before it"


@dataclass(frozen=True)
class _ReadSentence:
    """A sentence as the model reads it; `unmarked` counts its literal `<unk>`, which have no form of their own."""

    candidate: Candidate
    unknown: tuple[str, ...]
    unmarked: int

    @property
    def unknown_forms(self) -> tuple[str, ...]:
        """Its unknown words in order, without the space before them."""
        return tuple(form.strip() or form for form in self.unknown)

    @property
    def unknown_words(self) -> tuple[Counter[str], int]:
        """Its unknown words, whatever their order."""
        return Counter(self.unknown), self.unmarked


def _read(reader: SentenceReader, text: str, end: str, spelling: Spelling | None) -> _ReadSentence:
    parts = list(reader.tokenizer.measure_stream([reader.begin + reader.prepare(text) + end], whole=False))
    if not any(len(part.ids) for part in parts):
        raise OptionError(f"the sentence {text!r} holds no tokens; expected text; leave it out")
    unknown = tuple(form for part in parts for form in part.unknown_forms)
    nats = spelling.total(unknown) if spelling is not None and unknown else 0.0
    candidate = Candidate(np.concatenate([part.ids for part in parts]), nats, sum(part.chars for part in parts))
    return _ReadSentence(candidate, unknown, sum(part.unknown for part in parts) - len(unknown))
