"""The ready models of a studio: there at once on the first start, described, and trained anew on demand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import LEAST, Served, served

from thereafter.ready import models, tasks
from thereafter.ready.shipped import APART, NAMES
from thereafter.studio.studio import Studio
from waiting import wait_for


class Unstarted:
    """Stands in for the process that trains what does not ship."""

    def __init__(self, order: dict[str, Any], hear: Any, ended: Any) -> None:
        ended(0)

    def end(self) -> None:
        """Nothing runs."""


def test_all_but_the_counted_model_are_there_without_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("thereafter.studio.queue.Child", Unstarted)
    for fresh in served(Studio(tmp_path / "runs", tmp_path / "ready")):
        wait_for(lambda fresh=fresh: len(fresh.studio.tasks.cards()) == len(tasks.READY_TASKS))
        names = {row["name"] for row in httpx.get(f"{fresh.address}/api/models").json()}
        assert names == {f"ready:{one.name}" for one in models.READY if one.kind != "ngram"}
        assert httpx.get(f"{fresh.address}/api/tasks").json()["missing"] == []
        likely = httpx.post(
            f"{fresh.address}/api/next", json={"models": ["ready:lstm"], "prompt": "the teachers near the farmer"}
        )
        assert likely.status_code == 200


def test_every_ready_model_is_described(server: Served):
    answer = httpx.get(f"{server.address}/api/ready").json()
    assert [row["name"] for row in answer["models"]] == list(NAMES)
    for row in answer["models"]:
        assert row["learns"]
        assert row["minutes"] > 0
        assert row["shipped"] == (row["name"] != "ngram")
        assert bool(row["score"]) == row["shipped"]
    assert answer["making"]["task"] == ""


@pytest.mark.wide
def test_a_model_is_trained_anew_and_takes_its_place(
    ready_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("THEREAFTER_NUMBA", "0")  # to load compiled kernels takes longer than to train
    folder = tmp_path / "ready"
    for name in ("lstm", "recipes"):
        shutil.copytree(ready_folder / name, folder / name)
    shutil.copytree(ready_folder / tasks.TASKS, folder / tasks.TASKS)
    before = (folder / tasks.TASKS / "sentiment" / "weights.safetensors").read_bytes()
    studio = Studio(tmp_path / "runs", folder, scale=LEAST, shipped=False)
    studio.making.begin_anew("sentiment")
    wait_for(lambda: studio.making.answer().task == "")
    assert studio.making.answer().error == ""
    assert (folder / tasks.TASKS / "sentiment" / "weights.safetensors").read_bytes() != before
    assert models.is_there(tasks.READY_TASKS[-1], folder / tasks.TASKS)
    assert not (folder / APART / tasks.TASKS / "sentiment").exists()


def test_one_training_at_a_time(server: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server.studio.making, "_task", "anew")
    monkeypatch.setattr(server.studio.making, "_model", "gru")
    refused = httpx.post(f"{server.address}/api/ready/anew", json={"name": "lstm"})
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        "the model 'gru' is being trained; try again when that has ended",
    )
    assert httpx.post(f"{server.address}/api/ready/anew", json={"name": "gru"}).status_code == 200
    assert httpx.post(f"{server.address}/api/ready/anew", json={"name": "../lstm"}).status_code == 422


def test_the_page_offers_it_with_a_time(page: Any):
    page.goto("/#train")
    table = page.locator("#ready-models table")
    table.wait_for()
    assert table.locator("tbody tr").count() == len(NAMES)
    button = page.get_by_role("button", name="Retrain letters")
    assert "about" in button.inner_text()
    assert "bits a letter" in table.inner_text()
