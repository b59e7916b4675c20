"""Surprisal: -log2 p of every word, token, sentence or line of a text, under one model or several side by side.

    bits          = sum over the tokens of a unit of -log2 p
    spelling bits = what its unknown forms pay for their spelling (see `scores`)

Over all rows both add up to the `nats` and `spelling_nats` of the score, divided by ln 2. The rows of a table and the
arrays of a `Measurement` hold the same figures.

Shapes: T tokens, U units, K likeliest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thereafter.base.tabular import PlainTable, Row, Tabular, free_names
from thereafter.errors import OptionError, UnknownNameError
from thereafter.evaluation.conditions import bare_word, check_column, summarise
from thereafter.evaluation.text_reading import TextReading, describe_context
from thereafter.evaluation.text_units import (
    LINE_END,
    UNITS,
    TextUnits,
    align_units,
    check_unit,
    count_words,
    cut_units,
    last_characters,
    words_alone,
)
from thereafter.inspection.measurement import DrawnFigure, Measurement
from thereafter.text.reading import lines_of

Floats = NDArray[np.float64]
_BITS = 1 / math.log(2)
SHOWN_END = "\\n"
"""How a line end is written in a table."""


@dataclass(frozen=True, repr=False)
class Surprisals(Tabular):
    """The surprisal of every unit of a text: a row each, columns for each model.

    `by` is "word", "token", "sentence" or "line". `units` has the same units for every reading.
    """

    readings: tuple[TextReading, ...]
    by: str
    units: tuple[TextUnits, ...]

    @property
    def texts(self) -> list[str]:
        """The words (or tokens, sentences, lines) as they are written."""
        return self.units[0].texts

    @property
    def lines(self) -> NDArray[np.int64]:
        """The line on which each begins, from 1."""
        return self.units[0].lines_U

    @property
    def words(self) -> int:
        """How many words the text has as it is written, the same for every model; line ends are none."""
        if self.by == "token":
            return count_words(common_text(self.readings))
        return sum(map(count_words, self.texts))

    def bits(self, model: int | str = 0) -> Floats:
        """-log2 p of each unit under one of the models, by its number or its name, [U]."""
        number = self._number(model)
        return self.units[number].sums(self.readings[number].costs.nats_T) * _BITS

    def spelling_bits(self, model: int | str = 0) -> Floats:
        """What the unknown forms of each unit pay for their spelling, in bits, [U]."""
        number = self._number(model)
        return self.units[number].sums(self.readings[number].costs.spelling_T) * _BITS

    def unknown(self, model: int | str = 0) -> NDArray[np.int64]:
        """How many unknown tokens each unit has, [U]."""
        number = self._number(model)
        return self.units[number].sums(self.readings[number].costs.unknown_T.astype(np.float64)).astype(np.int64)

    def bits_per_word(self, model: int | str = 0) -> float:
        """The bits of the whole text, line ends included, over its words as they are written."""
        return float(self.bits(model).sum()) / max(1, self.words)

    def __repr__(self) -> str:
        means = ", ".join(f"{one.model} {self.bits_per_word(place):.2f}" for place, one in enumerate(self.readings))
        return (
            f"<Surprisals of {self.readings[0].text} by {self.by}: {len(self.texts):,} rows, {self.words:,} words; "
            f"{means} bits per word>"
        )

    def _number(self, model: int | str) -> int:
        names = [reading.model for reading in self.readings]
        if isinstance(model, str):
            if model not in names:
                raise UnknownNameError("model", model, names)
            return names.index(model)
        if not -len(names) <= model < len(names):
            raise OptionError(f"model is {model}; expected 0 to {len(names) - 1}, or a name: {', '.join(names)}")
        return model

    @property
    def context(self) -> str:
        """How the lines were read, as a sentence."""
        first, item = self.readings[0], "row" if self.readings[0].rows else "line"
        afresh = [reading.model for reading in self.readings if reading.context == "line"]
        if first.before is not None or not afresh:
            return describe_context(first.before, item)
        if len(afresh) == len(self.readings):
            return f"context line: as in training, each {item} is read from a fresh state"
        return f"{describe_context(None, item)}; {', '.join(afresh)}: each {item} from a fresh state, as in training"

    def to_rows(self) -> list[Row]:
        columns = self._shared_columns()
        marks = column_marks([reading.model for reading in self.readings])
        for number, mark in enumerate(marks):
            columns |= {f"{name}{mark}": values for name, values in self._columns(number).items()}
        columns = self._table_columns(columns) | columns
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]

    def line_bytes(self) -> Floats:
        """The bytes of the lines of each unit, line ends included, [U]; for `by="line"` alone.

        They are those of the text as the models read it, as in a score; if these differ, of the text as it is written.
        """
        if len({reading.costs.text for reading in self.readings}) == 1:
            ends = np.concatenate(([0], self.readings[0].costs.ends_T))
            return np.diff(ends[self.units[0].first_U1]).astype(np.float64)
        sizes = [len(line.encode()) for line in lines_of([common_text(self.readings)], ends=True)]
        return np.add.reduceat(np.array(sizes, dtype=np.float64), self.lines - 1)

    def conditions(self, by: str, item: str | None = None) -> PlainTable:
        """Mean bits of the rows of a table by a column, with intervals, and paired differences by item.

        For each model a row for each condition, then one for each two conditions (`evaluation.conditions`). `item`: the
        column that says which rows belong together, by default `item`.
        """
        table = tabulate([replace(reading, predicted=None) for reading in self.readings], "line")
        rows = self.readings[0].rows
        check_column(by, list(rows[0]) if rows else [], UNITS)
        words = np.array([count_words(text) for text in table.texts], dtype=np.float64)
        summary: list[Row] = []
        for number, reading in enumerate(self.readings):
            bits = table.bits(number)
            means = np.divide(bits, words, out=np.full(len(bits), math.nan), where=words > 0)
            figures = {"bits": bits, "bits_per_word": means}
            chosen = [rows[line - 1] for line in table.lines.tolist()]
            summary += [{"model": reading.model} | row for row in summarise(chosen, by, figures, item)]
        return PlainTable(tuple(summary))

    def measurement(self) -> Measurement:
        """The same as named arrays, to be saved as `.npz` and drawn.

        `bits` and `spelling_bits` [model, step], `text` and `line` [step]; with detail `rank`, `entropy`, `context`.
        """
        models = range(len(self.readings))
        arrays: dict[str, NDArray[np.generic]] = {
            "model": np.array([reading.model for reading in self.readings]),
            "text": np.array(self.texts),
            "line": np.asarray(self.lines),
            "bits": np.stack([self.bits(number) for number in models]),
            "spelling_bits": np.stack([self.spelling_bits(number) for number in models]),
            "unknown": np.stack([self.unknown(number) for number in models]),
        }
        detailed = [(one, one.predicted, units) for one, units in zip(self.readings, self.units, strict=True)]
        chosen: dict[str, list[Floats]] = {"rank": [], "entropy": [], "context": []}
        for reading, predicted, units in detailed:
            if predicted is not None:
                figures = (predicted.rank_T, predicted.entropy_T, predicted.context_T)
                for values, figure_T in zip(chosen.values(), figures, strict=True):
                    # that of the prediction where each unit begins; NaN where the model has no token of it
                    values.append(np.append(figure_T.astype(np.float64), np.nan)[reading.decisive(units)])
        if all(predicted is not None for _, predicted, _ in detailed):
            arrays |= {name: np.stack(values) for name, values in chosen.items()}
        axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("model", "step"))
        axes |= {"model": ("model",), "text": ("step",), "line": ("step",)}
        about = {
            "model": " and ".join(reading.model for reading in self.readings),
            "text": self.readings[0].text,
            "by": self.by,
            "words": sum(map(count_words, self.texts)),
            "tokens": [len(reading.costs.ids) for reading in self.readings],
            "notes": [note for reading in self.readings for note in reading.notes],
        }
        return Measurement("surprisal", arrays, axes, about)

    def figure(self, **options: object) -> DrawnFigure:
        """The text in the colours of its surprisal."""
        return self.measurement().figure(None, **options)

    def _shared_columns(self) -> dict[str, Sequence[object]]:
        texts = self.texts
        places = np.arange(len(texts))
        if self.readings[0].are_items and self.by != "line":  # counted from the beginning of each item
            places -= np.maximum.accumulate(np.where(np.diff(self.lines, prepend=0) != 0, places, 0))
        columns: dict[str, Sequence[object]] = {
            "position": (places + 1).tolist(),
            "line": self.lines.tolist(),
            "text" if self.by == "line" else self.by: [text.replace(LINE_END, SHOWN_END) for text in texts],
        }
        if self.by in ("word", "token"):
            columns["line_end"] = [text == LINE_END for text in texts]
            if self.by == "word" and self.readings[0].are_items:
                columns["bare_word"] = bare = [bare_word(text) for text in texts]
                columns["length"] = [len(word) or None for word in bare]
        else:
            columns["words"] = [count_words(text) for text in texts]
        return columns

    def _table_columns(self, ours: Collection[str]) -> dict[str, Sequence[object]]:
        """The columns of the table that the text is a column of; one that has a name of ours gets another."""
        rows = self.readings[0].rows
        places = (np.minimum(self.lines, len(rows)) - 1).tolist()
        names = free_names([name for row in rows for name in row], ours)
        return {free: [rows[place].get(name) for place in places] for name, free in names.items()}

    def _bare_columns(self, number: int) -> dict[str, Sequence[object]]:
        """The bits of words without the tokens of punctuation around them, and how frequent the words are."""
        reading, units = self.readings[number], self.units[number]
        letters_T, marks_T = reading.costs.marks()
        counts_T = np.concatenate(([0], np.cumsum(letters_T)))
        unit_T = np.repeat(np.arange(len(units)), np.diff(units.first_U1))
        before_T = counts_T[:-1] == counts_T[units.first_U1[unit_T]]
        after_T = counts_T[1:] == counts_T[units.first_U1[unit_T + 1]]
        outside_T = marks_T & (before_T | after_T)
        bits = units.sums(np.where(outside_T, 0.0, reading.costs.nats_T)) * _BITS
        bare = [bare_word(text) for text in self.texts]
        columns: dict[str, Sequence[object]] = {
            "bare_bits": [value if word else None for word, value in zip(bare, bits.tolist(), strict=True)]
        }
        frequency = {word: reading.counts.log_frequency(word) for word in set(bare) if word and reading.counts}
        return columns | {"log_frequency": [frequency.get(word) for word in bare]}

    def _columns(self, number: int) -> dict[str, Sequence[object]]:
        reading, units = self.readings[number], self.units[number]
        counts = np.diff(units.first_U1)
        bits = self.bits(number)
        columns: dict[str, Sequence[object]] = {}
        if self.by == "word":
            shown = [piece.replace(LINE_END, SHOWN_END) for piece in reading.pieces()]
            columns["tokens"] = ["|".join(shown[begin:end]) for begin, end in pairwise(units.first_U1.tolist())]
        elif self.by != "token":
            columns["tokens"] = counts.tolist()
        columns["unknown"] = self.unknown(number).tolist()
        columns["bits"] = bits.tolist()
        columns["spelling_bits"] = self.spelling_bits(number).tolist()
        if self.by == "word" and reading.are_items:
            columns |= self._bare_columns(number)
        if self.by in ("sentence", "line"):
            words = np.array([count_words(text) for text in self.texts])
            means = np.divide(bits, words, out=np.full(len(bits), math.nan), where=words > 0)
            columns["bits_per_word"] = [None if math.isnan(mean) else mean for mean in means.tolist()]
        if self.by == "line" and reading.normalised:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                columns["perplexity"] = np.exp2(bits / counts).tolist()
            columns["bits_per_byte"] = ((bits + self.spelling_bits(number)) / self.line_bytes()).tolist()
        columns |= _predicted_columns(reading, units)
        if not counts.all():  # a line end that other models read
            columns = {
                name: [value if count else None for value, count in zip(values, counts.tolist(), strict=True)]
                for name, values in columns.items()
            }
        return columns


def column_marks(models: Sequence[str]) -> list[str]:
    """What the names of columns end in, for each of several models: letters, digits and underscores, each once.

    >>> column_marks(["lstm-2", "lstm.2"]), column_marks(["lstm"])
    (['_lstm_2', '_lstm_2_2'], [''])
    """
    if len(models) == 1:
        return [""]
    marks: list[str] = []
    for name in models:
        plain, number = "_" + re.sub(r"\W", "_", name), 1
        marks.append(plain)
        while marks[-1] in marks[:-1]:
            number += 1
            marks[-1] = f"{plain}_{number}"
    return marks


def tabulate(readings: Sequence[TextReading], by: str = "word") -> Surprisals:
    """Readings of one text side by side; models of different tokens meet at the words as they are written."""
    check_unit(by)
    if not readings:
        raise OptionError("got no models; expected one at least")
    if by not in ("word", "token") and any(reading.predicted is not None for reading in readings):
        raise OptionError(
            f"rank, entropy and alternatives are those of one prediction, and a {by} has many; "
            "expected by='word' or 'token' with detail=True; try by='word'"
        )
    if by in ("sentence", "line"):
        return Surprisals(tuple(readings), by, tuple(common_units(readings, by)))
    units = [reading.units(by) for reading in readings]
    if by == "token" and any(one.texts != units[0].texts for one in units[1:]):
        raise OptionError(
            f"{readings[0].model} and the others have different tokens, so these cannot stand side by side; "
            "try by='word'"
        )
    if by == "word":
        units = align_units(units)
    return Surprisals(tuple(readings), by, tuple(units))


def _predicted_columns(reading: TextReading, units: TextUnits) -> dict[str, Sequence[object]]:
    """Those of the prediction before the first token of each unit that is not white space alone."""
    predicted = reading.predicted
    if predicted is None:
        return {}
    at = np.minimum(reading.decisive(units), len(predicted.rank_T) - 1)
    columns: dict[str, Sequence[object]] = {
        "rank": predicted.rank_T[at].tolist(),
        "entropy": predicted.entropy_T[at].tolist(),
        "context": predicted.context_T[at].tolist(),
    }
    names = {number: reading.tokenizer.piece(number) for number in np.unique(predicted.top_TK[at]).tolist()}
    for place in range(predicted.top_TK.shape[1]):
        tokens = [names[number].replace(LINE_END, SHOWN_END) for number in predicted.top_TK[at, place].tolist()]
        columns |= {f"top_{place + 1}": tokens, f"p_{place + 1}": predicted.p_TK[at, place].tolist()}
    return columns


# The sentences and lines of a text as it is written, the same for every model that has read it.
#
# The words of all models are brought onto the same borders, those of the text as it is written among them; sentences
# and lines are made up of these words.


def common_text(readings: Sequence[TextReading]) -> str:
    """The text of several readings as it is written: one that no model has rewritten, with capitals if there are any.

    A model of text in lower case has only the text in lower case.
    """
    texts = [one.as_written for one in sorted(readings, key=lambda one: not one.written)]
    return next((text for text in texts if text != text.lower()), texts[0])


def common_units(readings: Sequence[TextReading], by: str) -> list[TextUnits]:
    """The sentences or lines of the text as it is written, and which tokens of each reading make them up."""
    text = common_text(readings)
    if len(readings) == 1 and text == readings[0].costs.text:
        return [readings[0].units(by)]
    *words, written = align_units([*(one.units("word") for one in readings), words_alone(text)])
    # the last character of each aligned word; a line end that was not written stands where the text ends
    last = np.maximum(written.first_U1[1:] - 1, 0)
    sentence_a_line = all(one.has_sentence_a_line for one in readings)
    units = cut_units(text, last_characters(text)[last], by, sentence_a_line=sentence_a_line)
    return [TextUnits(units.texts, units.lines_U, part.first_U1[units.first_U1]) for part in words]
