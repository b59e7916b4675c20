"""Minimal pairs: two sentences that differ in one thing, of which a model should find the first one likelier.

    right where  log p(good) > log p(bad),  half right where they are equal

(Marvin and Linzen 2018; Warstadt et al. 2020, BLiMP). Any model can be asked, n-grams included: log p of a sentence is
the sum over its tokens and its line end, less the spelling of its unknown words, so that no sentence wins by being
unknown.

A pair file has either two sentences a line with a tab between them, the good one first, or a JSON object a line with
`sentence_good` and `sentence_bad`, as BLiMP's; `field`, `linguistics_term` and `UID` are groups to count by.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter import progress
from thereafter.decoding.ranking import log_probs, read_candidates
from thereafter.errors import EmptyCorpusError, FormatError
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.reading import read_chunks
from thereafter.text.spelling import Spelling

GROUPS = ("field", "linguistics_term", "UID")
_AT_ONCE = 256


@dataclass(frozen=True)
class Pair:
    """Two sentences, the good one first, and the groups the pair belongs to."""

    good: str
    bad: str
    groups: dict[str, str] = field(default_factory=dict)


def read_pairs(path: str | PathLike[str], *, encoding: str | None = None) -> list[Pair]:
    """The pairs of a file; empty lines are passed over, any other line without a pair is an error that names it."""
    text = "".join(read_chunks(path, encoding=encoding))
    pairs = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"line {number} of {Path(path)}"
            pairs.append(_of_json(line, where) if line.lstrip().startswith("{") else _of_tabs(line, where))
    if not pairs:
        raise EmptyCorpusError(f"{Path(path)} has no pairs; expected two sentences a line with a tab between them")
    return pairs


def _of_tabs(line: str, where: str) -> Pair:
    parts = [part.strip() for part in line.split("\t")]
    if len(parts) != 2:
        raise FormatError(
            f"{where} has {len(parts)} parts between tabs; expected two sentences with one tab between them, or a JSON "
            "object with sentence_good and sentence_bad"
        )
    return _checked(Pair(parts[0], parts[1]), where)


def _of_json(line: str, where: str) -> Pair:
    try:
        given = json.loads(line)
    except ValueError as error:
        raise FormatError(f"{where} begins like JSON and is not ({error}); expected one whole object a line") from None
    sentences = [given.get(name) for name in ("sentence_good", "sentence_bad")]
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise FormatError(
            f"{where} lacks sentence_good or sentence_bad as text; it has {', '.join(given) or 'nothing'}"
        )
    groups = {name: str(given[name]) for name in GROUPS if given.get(name)}
    return _checked(Pair(sentences[0].strip(), sentences[1].strip(), groups), where)


def _checked(pair: Pair, where: str) -> Pair:
    if not pair.good or not pair.bad:
        raise FormatError(f"{where} has an empty sentence; expected two sentences")
    if pair.good == pair.bad:
        raise FormatError(f"{where} has the same sentence twice: {pair.good!r}; expected two that differ")
    return pair


def pair_differences(reader: SentenceReader, pairs: Sequence[Pair], *, whole: bool = True) -> NDArray[np.float64]:
    """log p(good) - log p(bad) of each pair, in nats, each from a fresh start.

    `whole` sentences pay for their line end too; without it they may be beginnings, such as `the dogs are`.
    """
    tokenizer, end = reader.tokenizer, "\n" if whole else ""
    spelling = None if tokenizer.unknown_id is None else Spelling.from_forms(tokenizer.ordinary_forms)
    start = reader.model.start(1)
    differences = np.empty(len(pairs))
    with progress.task("pairs", total=len(pairs), unit="pairs") as advance:
        for at in range(0, len(pairs), _AT_ONCE):
            batch = pairs[at : at + _AT_ONCE]
            texts = [text for pair in batch for text in (pair.good, pair.bad)]
            scored = read_candidates((reader.begin + reader.prepare(text) + end for text in texts), tokenizer, spelling)
            logp = np.array(log_probs(reader.model, start, scored, "sentence")).reshape(-1, 2)
            # two impossible sentences are equally likely, though their difference is no number
            differences[at : at + _AT_ONCE] = np.where(logp[:, 0] == logp[:, 1], 0.0, logp[:, 0] - logp[:, 1])
            advance(len(batch))
    return differences


def score_pairs(
    reader: SentenceReader, pairs: Sequence[Pair], *, name: str = "pairs", whole: bool = True
) -> Measurement:
    """Accuracy and mean difference over all pairs (the first row, "all") and over each group, in the order of the file.

    Arrays [group]: `group` its name, `by` what it is a group of, `accuracy`, `nats` (the mean difference; infinite
    where a sentence is impossible), `total`.
    """
    if not pairs:
        raise EmptyCorpusError("there are no pairs to score; expected at least one")
    with np.errstate(invalid="ignore"):
        differences = pair_differences(reader, pairs, whole=whole)
        right = np.where(differences == 0, 0.5, differences > 0)
        rows: dict[tuple[str, str], list[int]] = {("", "all"): list(range(len(pairs)))}
        for by in GROUPS:
            for place, pair in enumerate(pairs):
                if by in pair.groups:
                    rows.setdefault((by, pair.groups[by]), []).append(place)
        arrays: Arrays = {
            "group": np.array([group for _, group in rows]),
            "by": np.array([by for by, _ in rows]),
            "accuracy": np.array([right[places].mean() for places in rows.values()]),
            "nats": np.array([differences[places].mean() for places in rows.values()]),
            "total": np.array([len(places) for places in rows.values()]),
        }
    about = reader.about(text=f"{len(pairs):,} pairs of {name}", whole=whole)
    return Measurement("pairs", arrays, dict.fromkeys(arrays, ("group",)), about)
