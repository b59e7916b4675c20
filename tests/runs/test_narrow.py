"""Weights in fewer bytes: rounded by at most half a step, four times smaller, read back as float32; damage refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import thereafter
from refusals import assert_refused
from tasks.toys import tagged
from thereafter.base import progress
from thereafter.base.storage import map_arrays
from thereafter.errors import FormatError, OptionError
from thereafter.runs.narrow import SCALE, narrowed, quantised, widened

TEXT = "the cat sat on the mat and the dog ate the fish\n" * 40
TINY = {"model": "lstm", "tokens": "char", "hidden": 96, "layers": 1, "embed": 32, "tied": False, "seed": 1}
TINY |= {"tokens_budget": 2_000, "batch": 8, "steps": 16}


@pytest.fixture(scope="module")
def lm() -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, device="cpu", **TINY)


@pytest.fixture
def small(lm: thereafter.LanguageModel, tmp_path: Path) -> Path:
    return lm.save(tmp_path / "small", dtype="int8")


def random_weights(seed: int = 0) -> NDArray[np.float32]:
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(60, 4, 10)) * np.exp(draw.normal(size=(60, 1, 1)) * 4)
    rows[7] = 0
    return rows.astype(np.float32)


def test_a_number_is_off_by_at_most_half_a_step_of_its_row() -> None:
    weight = random_weights()
    steps, scale_R = quantised(weight)
    assert steps.dtype == np.int8
    assert steps.shape == weight.shape
    assert np.array_equal(scale_R, np.abs(weight).reshape(60, -1).max(1) / np.float32(127))
    back = widened({"w": steps, f"w{SCALE}": scale_R})["w"]
    assert back.dtype == np.float32
    off = np.abs(back.astype(np.float64) - weight).reshape(60, -1).max(1)
    assert np.all(off <= scale_R.astype(np.float64) * (0.5 + 1e-5))
    assert not back[7].any()
    again, same_R = quantised(back.astype(np.float32))
    assert np.array_equal(again, steps)  # rounding what is rounded changes nothing
    assert np.allclose(same_R, scale_R, rtol=1e-6)


def test_what_is_stored_as_what() -> None:
    arrays: dict[str, NDArray[np.generic]] = {
        "matrix": random_weights()[:, 0],
        "vector": np.linspace(-1, 1, 1_000, dtype=np.float32),
        "small": np.ones((4, 4), np.float32),
        "thin": np.ones((400, 2), np.float32),
        "large": np.full(3, 1e6, np.float32),
        "double": np.ones((50, 50)),
        "ids": np.arange(9),
        "none": np.empty((0, 5), np.float32),
        "flag": np.float32(1).reshape(()),
    }
    assert narrowed(arrays, "float32") == arrays
    whole = {"large": "float32", "double": "float64", "ids": "int64"}
    half = dict.fromkeys(arrays, "float16") | whole
    assert {name: str(one.dtype) for name, one in narrowed(arrays, "float16").items()} == half
    stored = narrowed(arrays, "int8")
    assert {name: str(one.dtype) for name, one in stored.items()} == half | {
        "matrix": "int8",
        f"matrix{SCALE}": "float32",
    }
    for form in ("float16", "int8"):
        back = widened(narrowed(arrays, form))
        assert list(back) == list(arrays)
        for name, array in arrays.items():
            assert back[name].dtype == array.dtype
            assert back[name].shape == array.shape
            np.testing.assert_allclose(back[name], array, rtol=1e-3, atol=np.abs(array).max(initial=0) / 250)


def test_four_times_smaller_and_nearly_as_good(lm: thereafter.LanguageModel, tmp_path: Path) -> None:
    sizes, bits = {}, {}
    before = lm.score(text=TEXT).bits_per_byte
    for dtype in ("float32", "float16", "int8"):
        folder = lm.save(tmp_path / dtype, dtype=dtype)
        sizes[dtype] = sum(array.nbytes for array in load_file(folder / "weights.safetensors").values())
        again = thereafter.load(folder)
        assert again.config.keys() == lm.config.keys()
        bits[dtype] = again.score(text=TEXT).bits_per_byte
        assert (f'dtype = "{dtype}"' in (folder / "config.toml").read_text()) == (dtype != "float32")
    assert bits["float32"] == before
    assert bits["float16"] == pytest.approx(before, rel=1e-3)
    assert bits["int8"] == pytest.approx(before, rel=0.01)
    assert sizes["float16"] * 2 == sizes["float32"]
    assert sizes["int8"] < 0.3 * sizes["float32"]  # scales and vectors weigh more the smaller a model is
    wide = thereafter.load(tmp_path / "int8").save(tmp_path / "wide")
    assert "dtype" not in (wide / "config.toml").read_text()
    assert thereafter.load(wide).score(text=TEXT).bits_per_byte == bits["int8"]


def test_what_a_form_costs_is_said(lm: thereafter.LanguageModel, tmp_path: Path) -> None:
    notes: list[str] = []

    class Listener(progress.Silent):
        def note(self, message: str) -> None:
            notes.append(message)

    book = tmp_path / "book.txt"
    book.write_text(TEXT)
    with progress.reporting(Listener()):
        run = lm.save(tmp_path / "run", dtype="int8", check=book)
    (note,) = (note for note in notes if "bits per byte" in note)
    after, before = (thereafter.load(run).score(book).bits_per_byte, lm.score(book).bits_per_byte)
    assert f"weights as int8, {(run / 'weights.safetensors').stat().st_size:,} bytes: {after:.4f} bits" in note
    assert f"{before:.4f} before they were rounded ({100 * (after / before - 1):+.2f} %)" in note


def test_a_task_is_stored_small(tmp_path: Path) -> None:
    source = tagged(tmp_path / "tags.tsv", 60)
    model = thereafter.train(source, task="tag", hidden=32, epochs=1, seed=1, device="cpu")
    again = thereafter.load(model.save(tmp_path / "run", dtype="int8"))
    size = (tmp_path / "run" / "weights.safetensors").stat().st_size
    assert size < 0.4 * (model.save(tmp_path / "wide") / "weights.safetensors").stat().st_size
    assert again.score(source).accuracy == pytest.approx(model.score(source).accuracy, abs=0.02)
    with assert_refused(OptionError, "dtype", "int4", "float32", "float16", "int8"):
        model.save(tmp_path / "four", dtype="int4")
    assert not (tmp_path / "four").exists()


def test_counted_models_and_broken_ones_are_refused(lm: thereafter.LanguageModel, tmp_path: Path) -> None:
    counted = thereafter.train(text=TEXT, order=2)
    with assert_refused(OptionError, "ngram", "dtype"):
        counted.save(tmp_path / "run", dtype="int8")
    with assert_refused(OptionError, "'w'", "int8", "dtype='float32'"):
        narrowed({"w": np.full((40, 40), np.nan, np.float32)}, "int8")
    with assert_refused(OptionError, "dtype", "int9"):
        lm.save(tmp_path / "run", dtype="int9")
    assert not (tmp_path / "run").exists()


def test_hostile_scales_are_one_sentence(small: Path) -> None:
    weights = small / "weights.safetensors"
    arrays = load_file(weights)
    facts = map_arrays(weights)[1]
    name = "layers.weight_hh_l0"
    scale = arrays[name + SCALE]
    no_int8 = {one: array for one, array in arrays.items() if one != name}
    damaged = {
        "are not all numbers from 0": arrays | {name + SCALE: np.where(np.arange(len(scale)) == 3, np.nan, scale)},
        "not all numbers from 0 to": arrays | {name + SCALE: -scale},
        "numbers from 0 to 2.7e": arrays | {name + SCALE: np.full_like(scale, np.inf)},
        "are (3,) of float32; expected (384,) of float32": arrays | {name + SCALE: scale[:3].copy()},
        "of float64; expected": arrays | {name + SCALE: scale.astype(np.float64)},
        "have no scales; expected one for each row": {k: v for k, v in arrays.items() if k != name + SCALE},
        "belong to no int8 weights": no_int8,
        "belong to no int8 weights; expected some": arrays | {"head.bias" + SCALE: scale},
    }
    for words, content in damaged.items():
        save_file({one: np.ascontiguousarray(array) for one, array in content.items()}, weights, facts)
        with pytest.raises(FormatError) as error:
            thereafter.load(small)
        assert words in str(error.value)
        assert str(weights) in str(error.value)


@pytest.mark.parametrize("form", ['dtype = "int4"', "dtype = 8", "size = 8", "[]", '"int8"'])
def test_a_form_that_nobody_writes_is_one_sentence(small: Path, form: str) -> None:
    config = small / "config.toml"
    head, _ = config.read_text().split("[weights]")
    config.write_text(head + f"[weights]\n{form}" if " = " in form else f"weights = {form}\n{head}")
    with assert_refused(FormatError, "dtype", "float32", "float16"):
        thereafter.load(small)


def test_int8_without_its_form_is_refused(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small, tmp_path / "copy")
    config = tmp_path / "copy" / "config.toml"
    config.write_text(config.read_text().split("[weights]")[0])
    with assert_refused(FormatError, "embedding.weight"):
        thereafter.load(tmp_path / "copy")
