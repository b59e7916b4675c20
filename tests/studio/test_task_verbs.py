"""Task models without a browser: what is asked of them is what the library says, and the ready ones can be made."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import SCALE, Served

from refusals import assert_refused
from thereafter.base import storage
from thereafter.errors import FormatError, OptionError
from thereafter.ready import tasks as ready_tasks
from thereafter.ready.tasks import TASKS
from thereafter.serving.shelf import TaskShelf
from thereafter.studio.panels import tasks as verbs
from thereafter.studio.studio import LOCK, Making
from thereafter.task_model import TaskModel, load_task
from thereafter.tasks.translate.measures import measure_pairs
from thereafter.text.tables import SentencePair
from waiting import wait_for

ENGLISH = "the red house hides the black cat"


@pytest.fixture(scope="module")
def models(ready_folder: Path) -> dict[str, TaskModel]:
    return {one.name: load_task(ready_folder / TASKS / one.name) for one in ready_tasks.READY_TASKS}


def ask(server: Served, path: str, **asked: Any) -> Any:
    answer = httpx.post(f"{server.address}/api/tasks/{path}", json=asked, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_generated_sentences_have_the_length_asked_for_and_their_french():
    rng = random.Random(0)
    for length in range(ready_tasks.SHORTEST, ready_tasks.LONGEST + 1):
        for _ in range(50):
            source, target = ready_tasks.pair(rng, length)
            assert len(source.split()) == len(target.split()) == length
            assert source.split().count("the") == sum(word in ("le", "la") for word in target.split())
    nouns = {"house": ("maison", "f"), "cat": ("chat", "m"), "table": ("table", "f"), "dog": ("chien", "m")}
    source, target = next(p for p in iter(lambda: ready_tasks.pair(rng, 3), None) if p[0].split()[2] in nouns)
    french, gender = nouns[source.split()[2]]
    assert target.split()[:2] == ["la" if gender == "f" else "le", french]  # the adjective follows


def test_a_review_turned_round_has_the_other_label():
    rng = random.Random(3)
    praise, blame = set(), set()
    turns = set()
    for _ in range(300):
        text, label = ready_tasks.review(rng)
        last = text.rpartition(" but ")[2].rpartition(" and ")[2].split()
        turned = bool({"not", "never", "hardly"} & set(last))
        turns.add(turned)
        (praise if (label == "good") != turned else blame).add(last[-2])
    assert turns == {True, False}
    assert {"great", "funny"} <= praise
    assert not praise & blame


def test_many_words_are_tagged_by_where_they_stand():
    rng, tags = random.Random(0), dict[str, set[str]]()
    for _ in range(500):
        for word, tag in ready_tasks.tagged(rng):
            tags.setdefault(word, set()).add(tag)
    assert sum(both == {"NOUN", "VERB"} for both in tags.values()) > 5
    assert tags["fish"] == tags["play"] == {"NOUN", "VERB"}
    assert tags["early"] == {"ADJ", "ADV"}
    assert tags["the"] == {"DET"}


def test_a_translation_shows_where_each_word_looked(models: dict[str, TaskModel]):
    found = verbs.translate(models["attention"], ENGLISH).model_dump()
    own = models["attention"].explain(ENGLISH)
    assert found["text"] == models["attention"].predict(ENGLISH) == own.answer
    assert found["source"] == list(own.source)
    assert found["target"] == list(own.target)
    assert [word.strip() for word in found["source"]] == [*ENGLISH.split(), "</s>"]
    assert found["weights"] == own.weights.tolist()
    assert [sum(row) for row in found["weights"]] == pytest.approx([1.0] * len(found["target"]), abs=1e-5)


def test_without_attention_there_are_words_and_no_weights(models: dict[str, TaskModel]):
    found = verbs.translate(models["no-attention"], ENGLISH).model_dump()
    assert found["weights"] is None
    assert found["text"] == models["no-attention"].predict(ENGLISH)
    assert [word.strip() for word in found["target"]] == [*found["text"].split(), "</s>"]


def test_quality_is_counted_by_the_words_of_the_source(models: dict[str, TaskModel], ready_folder: Path):
    model, test = models["no-attention"], ready_tasks.test_pairs(ready_folder)
    points = {point["length"]: point for point in verbs.quality(model, test).model_dump()["points"]}
    assert list(points) == list(range(ready_tasks.SHORTEST, ready_tasks.LONGEST + 1))
    lines = [line.split("\t") for line in test.read_text(encoding="utf-8").splitlines()]
    for length in (2, 7, 20):
        group = [(source, target) for source, target in lines if len(source.split()) == length]
        sources, targets = zip(*group, strict=True)
        expected = measure_pairs(model.predict(list(sources)), targets, sources, lowercase=True)
        assert points[length]["sentences"] == len(group) == verbs.EACH
        assert (points[length]["words"], points[length]["exact"]) == pytest.approx((expected.words, expected.exact))


def test_a_run_of_the_users_is_measured_on_what_validated_it(ready_folder: Path):
    for part in ("train", "valid"):  # written when they are first asked for
        ready_tasks.examples(ready_folder, ready_tasks.READY_TASKS[1], part)
    model = load_task(ready_folder / TASKS / "attention")
    points = verbs.quality(model).model_dump()["points"]
    assert sum(point["sentences"] for point in points) == 190  # the validation sentences, ten of each length


def test_an_example_is_of_the_nearest_length_and_pages_turn():
    pairs = {2: [SentencePair("a b", "c d")], 5: [SentencePair(f"a b c d {n}", "e") for n in range(3)]}
    assert verbs.example(pairs, 5, 0).model_dump()["source"] == "a b c d 0"
    assert verbs.example(pairs, 9, 4).model_dump() == {
        "length": 5,
        "count": 3,
        "source": "a b c d 1",
        "target": "e",
        "answers": [],
        "failed": [],
    }
    assert verbs.example(pairs, 3, 0).model_dump()["length"] == 2


def test_words_are_judged_place_by_place(models: dict[str, TaskModel]):
    said = models["attention"].predict(ENGLISH).split()
    other = ["autre", *said[1:], "encore"]
    found = verbs.judge(models["attention"], ENGLISH, " ".join(other)).model_dump()
    assert found == {"model": "", "words": said, "right": [False] + [True] * (len(said) - 1), "missing": 1}


def test_tags_and_labels_are_the_librarys_own(models: dict[str, TaskModel]):
    tagger, classifier = models["tagger"], models["sentiment"]
    found = verbs.tag(tagger, "they fish near the blorp .").model_dump()
    own = tagger.explain("they fish near the blorp .")
    assert [word["tag"] for word in found["words"]] == list(own.tags) == tagger.predict("they fish near the blorp .")
    assert [word["known"] for word in found["words"]] == [True, True, True, True, False, True]
    assert [(one["tag"], one["p"]) for one in found["words"][1]["likeliest"]] == list(own.likeliest[1])
    text = "the film was not good ."
    found, mine = verbs.classify(classifier, text).model_dump(), classifier.explain(text)
    assert found["label"] == mine.label == classifier.predict(text)
    assert [word["evidence"] for word in found["words"]] == pytest.approx(mine.evidence)
    assert {one["label"]: one["p"] for one in found["probabilities"]} == pytest.approx(mine.probabilities)


def test_a_model_of_another_task_is_refused_with_a_sentence(models: dict[str, TaskModel]):
    with assert_refused(OptionError, "tag", "translate"):
        verbs.translate(models["tagger"], "the cat").model_dump()
    with assert_refused(OptionError):
        verbs.tag(models["tagger"], "   ").model_dump()


def test_the_list_says_what_there_is_and_names_lead_nowhere_else(server: Served, ready_folder: Path, tmp_path: Path):
    answer = httpx.get(f"{server.address}/api/tasks").json()
    assert {one["name"]: (one["task"], one["attention"]) for one in answer["models"]} == {
        "ready:attention": ("translate", "additive"),
        "ready:catch": ("act", ""),
        "ready:glyph-drawer": ("draw", ""),
        "ready:glyph-glimpses": ("glimpse", ""),
        "ready:moving-glyph": ("video", ""),
        "ready:next-glyphs": ("next-frames", ""),
        "ready:no-attention": ("translate", "none"),
        "ready:season-gru": ("forecast", ""),
        "ready:season-lstm": ("forecast", ""),
        "ready:sentiment": ("classify", ""),
        "ready:shapes-captioner": ("caption", "additive"),
        "ready:sine-lstm": ("forecast", ""),
        "ready:tagger": ("tag", ""),
    }
    assert answer["missing"] == []
    assert answer["making"]["task"] == ""
    for name in ("ready:lstm", "ready:..", "runs:nothing"):
        reply = httpx.post(f"{server.address}/api/tasks/tag", json={"model": name, "text": "a"})
        assert reply.status_code == 404
        assert "pick one of the list" in reply.json()["error"]
    shutil.copytree(ready_folder / TASKS / "tagger", tmp_path / "mine")
    (tmp_path / "linked").symlink_to(ready_folder / TASKS / "tagger")
    shelf = TaskShelf(ready_folder, tmp_path)
    assert [card.name for card in shelf.cards() if card.name.startswith("runs:")] == ["runs:mine"]
    (tmp_path / "mine" / "weights.safetensors").write_bytes(b"damaged")
    with assert_refused(FormatError, tmp_path / "mine"), shelf.borrow("runs:mine"):
        pass


def test_over_the_wire_the_same_figures(server: Served, models: dict[str, TaskModel]):
    found = ask(server, "quality", models=["ready:no-attention", "ready:attention"])
    assert [one["model"] for one in found] == ["ready:no-attention", "ready:attention"]
    example = ask(server, "example", models=["ready:attention"], length=6, at=1)
    assert len(example["source"].split()) == 6
    assert example["answers"][0]["words"] == models["attention"].predict(example["source"]).split()
    assert ask(server, "train", task="tag")["making"]["task"] == ""  # nothing is missing


@pytest.mark.wide
def test_the_ready_models_of_a_task_are_made_on_demand(untrained: Served):
    def listed() -> Any:
        return httpx.get(f"{untrained.address}/api/tasks").json()

    pictures = ["caption", "video", "next-frames", "glimpse", "draw"]
    assert listed()["missing"] == ["translate", "tag", "classify", "forecast", *pictures]
    assert ask(untrained, "train", task="classify")["making"]["task"] == "classify"
    assert ask(untrained, "train", task="classify")["making"]["task"] == "classify"  # asked twice, made once
    busy = httpx.post(f"{untrained.address}/api/tasks/train", json={"task": "tag"})
    assert busy.status_code == 400
    assert "are being trained" in busy.json()["error"]
    wait_for(lambda: not listed()["making"]["task"])
    assert listed()["making"]["error"] == ""
    assert listed()["missing"] == ["translate", "tag", "forecast", *pictures]
    found = ask(untrained, "classify", model="ready:sentiment", text="the film was dull .")
    assert found["words"][1]["word"] == "film"


def test_another_studio_at_it_is_told_and_nothing_begins_while_closing(tmp_path: Path):
    making = Making(tmp_path, SCALE)
    turn = storage.take_lock(tmp_path / LOCK)
    assert turn is not None
    with assert_refused(OptionError, "studio"):
        making.begin("tag")
    turn.release()
    making.close()
    with assert_refused(OptionError, "closing"):
        making.begin("tag")
