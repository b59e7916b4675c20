"""Captions of small pictures: learned, searched, drawn, explained, measured beside what never sees a picture."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from toy_captions import COLOURS, HALVES, SAVED, captioned, captions_of, painted
from toys import Shell, assert_resumed_to_the_bit

import thereafter
from refusals import assert_refused
from thereafter.base import progress
from thereafter.data.files import Files, Parts
from thereafter.decoding import sources
from thereafter.errors import OptionError, ThereafterError
from thereafter.task_model import TaskModel
from thereafter.tasks import finding
from thereafter.tasks.answers import NamedPrediction, summarise
from thereafter.tasks.task import Baselines
from thereafter.vision.captioning.network import SEES
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.captioning.task import CAPTIONING, CaptionExplained

SMALL: dict[str, Any] = {"embed": 8, "hidden": 24, "width": 4, "stages": 2, "min_count": 1, "flip": False, "seed": 1}
STILL: dict[str, Any] = {"shift": 0, "zoom": 0, "colour": 0, "erase": 0, "dropout": 0, "drop_picture": 0}
LEARNED: dict[str, Any] = SMALL | STILL | {"epochs": 20, "batch": 8, "rate": 0.015, "label_smoothing": 0.0}
RED = SAVED / "red-top.png"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of captions beside its pictures."""
    return captioned(tmp_path_factory.mktemp("captions") / "captions.tsv", 72).parent


@pytest.fixture(scope="module")
def model(folder: Path) -> TaskModel:
    """A captioner that has learned them."""
    return thereafter.train(folder / "captions.tsv", task="caption", **LEARNED)


@pytest.fixture(scope="module")
def run(model: TaskModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("runs") / "captioner")


def test_it_says_what_is_in_a_picture_it_never_saw(model: TaskModel) -> None:
    draw = random.Random(9)
    asked = [(colour, half) for colour in COLOURS for half in HALVES]
    answers = model.predict([painted(*one, draw) for one in asked], beam=3)
    known = [[" ".join(caption.lower().replace(",", "").replace(".", "").split()) for caption in captions_of(*one)]
             for one in asked]  # fmt: skip
    assert all(answer in captions for answer, captions in zip(answers, known, strict=True))


def test_paths_arrays_and_images_of_pillow_are_pictures(model: TaskModel) -> None:
    pixels = np.asarray(Image.open(RED))
    given = [RED, str(RED), pixels, Image.open(RED), model.task.example(RED)]
    assert len({model.predict(one) for one in given}) == 1
    assert model.predict(given) == [model.predict(RED)] * 5
    larger = np.asarray(Image.open(SAVED / "blue-bottom.png"))  # fitted to the size of the run
    assert "blue" in model.predict(larger)
    with assert_refused(OptionError, "int"):
        model.predict(3)


def test_captions_are_drawn_by_a_seed_whatever_is_asked_beside(model: TaskModel) -> None:
    asked = [RED, SAVED / "blue-top.png"] * 8
    drawn = model.predict(asked, do_sample=True, temperature=2.0, seed=4)
    assert drawn == model.predict(asked, do_sample=True, temperature=2.0, seed=4)
    assert drawn != model.predict(asked, do_sample=True, temperature=2.0, seed=5)
    assert drawn[1] == model.predict(asked[1], do_sample=True, temperature=2.0, seed=4)
    assert len(set(drawn[::2])) > 1
    assert model.predict(asked, do_sample=True, top_k=1, seed=1) == model.predict(asked)


def test_an_answer_is_that_of_the_search_of_translators(model: TaskModel) -> None:
    net: Any = model.net
    batch: Any = model.task.batch([model.task.example(RED)], model.codecs)
    with net.quietly():
        memory = net.encode(batch)
    ((best,),) = sources.search_answers(net, memory, 4)
    words: Any = model.codecs["words"]
    assert model.predict(RED, beam=4) == words.decode(best.tokens)
    logp, _ = net.given(memory).log_probs(np.array([best.tokens]), net.given(memory).start(1))
    assert logp.sum() == pytest.approx(best.total, abs=1e-4)


