"""A refused option of `predict` is followed by what the task of the run takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from refusals import assert_refused
from thereafter.cli import app
from thereafter.cli.predict import example_of
from thereafter.errors import OptionError, ThereafterError
from thereafter.task_model import train_task
from thereafter.tasks import TASKS
from thereafter.vision.clips.reading import clip_of


def run_of(folder: Path, task: str) -> Path:
    """A run folder of a task as far as it is read before anything is loaded."""
    folder.mkdir()
    (folder / "config.toml").write_text(f'format = 1\ntask = "{task}"\n')
    return folder


def refusal(*words: object) -> str:
    with pytest.raises(ThereafterError) as refused:
        CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    return str(refused.value)


@pytest.mark.parametrize(
    ("task", "words", "remedy"),
    [
        ("act", "17 --figure a.png", "{} 17 --explain"),
        ("act", "17 --explain --figure a.png", "{} 17 --explain"),
        ("tag", "--figure a.png", "{} 'a text' --explain"),
        ("forecast", "--figure a.png", "{} --last table.csv --figure a.png"),
        ("glimpse", "--figure a.png", "{} picture.png --explain --figure a.png"),
        ("draw", "'my digit.png' --figure a.png", "{} 'my digit.png' --explain --figure a.png"),
        ("glimpse", "--samples 4", "{} picture.png"),
        ("act", "3 --samples 4", "{} 3"),
        ("video", "--seed 4", "{} clip.npz"),
        ("draw", "--seed 4", "{} --samples 16 --seed 4"),
        ("forecast", "--samples 3 --seed 4", "{} --last TABLE --samples 3 --seed 4"),
    ],
)
def test_a_figure_or_samples_are_answered_by_what_the_task_takes(
    tmp_path: Path, task: str, words: str, remedy: str
) -> None:
    run = run_of(tmp_path / "run", task)
    expected = f"try: thereafter predict {remedy.format(run)}"
    assert refusal("predict", run, *shlex.split(words)).endswith(expected)


def test_new_pictures_are_refused_a_file_of_text_by_the_ending_of_arrays(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "draw")
    assert refusal("predict", run, "--samples", 4, "--out", "s.txt").endswith("ends in .npz; try s.npz")
    assert "expected .csv, .tsv, .json" in refusal("predict", run, "a.png", "--out", "s.txt")


def test_every_task_has_an_input_of_its_kind() -> None:
    of_texts = {name for name in TASKS if example_of(TASKS.load(name)) == "'a text'"}
    assert of_texts == {"tag", "classify", "fill", "translate"}


def test_a_clip_without_frames_to_compare_is_refused_by_what_predicts_it(tmp_path: Path) -> None:
    frames_NTHW = np.random.default_rng(0).integers(0, 255, (4, 6, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "clips.npz", frames=frames_NTHW)
    options = {"model": "copy", "read": 3, "ahead": 3, "device": "cpu"}
    model = train_task("next-frames", tmp_path / "clips.npz", options, valid=tmp_path / "clips.npz")
    with assert_refused(OptionError, 3, "--out frames.npz"):
        model.explain([clip_of(frames_NTHW[0, :3])])


def test_a_task_without_any_exported_form_is_not_sent_from_one_to_the_other(tmp_path: Path) -> None:
    np.savez(tmp_path / "clips.npz", frames=np.zeros((2, 4, 8, 8), np.uint8))
    options = {"model": "copy", "device": "cpu"}
    model = train_task("next-frames", tmp_path / "clips.npz", options, valid=tmp_path / "clips.npz")
    for form in ("c", "onnx", "html"):
        with assert_refused(ThereafterError, "--to run"):
            model.export(tmp_path / f"out.{form}", form)
