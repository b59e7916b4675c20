"""The weights that ship: whole, small, made by today's recipes, and as good as their cards say."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.base import config
from thereafter.base.storage import map_arrays
from thereafter.errors import FormatError
from thereafter.ready import models, shipped, tasks
from thereafter.runs.narrow import SCALE, widened
from thereafter.studio.panels import comparison
from thereafter.text.sources import Source

MAKING = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "ready_models.py"))
"""The script that makes what ships."""
SHIPPED = [one for one in models.READY if one.kind != "ngram"]
EVERY = [*SHIPPED, *tasks.READY_TASKS]
PLAIN = ("lstm", "window", "tagger", "sine-lstm")
"""Whose figures are measured for every change; those of all others are breadth."""
BYTES_OF_A_FILE, BYTES_IN_ALL = 1_000_000, 2_000_000


def measured(every: Iterable[models.Ready | tasks.ReadyTask]) -> list[Any]:
    """As parameters, those that are not in `PLAIN` marked as breadth."""
    return [pytest.param(one, id=one.name, marks=[] if one.name in PLAIN else pytest.mark.wide) for one in every]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them, unpacked."""
    place = tmp_path_factory.mktemp("unpacked")
    for one in SHIPPED:
        assert shipped.unpack(one, place)
    for task in tasks.READY_TASKS:
        assert shipped.unpack(task, place / tasks.TASKS, place / "texts")
    return place


def test_every_recipe_ships_and_nothing_else():
    """A recipe that was changed since its weights were made: python examples/ready_models.py makes them again."""
    assert [one.name for one in EVERY if not shipped.is_shipped(one)] == []
    folders = {path.name for path in shipped.weights_folder().iterdir() if path.is_dir()}
    assert folders == set(shipped.cards()) == {one.name for one in EVERY}


def test_the_weights_are_small_and_rounded():
    weights = sorted(shipped.weights_folder().rglob("*.safetensors"))
    sizes = [path.stat().st_size for path in weights]
    assert max(sizes) < BYTES_OF_A_FILE
    assert sum(sizes) < BYTES_IN_ALL
    for path in weights:
        arrays, _ = map_arrays(path)
        numbers = [array for name, array in arrays.items() if not name.endswith(SCALE)]
        assert {str(array.dtype) for array in numbers} <= {"float16", "int8", "int64"}, path


def test_no_file_names_a_folder_of_the_machine_it_was_made_on():
    folders = [shipped.weights_folder() / one.name for one in EVERY]
    texts = [path for folder in folders for path in folder.iterdir() if path.name != shipped.WEIGHTS]
    foreign = re.compile(r'"(/|[A-Za-z]:[\\/])\w[^"]*[\\/]')
    assert len(texts) > len(EVERY)
    assert [path for path in texts if foreign.search(path.read_text(encoding="utf-8"))] == []


def test_what_is_unpacked_is_there_whole(folder: Path):
    for one in EVERY:
        place = folder / tasks.TASKS if isinstance(one, tasks.ReadyTask) else folder
        assert models.is_there(one, place), one.name
        packed = widened(map_arrays(shipped.weights_folder() / one.name / shipped.WEIGHTS)[0])
        arrays, _ = map_arrays(place / one.name / shipped.WEIGHTS)
        assert packed.keys() == arrays.keys(), one.name
        for name, array in arrays.items():
            assert array.dtype != np.float16, (one.name, name)
            np.testing.assert_array_equal(array, packed[name], err_msg=f"{one.name}: {name}")


@pytest.mark.wide
def test_what_the_sentence_models_were_trained_on_is_found_again(folder: Path):
    """The run names the very file that is written here, hash and all."""
    train = models.sentences(folder)["train"]
    for name in ("lstm", "window"):
        source = config.loads((folder / name / "config.toml").read_text(encoding="utf-8"), name)["source"]
        assert source["name"] == train.as_posix()
        assert Source("sentences", (train,)).fingerprint() == source["sha256"]


def test_what_the_task_models_were_trained_on_is_found_again(folder: Path):
    for one in tasks.READY_TASKS:
        run = folder / tasks.TASKS / one.name
        source = config.loads((run / "config.toml").read_text(encoding="utf-8"), one.name)["source"]
        assert source["name"] == tasks.examples(folder, one, "train").as_posix()
        assert source["valid_name"] == tasks.examples(folder, one, "valid").as_posix()


def test_only_the_counted_model_is_left_to_make(folder: Path):
    assert [one.name for one in models.missing(folder)] == ["ngram"]
    assert not [one for task in {one.task for one in tasks.READY_TASKS} for one in tasks.missing(folder, task)]


