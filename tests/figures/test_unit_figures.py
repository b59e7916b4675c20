"""Coloured text: every character is where it was, in the colour of its value."""

from __future__ import annotations

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.figures import units
from thereafter.inspection.measurement import Measurement

TEXT = 'if x:\n    y = "a<b"\n' * 3


@pytest.fixture
def found() -> Measurement:
    value = np.array([c in 'a<b"' for c in TEXT], dtype=float)
    return Measurement(
        "units",
        {
            "property": np.array(["quotes", "line-position"]),
            "yes_no": np.array([True, False]),
            "unit": np.array([["l0.c[3]"], ["l0.h[1]"]]),
            "chosen": np.array([[0.95], [0.8]]),
            "held_out": np.array([[0.94], [0.75]]),
            "direction": np.array([[1], [-1]]),
            "control": np.array([0.52, 0.03]),
            "token": np.array([list(TEXT)] * 2),
            "value": np.stack([value, np.arange(len(TEXT), dtype=float)]),
            "truth": np.stack([value, np.arange(len(TEXT), dtype=float)]),
        },
        {"property": ("property",), "yes_no": ("property",), "control": ("property",)}
        | dict.fromkeys(("unit", "chosen", "held_out", "direction"), ("property", "rank"))
        | dict.fromkeys(("token", "value", "truth"), ("property", "step")),
        {"model": "lstm", "text": "code", "tokens": 100, "units": 8, "meaning": {"quotes": "inside a string"}},
    )


def test_the_picture_holds_the_text(found: Measurement):
    drawn = units.coloured_units(found, "quotes")
    assert "".join(drawn.table["character"]) == TEXT
    text = drawn.plot.data[0].text
    assert "".join(text[1]).startswith('    y = "a<b"')
    values = np.array(drawn.table["state"])
    assert values.min() == -1
    assert values.max() == 1
    assert drawn.plot.layout.xaxis.title.text
    assert drawn.plot.layout.yaxis.title.text
    for part in ("lstm", "code", "0.94", "0.52"):
        assert part in drawn.caption
    assert "low where the property is high" in units.coloured_units(found, "line-position").caption
    with assert_refused(OptionError, "quotes"):
        units.coloured_units(found, "quote")


def test_long_lines_go_on_and_the_number_of_lines_is_kept():
    letters = units.lay_out(["x"] * 200, np.arange(200.0), np.zeros(200), lines=2)
    assert [sum(one.line == line for one in letters) for line in (0, 1)] == [units.WIDTH, units.WIDTH]


def test_red_is_high_and_blue_is_low():
    high, low = units.shade(1.0), units.shade(-1.0)
    assert high[0] > high[2]
    assert low[2] > low[0]


def test_the_ranking_has_units_and_control(found: Measurement):
    drawn = units.unit_ranking(found)
    assert [list(bar.y) for bar in drawn.plot.data] == [pytest.approx([0.88, 0.75]), pytest.approx([0.04, 0.03])]
    assert drawn.table["held out"] == [0.94, 0.75]
    assert "lstm" in drawn.caption