def test_an_explained_caption_says_where_it_looked(model: TaskModel) -> None:
    one, other = model.explain([RED, SAVED / "blue-top.png"])
    assert isinstance(one, CaptionExplained)
    assert one.caption == model.predict(RED) == " ".join(one.words)
    assert one.name == "red-top.png"
    assert one.grid == (3, 3)
    assert one.weights.shape == (len(one.words), 9)
    np.testing.assert_allclose(one.weights.sum(1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(one.picture, np.asarray(Image.open(RED)))
    trace = model.trace(RED)
    np.testing.assert_allclose(trace["attention"][:-1], one.weights, atol=1e-5)
    np.testing.assert_allclose(np.exp(trace["log_prob"][:-1]), one.probabilities, atol=1e-5)
    assert trace.about["answer"] == one.caption
    assert trace["l0.forget"].shape == (len(one.words) + 1, 24)
    lines = str(one).splitlines()
    assert lines[0] == one.caption
    assert len(lines) == 1 + len(one.words)
    assert json.loads(json.dumps(one.as_dict()))["words"][0]["word"] == one.words[0]
    assert other.caption != one.caption


def test_a_place_has_a_name() -> None:
    weights = np.zeros((3, 12), np.float32)
    weights[0, 0], weights[1, 11], weights[2, [5, 6]] = 1.0, 1.0, 0.5
    explained = CaptionExplained(
        "a.png", "x y z", ("x", "y", "z"), (0.5,) * 3, weights, (3, 4), np.zeros((3, 4, 1), np.uint8)
    )
    assert [explained.looked(word)[0] for word in range(3)] == ["top left", "bottom right", "centre"]
    assert explained.looked(0)[1] == 1.0
    single = replace(explained, weights=np.ones((3, 1), np.float32), grid=(1, 1))
    assert single.looked(0) == ("centre", 1.0)
    assert replace(explained, weights=np.full((3, 4), 0.25, np.float32), grid=(2, 2)).looked(0)[0] == "top left"


@pytest.mark.parametrize(
    "see", [see if see == "attention" else pytest.param(see, marks=pytest.mark.wide) for see in SEES]
)
def test_every_way_of_seeing_goes_on_to_the_same_bits(see: str, tmp_path: Path) -> None:
    source = captioned(tmp_path / "captions.tsv", 18)
    options = SMALL | {"see": see, "flip": True, "epochs": 3, "batch": 8, "checkpoint_every": 3, "own_words": 0.2}
    assert_resumed_to_the_bit(tmp_path / "run", "caption", source, step=5, **options)


def test_rows_beside_a_captioner_are_those_that_never_see_the_picture(model: TaskModel, folder: Path) -> None:
    rows = dict(model.baselines(folder / "captions.tsv"))
    assert list(rows) == [
        "one sentence for all",
        "nearest picture (pixels)",
        "this model, other pictures",
        "blind network",
    ]
    figures: dict[str, Any] = {name: row.as_dict() for name, row in rows.items()}
    own: Any = model.score(folder / "captions.tsv").as_dict()
    assert figures["one sentence for all"]["distinct"] == figures["blind network"]["distinct"] == 1
    assert own["distinct"] >= 6
    for name in ("one sentence for all", "this model, other pictures", "blind network"):
        assert figures[name]["cider_d"] < own["cider_d"]
    assert figures["nearest picture (pixels)"]["bleu_4"] == pytest.approx(100.0)  # of its own training pictures
    cheap = model.baselines(folder / "captions.tsv", trained=False)
    assert [name for name, _ in cheap] == list(rows)[:3]


def test_a_blind_network_has_no_row_for_itself(folder: Path) -> None:
    blind = thereafter.train(folder / "captions.tsv", task="caption", see="nothing", **SMALL | {"epochs": 1})
    assert "blind network" not in dict(blind.baselines(folder / "captions.tsv"))
    (explained,) = blind.explain([RED])
    assert not explained.attends
    assert "%" not in str(explained)
    assert "attention" not in blind.trace(RED).arrays


@pytest.mark.parametrize("name", ["maps", pytest.param("vectors", marks=pytest.mark.wide)])
def test_features_made_elsewhere_take_the_place_of_pixels(name: str, tmp_path: Path) -> None:
    rng, lines = np.random.default_rng(3), ["image\tcaption"]
    middle = {colour: rng.normal(size=(4, 5)) for colour in COLOURS}
    maps = []
    for number, colour in enumerate([*COLOURS] * 12):
        maps.append(middle[colour] + 0.1 * rng.normal(size=(4, 5)))
        lines.append(f"{number}\ta {colour} thing")
    features = np.array(maps, np.float32) if name == "maps" else np.array(maps, np.float32)[:, 0]
    np.save(tmp_path / "features.npy", features)
    (tmp_path / "captions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    learned = thereafter.train(tmp_path, task="caption", **LEARNED)
    assert learned.predict(list(features[:3])) == [f"a {colour} thing" for colour in COLOURS]
    (explained,) = learned.explain([features[0]])
    assert explained.weights.shape == (3, 4 if name == "maps" else 1)
    assert explained.grid == ((2, 2) if name == "maps" else (1, 1))
    assert not explained.picture.size
    names = [row for row, _ in learned.baselines(tmp_path, trained=False)]
    assert "nearest picture (features)" in names


def test_the_parts_of_a_corpus_are_composed_of_shared_and_own_files() -> None:
    given = Parts("flickr", {
        name: Files(f"flickr:{name}", (Path(f"{name}.txt"),))
        for name in ("captions", "pictures", "train.names", "valid.names", "test.names")
    }, kind="captioned")  # fmt: skip
    part = CAPTIONING.part(given, "test")
    assert part is not None
    assert part.name == "flickr:test"
    assert {path.stem for path in part.files} == {"test.names", "captions", "pictures"}
    assert CAPTIONING.part(given, "dev") is None
    assert finding.has(CAPTIONING, given, "valid")  # type: ignore[arg-type]


def test_a_table_of_captions(run: Path, folder: Path, tmp_path: Path, shell: Shell) -> None:
    lines, code = shell("predict", run, "--in", folder / "pictures", "--out", tmp_path / "all.csv")
    assert code == 0
    assert summarise([NamedPrediction("picture", "a.png", [{"caption": "a dog"}], "a dog")] * 48) == "48 pictures"
    rows = (tmp_path / "all.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "number,picture,caption"
    assert len(rows) == 73
    lines, code = shell("predict", run, "--score", folder / "captions.tsv", "--beam", 2)
    assert code == 0
    assert lines[0].startswith("BLEU-1")


def test_an_explained_caption_is_drawn(
    run: Path, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines, code = shell("predict", run, RED, "--explain")
    assert code == 0
    assert lines[0] == str(RED)
    assert "p 0." in lines[2] or "p 1." in lines[2]
    assert lines[2].rstrip().endswith("%")
    drawn = (tmp_path / "red-top-caption.html").read_text(encoding="utf-8")
    assert lines[1] in drawn
    _, code = shell("predict", run, RED, "--explain", "--figure", tmp_path / "mine.html")
    assert code == 0
    assert (tmp_path / "mine.html").exists()
    for wrong in ((RED, "--figure", "a.html"), (RED, RED, "--explain", "--figure", "a.html")):
        _, code = shell("predict", run, *wrong)
        assert code == 2
    assert not (tmp_path / "a.html").exists()


def test_a_score_of_captions_has_rows_beside_it(run: Path, folder: Path, shell: Shell) -> None:
    lines, code = shell("score", run, folder / "captions.tsv")
    assert code == 0
    assert [line.partition("  ")[0] for line in lines[2:]] == [
        "one sentence for all",
        "nearest picture (pixels)",
        "this model, other pictures",
    ]
    assert all("CIDEr-D" in line for line in lines[2:])
    searched, _ = shell("predict", run, "--score", folder / "captions.tsv", "--beam", 2)
    assert [line.split() for line in searched[2:4]] == [line.split() for line in lines[2:4]]
    assert searched[4].startswith("this model, other pictures, greedy  ")
    lines, _ = shell("score", run, folder / "captions.tsv", "--json")
    assert json.loads(lines[0])["cider_d"] > 0
    assert len(lines) == 1


def test_ways_of_seeing_are_compared_by_name(folder: Path, tmp_path: Path) -> None:
    options = SMALL | {"epochs": 1, "batch": 16}
    compared = thereafter.compare(
        folder, task="caption", models=["every", "nothing"], out=tmp_path / "compared", **options
    )
    simple = ["one sentence for all", "nearest picture (pixels)"]
    rows = compared.to_rows()
    assert [row["network"] for row in rows] == ["every", "nothing", *simple]
    assert all(row["parameters"] is None and row["bleu_4"] is not None for row in rows[2:])
    assert all(re.search(rf"^{re.escape(name)} .*\d", compared.table(), re.M) for name in simple)
    assert [one["name"] for one in json.loads(compared.to_json())["beside"]] == simple


def test_flips_are_questioned_where_captions_say_left_or_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = captioned(tmp_path / "captions.tsv", 6)
    source.write_text(source.read_text().replace("bright at the top", "bright on the left"), encoding="utf-8")
    notes: list[str] = []
    monkeypatch.setattr(progress, "note", notes.append)
    for flip in (True, False):
        thereafter.train(source, task="caption", **SMALL | {"flip": flip, "epochs": 0.5})
        assert any("captions say left or right" in note for note in notes) == flip
        notes.clear()


def test_mistakes_with_captions_are_one_sentence(tmp_path: Path, model: TaskModel) -> None:
    lonely = tmp_path / "captions.tsv"
    lonely.write_text("image\tcaption\na.png\ta dog\n", encoding="utf-8")
    with assert_refused(ThereafterError, "captions.tsv") as caught:
        thereafter.train(lonely, task="caption")
    assert "\n" not in str(caught.value)
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes(RED.read_bytes()[:60])
    with assert_refused(ThereafterError, "damaged.png"):
        model.predict(damaged)
    with assert_refused(ThereafterError, "missing.png"):
        model.predict(tmp_path / "missing.png")
    with pytest.raises(OptionError, match="the path of a picture is empty; expected"):
        model.predict(" ")


def test_captions_are_encoded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = CAPTIONING.configured(CAPTIONING.settings(min_count=1))
    examples = task.read([folder / "captions.tsv"])
    codecs = task.codecs(examples)
    task.batch(examples, codecs)
    monkeypatch.setattr(type(codecs["words"]), "encode", None)  # not asked again
    batch = task.batch(examples[3:5], codecs)
    assert batch.row_B is not None
    assert batch.row_B.tolist() == [0, 0, 1, 1]
    assert batch.pictures.dtype == torch.uint8
    assert task.targets(examples[3:5], codecs) == len(batch.at_N if batch.at_N is not None else [])
    assert isinstance(examples[0], CaptionedPicture)
    assert isinstance(task, Baselines)
