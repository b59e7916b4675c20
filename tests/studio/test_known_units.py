"""`units.json` of a run: what it names is in the list of models; what is not as it should be counts as none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import unit_of

from thereafter.ready.models import FOLLOWED, UNITS
from thereafter.serving.shelf import MOST_UNITS, Shelf, known_units

SOUND = {"number": "l0.c[17]", "quotes-or-comment": "l1.h[0]"}


def test_a_sound_file_is_read(tmp_path: Path):
    assert known_units(tmp_path) == {}
    (tmp_path / UNITS).write_text(json.dumps(SOUND), encoding="utf-8")
    assert known_units(tmp_path) == SOUND
    many = {f"property-{i}": f"l0.h[{i}]" for i in range(MOST_UNITS)}
    (tmp_path / UNITS).write_text(json.dumps(many), encoding="utf-8")
    assert known_units(tmp_path) == many


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b'"l0.c[17]"',
        b"\xff\xfe",
        b'{"number": 17}',
        b'{"number": "l0.c"}',
        b'{"number": "l0.c[17] "}',
        b'{"number": "l0.forget[17]"}',
        b'{"number": "l0.c[-1]"}',
        b'{"": "l0.c[1]"}',
        b'{"<b>": "l0.c[1]"}',
        json.dumps({f"property-{i}": "l0.c[1]" for i in range(MOST_UNITS + 1)}).encode(),
        b'{"number": "l0.c[17]"}' + b" " * 5_000,
        b"[" * 4_000,
    ],
)
def test_a_file_that_is_not_as_it_should_be_counts_as_none(tmp_path: Path, content: bytes):
    (tmp_path / UNITS).write_bytes(content)
    assert known_units(tmp_path) == {}


def test_a_link_and_a_pipe_count_as_none(tmp_path: Path):
    (tmp_path / "elsewhere.json").write_text(json.dumps(SOUND), encoding="utf-8")
    (tmp_path / UNITS).symlink_to(tmp_path / "elsewhere.json")
    assert known_units(tmp_path) == {}
    if hasattr(os, "mkfifo"):
        (tmp_path / UNITS).unlink()
        os.mkfifo(tmp_path / UNITS)
        assert known_units(tmp_path) == {}


def test_a_file_that_comes_later_is_seen(ready_folder: Path, tmp_path: Path):
    shutil.copytree(ready_folder / "rnn", tmp_path / "ready" / "rnn")
    shelf = Shelf(tmp_path / "ready", tmp_path / "runs")
    (tmp_path / "ready" / "rnn" / UNITS).unlink()
    assert [card.units for card in shelf.cards()] == [{}]
    (tmp_path / "ready" / "rnn" / UNITS).write_text(json.dumps(SOUND), encoding="utf-8")
    assert [card.units for card in shelf.cards()] == [SOUND]


def test_the_list_of_models_has_them(server: Any):
    units = {model["name"]: model["units"] for model in httpx.get(f"{server.address}/api/models").json()}
    assert units["ready:lstm"] == {"number": "{}[{}]".format(*unit_of("lstm"))}
    assert units["ready:letters"].keys() == set(FOLLOWED)
    assert units["ready:ngram"] == {}
