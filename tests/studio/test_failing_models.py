"""Of several models one cannot answer: the others do, in the same answer and on the same page."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import Served

from thereafter.studio.panels import prediction
from waiting import wait_for

BROKEN = "runs:broken"
TEXT = "the teachers near the farmer are old"
SERIES = {"series": "seasonal"}


@pytest.fixture(scope="module", autouse=True)
def broken(server: Served, ready_folder: Path) -> Iterator[None]:
    """Runs with the files of an LSTM, a forecaster and a translator whose weights are no weights."""
    runs = {"broken": "lstm", "broken-gru": "tasks/season-gru", "broken-translator": "tasks/no-attention"}
    for name, model in runs.items():
        shutil.copytree(ready_folder / model, server.runs / name)
        (server.runs / name / "weights.safetensors").write_bytes(b"\0" * 100)
    yield
    for name in runs:
        shutil.rmtree(server.runs / name)
    wait_for(lambda: BROKEN not in server.studio.snapshot().models)


def ask(server: Served, verb: str, **asked: object) -> httpx.Response:
    return httpx.post(f"{server.address}/api/{verb}", json=asked, timeout=180)


ASKED = {
    "next": ("ready:ngram", BROKEN, {"prompt": TEXT}),
    "complete": ("ready:ngram", BROKEN, {"prompt": TEXT}),
    "backprop": ("ready:lstm", BROKEN, {"text": TEXT}),
    "verb-gradients": ("ready:lstm", BROKEN, {"count": 3}),
    "tasks/quality": ("ready:attention", "runs:broken-translator", {}),
}


@pytest.mark.parametrize("verb", ASKED)
@pytest.mark.parametrize("turned", [False, True], ids=["last", "first"])
def test_a_list_of_answers_has_a_sentence_in_the_place_of_one(server: Served, verb: str, turned: bool):
    sound, damaged, asked = ASKED[verb]
    names = [damaged, sound] if turned else [sound, damaged]
    answer = ask(server, verb, models=names, **asked)
    assert answer.status_code == 200, answer.text
    by_name = {one["model"]: one for one in answer.json()}
    assert list(by_name) == names
    assert by_name[sound] == ask(server, verb, models=[sound], **asked).json()[0]
    assert by_name[damaged].keys() == {"model", "error"}
    assert f"the model {damaged!r} cannot be read" in by_name[damaged]["error"]


@pytest.mark.parametrize(
    ("verb", "field", "sound", "damaged", "asked"),
    [
        ("surprisal", "models", "ready:ngram", BROKEN, {"text": TEXT}),
        ("tasks/forecast", "forecasts", "naive", "runs:broken-gru", SERIES),
        ("tasks/forecast/ahead", "models", "naive", "runs:broken-gru", SERIES),
        ("tasks/example", "answers", "ready:attention", "runs:broken-translator", {"length": 6}),
    ],
)
def test_an_answer_about_several_models_leaves_one_out(
    server: Served, verb: str, field: str, sound: str, damaged: str, asked: dict[str, Any]
):
    answer = ask(server, verb, models=[damaged, sound], **asked)
    assert answer.status_code == 200, answer.text
    both = answer.json()
    alone = ask(server, verb, models=[sound], **asked).json()
    assert both[field] == alone[field] != []
    assert [one["model"] for one in both["failed"]] == [damaged]
    assert "cannot be read" in both["failed"][0]["error"]
    assert alone["failed"] == []


@pytest.mark.parametrize("names", [[BROKEN], [BROKEN, "runs:not-there"], ["runs:not-there", BROKEN]])
def test_where_no_model_answers_the_first_error_is_the_answer(server: Served, names: list[str]):
    for verb in ("next", "surprisal"):
        asked = {"prompt": TEXT} if verb == "next" else {"text": TEXT}
        answer = ask(server, verb, models=names, **asked)
        assert answer.status_code == (400 if names[0] == BROKEN else 404)
        assert answer.json()["error"].startswith(
            ("the model 'runs:broken' cannot", "there is no model 'runs:not-there'")
        )


def test_a_fault_of_the_studio_is_one_models_alone_and_its_terminal_says_what(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    predict = prediction.predict

    def fail(lm: Any, prompt: str, k: int, *, name: str = "") -> Any:
        if name == "ready:gru":
            raise AttributeError("module 'numba' has no attribute 'core'")
        return predict(lm, prompt, k, name=name)

    monkeypatch.setattr(prediction, "predict", fail)
    with caplog.at_level(logging.ERROR, "uvicorn.error"):
        first, second = ask(server, "next", models=["ready:gru", "ready:ngram"], prompt="a fault").json()
    assert first == {"model": "ready:gru", "error": "something went wrong in the studio; its terminal says what"}
    assert second["candidates"]
    assert "module 'numba' has no attribute 'core'" in caplog.text


PAGES = {
    "keyboard": (f"models=ready:ngram,{BROKEN}", '[data-model="ready:ngram"] .bar'),
    "surprisal": (f"model=ready:ngram&beside={BROKEN}", "#surprises section"),
    "backprop": (f"model=ready:lstm&beside={BROKEN}", "#distances.js-plotly-plot"),
    "gates": (f"model=ready:lstm&beside={BROKEN}", "#picture td"),
    "forecast": ("series=seasonal&models=naive,runs:broken-gru", "#forecast-picture .main-svg"),
    "bottleneck": ("off=runs:broken-translator", '[data-model="ready:attention"] .translation'),
}


@pytest.mark.parametrize("panel", PAGES)
def test_a_page_shows_the_others_and_says_why_one_is_missing(page: Any, panel: str):
    link, shown = PAGES[panel]
    page.goto(f"/#{panel}?{link}")
    page.wait_for_selector(shown)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.error')].some(one => one.textContent.includes('cannot be read'))"
    )
    assert page.locator(shown).first.is_visible()