def test_a_damaged_file_is_refused_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    copy = tmp_path / "weights"
    shutil.copytree(shipped.weights_folder(), copy)
    content = bytearray((copy / "rnn" / shipped.WEIGHTS).read_bytes())
    content[-1] ^= 1
    (copy / "rnn" / shipped.WEIGHTS).write_bytes(bytes(content))
    monkeypatch.setattr(shipped, "weights_folder", lambda: copy)
    rnn = next(one for one in models.READY if one.name == "rnn")
    with assert_refused(FormatError, "rnn"):
        shipped.unpack(rnn, tmp_path / "ready")
    assert list((tmp_path / "ready").iterdir()) == []


def test_a_shipped_log_keeps_its_curve_and_all_that_is_no_step():
    steps = [{"event": "step", "step": at} for at in range(1_000)]
    others = [{"event": "validation", "step": 7}, {"event": "trained"}]
    log = "".join(json.dumps(line) + "\n" for line in (*steps[:500], others[0], *steps[500:], others[1]))
    kept = [json.loads(line) for line in MAKING["thin"](log).splitlines()]
    assert [line for line in kept if line["event"] != "step"] == others
    places = [line["step"] for line in kept if line["event"] == "step"]
    assert len(places) == MAKING["STEPS"]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, 999)
    assert MAKING["thin"](MAKING["thin"](log)) == MAKING["thin"](log)


def test_another_recipe_is_not_what_ships(tmp_path: Path):
    other = models.Ready("rnn", "rnn", models.SENTENCES_NAME, 1_000)
    assert not shipped.unpack(other, tmp_path / "ready")
    assert not (tmp_path / "ready").exists()


@pytest.mark.parametrize("one", measured(one for one in SHIPPED if one.source == models.SENTENCES_NAME))
def test_the_models_of_sentences_score_what_their_cards_say(one: models.Ready, folder: Path):
    """On any machine: sums in another order move the last digits, not the first."""
    card, measured = shipped.cards()[one.name]["scores"], MAKING["scores_of"](one, folder)
    assert measured["perplexity"] == pytest.approx(card["perplexity"], rel=0.01)
    for name in ("agreement", "agreement_far"):
        assert measured[name] == pytest.approx(card[name], abs=0.5), name
    if one.kind == "window":
        assert measured["agreement_far"] < 55.0, "four words back there is nothing it could know it from"
        return
    assert measured["agreement_far"] > 99.0
    if "units" in card:
        unit, auc, control = measured["units"]["number"]
        assert [unit, auc] == [card["units"]["number"][0], pytest.approx(card["units"]["number"][1], abs=0.01)]
        assert auc > 0.9
        assert control < 0.6
        assert json.loads((folder / one.name / "units.json").read_text())["number"] == unit


@pytest.mark.parametrize("one", measured(SHIPPED))
def test_what_ships_to_be_compared_is_what_is_measured_here(one: models.Ready, folder: Path):
    """All but the speed, which is nobody else's."""
    run = folder / one.name
    kept = comparison.read_shipped(run)
    assert kept is not None
    measured = comparison.measure(thereafter.load(run), one.name, run, models.compared_sentences(folder))
    assert kept.perplexities == pytest.approx(measured.perplexities)
    there, here = kept.trial.as_dict(), measured.trial.as_dict()
    assert there.pop("latency") is None
    assert here.pop("latency") > 0
    for name in ("bits_per_byte", "perplexity", "validation", "size"):  # of the size: where its text lies
        old, new = there.pop(name), here.pop(name)
        assert old == new or old == pytest.approx(new, rel=0.01), name
    assert np.array(there.pop("curve")) == pytest.approx(np.array(here.pop("curve")))
    old, new = there.pop("agreement"), here.pop("agreement")
    assert old["distance"].keys() == new["distance"].keys()
    for words, (right, total) in new["distance"].items():
        assert old["distance"][words][1] == total
        assert old["distance"][words][0] == pytest.approx(right, abs=0.01 * total + 1)
    score, again = there.pop("score"), here.pop("score")
    assert score["tokens"] == again["tokens"]
    assert there == here


@pytest.mark.wide
def test_the_character_model_scores_what_its_card_says(folder: Path):
    """Python code differs from one interpreter to the next, and with it the figures, a little."""
    one = next(one for one in SHIPPED if one.name == "letters")
    card, measured = shipped.cards()["letters"]["scores"], MAKING["scores_of"](one, folder)
    assert measured["bits_per_character"] == pytest.approx(card["bits_per_character"], abs=0.15)
    unit, auc, control = measured["units"]["quotes-or-comment"]
    assert unit == card["units"]["quotes-or-comment"][0]
    assert auc > 0.9
    assert control < 0.6


@pytest.mark.parametrize("one", measured(tasks.READY_TASKS))
def test_the_task_models_score_what_their_cards_say(one: tasks.ReadyTask, folder: Path):
    card, measured = shipped.cards()[one.name]["scores"], MAKING["task_scores_of"](one, folder)
    assert set(card) == set(measured)
    for name, value in card.items():
        assert measured[name] == pytest.approx(value, rel=0.02, abs=0.01), name
