"""The verbs beside completion over HTTP: what they answer is what the library says of the same run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from ready_runs import unpack_runs

import thereafter
from thereafter.language_model import LanguageModel
from thereafter.serving.server import verbs
from thereafter.serving.server.app import make_app
from thereafter.serving.server.models import ServedModel, ServedModels
from thereafter.task_model import TaskModel

RUNS = ("lstm", "letters", "tagger", "sentiment", "attention", "sine-lstm", "catch")
TEXTS = ["the teachers near the farmer are old .", "the nurse"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedModel]:
    served = {}
    for path in unpack_runs(tmp_path_factory.mktemp("served"), *RUNS):
        loaded = thereafter.load(path)
        if isinstance(loaded, TaskModel):
            served[path.name] = ServedModel(path.name, task=loaded)
        else:
            served[path.name] = ServedModel(path.name, language_model=loaded)
    return served


@pytest.fixture(scope="module")
def client(runs: dict[str, ServedModel]) -> Iterator[TestClient]:
    with TestClient(make_app(ServedModels(list(runs.values()))), base_url="http://127.0.0.1") as visitor:
        yield visitor


def language_model(runs: dict[str, ServedModel], name: str) -> LanguageModel:
    lm = runs[name].language_model
    assert lm is not None
    return lm


def task_model(runs: dict[str, ServedModel], name: str) -> TaskModel:
    model = runs[name].task
    assert model is not None
    return model


def ask(client: TestClient, path: str, status: int = 200, **asked: Any) -> Any:
    answer = client.post(path, json=asked)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ["lstm", "letters"])
def test_score_is_the_score_of_the_library(client: TestClient, runs: dict[str, ServedModel], name: str):
    lm = language_model(runs, name)
    answer = ask(client, "/score", model=name, text=TEXTS, tokens=True)
    assert answer["model"] == name
    for text, got in zip(TEXTS, answer["results"], strict=True):
        want = lm.score(text=text)
        assert got["log_prob"] == pytest.approx(-want.nats, rel=1e-6)
        assert got["perplexity"] == pytest.approx(want.perplexity, rel=1e-6)
        assert got["bits_per_byte"] == pytest.approx(want.bits_per_byte, rel=1e-6)
        assert (got["tokens"], got["unknown"], got["bytes"]) == (want.tokens, want.unknown, want.bytes)
        assert sum(one["log_prob"] for one in got["each"]) == pytest.approx(-want.nats, rel=1e-5)
        assert len(got["each"]) == want.tokens
    alone = ask(client, "/score", model=name, text=TEXTS[0])
    assert alone["results"][0]["each"] is None
    assert alone["results"][0]["log_prob"] == pytest.approx(answer["results"][0]["log_prob"], rel=1e-6)


def test_next_lists_the_likeliest_tokens_after_each_prompt(client: TestClient, runs: dict[str, ServedModel]):
    lm = language_model(runs, "lstm")
    prompts = ["the teachers near the farmer", "", "the "]
    answer = ask(client, "/next", model="lstm", prompt=prompts, k=3)
    for prompt, got in zip(prompts, answer["results"], strict=True):
        want = lm.next_tokens(prompt, 3)
        assert [(one["token"], one["text"]) for one in got] == [(one.token, one.text) for one in want]
        assert [one["p"] for one in got] == pytest.approx([one.p for one in want], rel=1e-5)
    assert ask(client, "/next", model="lstm", prompt=prompts[0], k=3)["results"] == answer["results"][:1]
    assert len(ask(client, "/next", model="lstm")["results"][0]) == 5


def test_tag_classify_and_translate_answer_as_the_task_models_do(client: TestClient, runs: dict[str, ServedModel]):
    tagger, sentiment, translator = (task_model(runs, name) for name in ("tagger", "sentiment", "attention"))
    tagged = ask(client, "/tag", model="tagger", text=TEXTS)["results"]
    for text, got in zip(TEXTS, tagged, strict=True):
        want = tagger.explain(text)
        assert [(one["word"], one["tag"], one["known"]) for one in got] == list(
            zip(want.words, want.tags, want.known, strict=True)
        )
        likeliest = [dict(best)[tag] for best, tag in zip(want.likeliest, want.tags, strict=True)]
        assert [one["p"] for one in got] == pytest.approx(likeliest, rel=1e-4)
    texts = ["the film is not good", "a fine film"]
    labels = ask(client, "/classify", model="sentiment", text=texts)["results"]
    assert [one["label"] for one in labels] == sentiment.predict(texts)
    for got in labels:
        assert sum(got["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)
        assert max(got["probabilities"], key=got["probabilities"].__getitem__) == got["label"]
    english = ["the red house hides the black cat", "the house"]
    assert ask(client, "/translate", model="attention", text=english)["results"] == translator.predict(english)
    wide = ask(client, "/translate", model="attention", text=english[0], beam=4, length_penalty=0.5)
    assert wide["results"] == [translator.predict(english[0], beam=4, length_penalty=0.5)]


def test_forecast_gives_means_bands_and_samples_of_a_table(
    client: TestClient, runs: dict[str, ServedModel], tmp_path: Path
):
    model = task_model(runs, "sine-lstm")
    values = np.sin(np.arange(200) / 5) + 2.0
    table = "t,x\n" + "\n".join(f"{t},{value:.6f}" for t, value in enumerate(values, start=1)) + "\n"
    path = tmp_path / "table.csv"
    path.write_text(table, encoding="utf-8")
    want = model.forecast(path, horizon=6, samples=2, seed=3).forecasts[0]
    answer = ask(client, "/forecast", model="sine-lstm", table=table, horizon=6, samples=2, seed=3)
    (got,) = answer["results"]
    assert (got["target"], len(got["steps"])) == (want.targets[0], 6)
    low, high = want.band(0.8)
    for step, one in enumerate(got["steps"]):
        assert one["mean"] == pytest.approx(want.mean_HD[step, 0])
        assert (one["low_80"], one["high_80"]) == (pytest.approx(low[step, 0]), pytest.approx(high[step, 0]))
        assert one["samples"] == pytest.approx(want.paths_SHD[:, step, 0].tolist())
    assert "6 steps" in answer["note"]
    for wrong in ("", " \n", "time,other\n2024-01-01,x\n", "a,b,c\n1,2\n"):
        sentence = ask(client, "/forecast", 400, model="sine-lstm", table=wrong)["error"]["message"]
        assert "table" in sentence
        assert "/tmp" not in sentence


def test_a_forecast_of_too_many_numbers_is_refused_before_it_is_made(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(verbs, "MOST_NUMBERS", 100)
    asked = {"model": "sine-lstm", "table": "t,x\n" + "".join(f"{t},{t % 7}\n" for t in range(1, 200)), "samples": 2}
    assert len(ask(client, "/forecast", horizon=12, **asked)["results"][0]["steps"]) == 12  # 96 numbers
    monkeypatch.delattr(TaskModel, "forecast")
    sentence = ask(client, "/forecast", 400, horizon=13, **asked)["error"]["message"]
    assert "104 numbers" in sentence
    assert "at most 100; try" in sentence


@pytest.mark.parametrize(
    ("path", "name", "words"),
    [
        ("/score", "tagger", ("holds the task 'tag'", "expects a language model", "try /tag")),
        ("/next", "sentiment", ("holds the task 'classify'", "try /classify")),
        ("/tag", "lstm", ("holds a language model", "run of the task 'tag'", "/v1/completions or /score or /next")),
        ("/translate", "sine-lstm", ("holds the task 'forecast'", "try /forecast")),
        ("/classify", "catch", ("holds the task 'act'", "no address of this server")),
        ("/score", "nobody", ("'nobody'",)),
    ],
)
def test_a_run_of_another_kind_says_what_it_can_do(client: TestClient, path: str, name: str, words: tuple[str, ...]):
    field = {"/next": "prompt", "/forecast": "table"}.get(path, "text")
    sentence = ask(client, path, 404, model=name, **{field: "the"})["error"]["message"]
    for word in words:
        assert word in sentence


def test_more_than_one_should_wait_for_is_refused_and_wrong_fields_are_named(client: TestClient):
    text = "the " * (verbs.MOST_CHARACTERS // 8)
    assert "100,000" in ask(client, "/score", 400, model="letters", text=[text, text, "more"])["error"]["message"]
    for path, asked in (
        ("/score", {"model": "lstm"}),
        ("/score", {"model": "lstm", "text": 5}),
        ("/score", {"model": "lstm", "text": []}),
        ("/score", {"model": "lstm", "text": "the", "tokns": True}),
        ("/next", {"model": "lstm", "prompt": "the", "k": 0}),
        ("/next", {"model": "lstm", "prompt": ["the"] * (verbs.MOST_TEXTS + 1)}),
        ("/translate", {"model": "attention", "text": "the", "beam": 17}),
        ("/translate", {"model": "attention", "text": "the", "length_penalty": math.inf}),
        ("/forecast", {"model": "sine-lstm", "table": "x" * (verbs.MOST_TABLE + 1)}),
    ):
        answer = client.post(path, content=json.dumps(asked), headers={"content-type": "application/json"})
        assert answer.status_code == 400, (path, answer.text)
        assert answer.json()["error"]["message"]


ODD = (
    "",
    " ",
    "\x00",
    "\u202eabc\u202c",
    "😀👩🏽‍🚀",
    "ﷺ" * 50,
    "e\u0301" * 100,
    "\ufeff",
    "\u2028\x85",
    "\n\n",
    "a\r\nb",
)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/score", "lstm"),
        ("/score", "letters"),
        ("/next", "letters"),
        ("/tag", "tagger"),
        ("/classify", "sentiment"),
        ("/translate", "attention"),
        ("/forecast", "sine-lstm"),
    ],
)
def test_odd_texts_get_an_answer_or_a_sentence(client: TestClient, path: str, name: str):
    field = {"/next": "prompt", "/forecast": "table"}.get(path, "text")
    for text in ODD:
        answer = client.post(path, json={"model": name, field: text})
        assert answer.status_code in (200, 400), (text, answer.text)
        assert answer.json()
