"""Configurations: what is written is read back by the standard library's own reader, whatever it holds."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import assert_refused
from thereafter.base import config
from thereafter.errors import FormatError, OptionError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts)
values = st.one_of(plain, st.lists(plain, max_size=4))
tables = st.dictionaries(texts, values, max_size=4)


@given(st.dictionaries(texts, st.one_of(values, tables), max_size=6))
def test_written_and_read_back(table: dict[str, Any]) -> None:
    assert config.loads(config.dumps(table)) == table


@pytest.mark.parametrize("value", [0.1, 1e300, 1e-300, -0.0, math.inf, -math.inf, 1e16, 2**53 + 0.0])
def test_numbers_keep_every_bit_and_their_kind(value: float) -> None:
    again = config.loads(config.dumps({"x": value}))["x"]
    assert isinstance(again, float)
    assert (again, math.copysign(1, again)) == (value, math.copysign(1, value))


def test_not_a_number_is_kept() -> None:
    assert math.isnan(config.loads(config.dumps({"x": math.nan}))["x"])


def test_numpys_numbers_are_numbers() -> None:
    table = {"a": np.float64(0.1), "b": np.float32(0.5), "c": np.int64(3), "d": np.bool_(True), "e": [np.int32(1)]}
    assert tomllib.loads(config.dumps(table)) == {"a": 0.1, "b": 0.5, "c": 3, "d": True, "e": [1]}


def test_none_is_left_out_and_tuples_are_lists() -> None:
    assert tomllib.loads(config.dumps({"a": None, "b": {"c": None, "d": (1, 2)}})) == {"b": {"d": [1, 2]}}


def test_names_of_files_that_are_not_unicode_can_be_written() -> None:
    text = config.dumps({"name": "caf\udce9.txt"})  # how Python spells a Latin-1 file name
    assert tomllib.loads(text.encode("utf-8").decode("utf-8"))["name"].startswith("caf")


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1j])
def test_what_a_configuration_cannot_hold(value: object) -> None:
    with pytest.raises(TypeError, match="a configuration cannot hold"):
        config.dumps({"x": value})


@pytest.mark.parametrize("text", ["x = ", "x = 1\nx = 2", "[a\n", "\0", "x = " + "[" * 5000])
def test_what_is_not_toml(text: str) -> None:
    with assert_refused(FormatError, "my/config.toml"):
        config.loads(text, "my/config.toml")


@dataclass(frozen=True)
class Settings:
    order: int
    cutoffs: tuple[int, ...] = ()


def test_tables_become_settings() -> None:
    assert config.build(Settings, {"order": 3, "cutoffs": [0, 1]}, "ngram") == Settings(3, (0, 1))
    with assert_refused(OptionError, "ngram", "ordr", "order"):
        config.build(Settings, {"ordr": 3}, "ngram")
    with assert_refused(OptionError, "ngram", "order"):
        config.build(Settings, {}, "ngram")
