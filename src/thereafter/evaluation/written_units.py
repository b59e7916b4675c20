"""The sentences and lines of a text as it is written, the same for every model that has read it.

The words of all models are brought onto the same borders, those of the text as it is written among them; sentences and
lines are made up of these words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thereafter.evaluation.aligning import align_units
from thereafter.evaluation.text_reading import TextReading
from thereafter.evaluation.text_units import TextUnits, cut_units, last_characters, words_alone


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
