"""Run folders that were written before (`old_runs/make.py`) still load, say the same, and are trained to their end."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import thereafter
from thereafter.tasks import TASKS
from thereafter.training.kinds import MODELS

OLD = Path(__file__).parent / "old_runs"
TEXTS = OLD / "texts"
PLACE = "@TEXTS@"
"""Stands in a stored `config.toml` where the folder of the texts belongs."""
EXPECTED: dict[str, dict[str, Any]] = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))
HALFWAY = [name for name, known in EXPECTED.items() if "halfway" in known]

NEXT = "the old dog"
ASKED: dict[str, tuple[str, list[str], str]] = {
    "tag": ("tags.tsv", ["the dog7 walks", "Ann sings a singing"], "accuracy"),
    "classify": ("labels.tsv", ["we saw the gripping film", "the film was dull at noon"], "accuracy"),
    "fill": ("sounds.txt", ["the ___ barked and the cat purred", "the dog barked and the ___ mooed"], "perplexity"),
    "translate": ("pairs.tsv", ["a b", "d c b"], "words"),
    "forecast": ("load.csv", ["1 4 2 5 1 4 2 5 1 4 2 5", "5 1 4 2 5 1 4 2"], "mse"),
    "classify-pictures": ("lit.npz", [str(TEXTS / f"lit-{half}.npy") for half in ("top", "bottom")], "accuracy"),
    "glimpse": ("lit.npz", [str(TEXTS / f"lit-{half}.npy") for half in ("top", "bottom")], "accuracy"),
    "caption": ("captioned", [str(TEXTS / f"picture-{name}.npy") for name in ("one", "other")], "bleu_1"),
    "video": ("squares.npz", [str(TEXTS / f"square-{size}.npy") for size in ("small", "large")], "size"),
    "next-frames": ("going.npz", [str(TEXTS / f"square-{size}.npy") for size in ("small", "large")], "nats"),
    "draw": ("lit.npz", [str(TEXTS / f"lit-{half}.npy") for half in ("top", "bottom")], "nats"),
    "act": ("catch.json", ["3", "2:7"], "caught"),
    "classify-series": ("shapes.csv", ["0 1 2 3 4", "4 3 2 1 0"], "accuracy"),
}
"""By task: what it is scored on, what it is asked, and the figure of its score that is recorded."""

SCORES = 1e-4
"""The relative error allowed to scores and probabilities of the same weights on another machine."""
RESUMED = 1e-3
"""The same for a validation after some dozens of steps on another machine."""


def opened(run: Path) -> Any:
    """A run as its user loads it."""
    return thereafter.load(run)


def resumed(run: Path) -> Any:
    """A run as its user goes on with it."""
    return thereafter.resume(run)


def figures(model: Any, task: str | None) -> dict[str, float]:
    """Numbers that depend on the weights: scores and probabilities."""
    if task is None:
        score = model.score(TEXTS / "other.txt")
        likeliest = {f"p({word!r})": p for word, p in model.next(NEXT, 3)}
        return {"perplexity": score.perplexity, "bits_per_byte": score.bits_per_byte, **likeliest}
    source, asked, name = ASKED[task]
    with warnings.catch_warnings():  # it is scored on what it learned from, and says so
        warnings.filterwarnings("ignore", message="all of these rows")
        numbers = {name: model.score(TEXTS / source).as_dict()[name]}
    if task == "forecast":
        means = [float(value) for one in model.predict(asked) for value in one.mean_HD[:, 0]]
        return numbers | {f"mean {number}": mean for number, mean in enumerate(means)}
    if task == "next-frames":
        lit = [float(value) for one in model.predict(asked) for value in one.frames_KHW.sum((1, 2))]
        return numbers | {f"lit {number}": value for number, value in enumerate(lit)}
    if task == "draw":
        parts = [(one.nats, float(one.chances_CHW.sum())) for one in model.predict(asked)]
        return numbers | {f"part {number}": value for number, value in enumerate(sum(parts, ()))}
    if task == "fill":
        chances = [p for words in model.predict(asked) for _, p in words]
    else:
        chances = [float(p) for explained in model.explain(asked) for p in probabilities(explained, task)]
    return numbers | {f"chance {number}": chance for number, chance in enumerate(chances)}


def probabilities(explained: Any, task: str) -> Iterable[float]:
    """The numbers of an explanation: of the labels, of the tag of each word, of where each word of an answer looked."""
    if task in ("classify", "classify-series", "classify-pictures", "glimpse"):
        return explained.probabilities.values()
    if task == "video":
        return [p for known in explained.answer.probabilities.values() for p in known.values()]
    if task == "act":
        return explained.chances_TA.max(axis=1)
    if task == "tag":
        return [likeliest[0][1] for likeliest in explained.likeliest]
    return explained.weights.max(axis=1)


def answers(model: Any, task: str | None) -> list[str]:
    """What a user reads of it."""
    if task is None:
        return [word for word, _ in model.next(NEXT, 3)]
    said = model.predict(ASKED[task][1])
    if task == "video":
        return [" ".join(one.labels.values()) for one in said]
    if task == "next-frames":
        return [f"{len(one)} frames" for one in said]
    if task == "draw":
        return [f"{len(one.latent_T)} strokes" for one in said]
    if task == "act":
        return [str(one) for one in said]
    if task == "forecast":
        return [f"{len(one)} steps of {', '.join(one.targets)}" for one in said]
    return [str(one[0][0]) if task == "fill" else one if isinstance(one, str) else " ".join(one) for one in said]


def placed(name: str, moment: str, folder: Path) -> Path:
    """A stored run as it would lie where it was trained: with the paths of this machine."""
    run = folder / name
    shutil.copytree(OLD / name / moment, run)
    config = run / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace(PLACE, TEXTS.as_posix()), encoding="utf-8")
    return run


def test_there_is_an_old_run_of_every_kind():
    models = {known["model"] for known in EXPECTED.values() if known["task"] is None}
    tasks = {known["task"] for known in EXPECTED.values()} - {None}
    assert models >= {*MODELS}
    assert tasks >= {*TASKS}
    assert {name for name in MODELS if name != "ngram"} <= {EXPECTED[name]["model"] for name in HALFWAY}
    assert tasks <= {EXPECTED[name]["task"] for name in HALFWAY}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_finished_run_says_what_it_said(name: str, tmp_path: Path):
    known = EXPECTED[name]
    model = opened(placed(name, "finished", tmp_path))
    assert figures(model, known["task"]) == pytest.approx(known["finished"]["figures"], rel=SCORES)
    assert answers(model, known["task"]) == known["finished"]["answers"]
    model.save(tmp_path / "again")
    assert_same_arrays(tmp_path / "again", OLD / name / "finished")


def assert_same_arrays(run: Path, other: Path) -> None:
    """A figure may not depend on every weight; the weights themselves are to be the same to the bit."""
    ours, theirs = (load_file(folder / "weights.safetensors") for folder in (run, other))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name, strict=True)


@pytest.mark.parametrize("name", HALFWAY)
def test_a_run_that_was_stopped_halfway_goes_on_to_its_end(name: str, tmp_path: Path):
    known, halfway = EXPECTED[name], EXPECTED[name]["halfway"]
    run = placed(name, "halfway", tmp_path)
    if halfway["figures"] is not None:  # the best weights so far can be used at any time
        early = figures(opened(run), known["task"])
        assert early == pytest.approx(halfway["figures"], rel=SCORES)
    model = resumed(run)
    assert [line["step"] for line in model.log if line["event"] == "resumed"] == [halfway["step"]]
    assert [line["step"] for line in model.log if line["event"] == "step"] == known["logged"]
    end = model.log[-1]
    assert (end["event"], end["steps"]) == ("trained", known["steps"])
    assert end["validation"] == pytest.approx(known["validation"], rel=RESUMED)
    assert not (run / "state.safetensors").exists()
    again = opened(run)
    assert figures(again, known["task"]) == figures(model, known["task"])
