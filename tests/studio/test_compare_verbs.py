"""The verb `compare`: what it says of models is what the library says of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import Served

import thereafter
from refusals import assert_refused
from thereafter.comparing.compare import Comparison
from thereafter.errors import FormatError
from thereafter.evaluation.agreement import measure_agreement
from thereafter.ready import models as ready
from thereafter.serving.schema import NotThereError
from thereafter.studio.panels import comparison
from thereafter.text.agreement import read_sentences

TEXT = "the cat sat on the mat\nthe dog saw the cat\na bird heard the old dog\n" * 40


@pytest.fixture(scope="module")
def texts(ready_folder: Path) -> dict[str, Path]:
    return ready.compared_sentences(ready_folder)


@pytest.fixture(scope="module")
def measured(ready_folder: Path, texts: dict[str, Path]) -> dict[str, comparison.ComparedModel]:
    names = ("ngram", "gru", "window", "letters")
    return {
        name: comparison.measure(thereafter.load(ready_folder / name), name, ready_folder / name, texts)
        for name in names
    }


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    """A runs folder with a comparison that the library has made."""
    runs = tmp_path_factory.mktemp("kept")
    made = thereafter.compare(text=TEXT, models="unigram,ngram-2,ngram-2:char", tokens="word", out=runs / "small")
    return runs, made


def test_what_is_measured_is_what_the_library_measures(
    measured: dict[str, comparison.ComparedModel], ready_folder: Path, texts: dict[str, Path]
):
    for name in ("ngram", "gru"):
        lm, trial = thereafter.load(ready_folder / name), measured[name].trial
        score = lm.score(texts["test"])
        assert (trial.perplexity, trial.bits_per_byte) == (score.perplexity, score.bits_per_byte)
        sentences = read_sentences(texts["test"].with_suffix(".jsonl"))
        verdicts = measure_agreement(lm.model, lm.tokenizer, sentences, context=lm.config["text"]["context"])
        assert trial.probes == {"agreement": verdicts.as_dict()}
        assert trial.latency > 0
    gru = measured["gru"]
    validations = [line for line in thereafter.load(ready_folder / "gru").log if line["event"] == "validation"]
    assert list(gru.perplexities) == [line["perplexity"] for line in validations]
    assert [point[0] for point in gru.trial.curve] == [line["seconds"] for line in validations]
    assert gru.trial.parameters == thereafter.load(ready_folder / "gru").summary()["parameters"]
    assert gru.trial.curve[-1][1] == gru.trial.seen
    assert measured["ngram"].trial.curve == []
    assert len(measured["ngram"].perplexities) == 1


def test_other_tokens_are_marked_apart_and_windows_are_shown(measured: dict[str, comparison.ComparedModel]):
    answer = comparison.comparison_of(list(measured.values()))
    rows = {row.name: row for row in answer.rows}
    assert {name: row.apart for name, row in rows.items()} == dict.fromkeys(measured, False) | {"letters": True}
    assert {name: row.sees for name, row in rows.items()} == {"ngram": 3, "window": 5, "gru": None, "letters": None}
    assert rows["letters"].curves == []  # it was validated on another text
    level = rows["ngram"].level
    assert level is not None
    assert level.perplexity == measured["ngram"].perplexities[0]
    assert rows["gru"].level is None
    points = rows["gru"].agreement
    assert [point.words for point in points] == ["0", "1-2", "3-5", "6-10"]
    assert sum(point.sentences for point in points) == ready.COMPARED
    tallies = measured["gru"].trial.probes["agreement"]["distance"].values()
    right, total = (sum(values) for values in zip(*tallies, strict=True))
    assert sum((point.mean or 0) * point.sentences for point in points) / total == pytest.approx(right / total)
    for point in points:
        assert point.least is not None
        assert point.mean is not None
        assert point.most is not None
        assert point.least <= point.mean <= point.most
    assert not any("letters" in sentence for sentence in answer.advice)
    json.dumps(answer.model_dump(), allow_nan=False)


def test_a_damaged_log_and_a_folder_that_is_gone_are_sentences(
    ready_folder: Path, texts: dict[str, Path], tmp_path: Path
):
    lm = thereafter.load(ready_folder / "window")
    with assert_refused(NotThereError, "nowhere"):
        comparison.measure(lm, "window", tmp_path / "nowhere", texts)
    lm.log.append({"event": "validation", "step": 3})
    with assert_refused(FormatError, "window"):
        comparison.measure(lm, "window", ready_folder / "window", texts)


def test_one_model_alone_needs_no_advice(measured: dict[str, comparison.ComparedModel]):
    answer = comparison.comparison_of([measured["ngram"]])
    assert (answer.advice, len(answer.rows)) == ([], 1)


def test_a_comparison_of_the_library_is_shown_as_it_was_made(kept: tuple[Path, Comparison]):
    runs, made = kept
    (listed,) = comparison.list_kept(runs)
    assert listed.model_dump() == {"name": "small", "source": "text", "models": ["unigram", "ngram-2", "ngram-2:char"]}
    answer = comparison.read_kept(runs, "small")
    assert [row.name for row in answer.rows] == [row.name for row in made.rows]
    for shown, row in zip(answer.rows, made.rows, strict=True):
        assert shown.bits_per_byte == row.bits_per_byte.mean
        assert shown.perplexity == row.perplexity.mean
        assert shown.next_ms == 1e3 * row.latency
        assert shown.level is not None
        assert shown.level.model_dump() == {"bits": row.first.validation, "perplexity": None}
    assert [row.apart for row in answer.rows] == [False, False, True]
    assert answer.rows[1].sees == 1


def test_only_what_is_listed_is_opened(kept: tuple[Path, Comparison], tmp_path: Path):
    runs, _ = kept
    for name in ("nobody", "../kept", "small/../small", "", "."):
        with assert_refused(NotThereError, repr(name)):
            comparison.read_kept(runs, name)
    inside = tmp_path / "runs"
    (inside / "file").mkdir(parents=True)
    (inside / "file" / "compare.json").symlink_to(runs / "small" / "compare.json")
    (inside / "folder").symlink_to(runs / "small")
    assert comparison.list_kept(inside) == comparison.list_kept(tmp_path / "nowhere") == []
    with pytest.raises(NotThereError):
        comparison.read_kept(inside, "folder")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        '{"rows": 3, "source": "x"}',
        '{"rows": [{"name": "a", "trials": []}], "source": "x"}',
        '{"rows": [{"name": "a", "trials": [{"name": 1}]}], "source": "x"}',
        "[" * 100_000,
    ],
)
def test_a_damaged_comparison_is_a_sentence(tmp_path: Path, content: str):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "compare.json").write_text(content, encoding="utf-8")
    with assert_refused(FormatError, "broken/compare.json"):
        comparison.read_kept(tmp_path, "broken")


def test_figures_of_the_wrong_kind_are_a_sentence(kept: tuple[Path, Comparison], tmp_path: Path):
    stored = json.loads((kept[0] / "small" / "compare.json").read_text(encoding="utf-8"))
    (tmp_path / "odd").mkdir()
    for name, value in (("bits_per_byte", "many"), ("size", None), ("agreement", {"distance": 3}), ("curve", [[1, 2]])):
        wrong = json.loads(json.dumps(stored))
        wrong["rows"][0]["trials"][0][name] = value
        (tmp_path / "odd" / "compare.json").write_text(json.dumps(wrong), encoding="utf-8")
        with assert_refused(FormatError, "odd/compare.json"):
            comparison.read_kept(tmp_path, "odd")


def test_the_routes_measure_once_and_again_when_the_model_changes(
    server: Served, ready_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    measured: list[str] = []
    true = comparison.measure

    def counted(lm: Any, name: str, run: Path, texts: Any) -> comparison.ComparedModel:
        measured.append(name)
        return true(lm, name, run, texts)

    monkeypatch.setattr(comparison, "measure", counted)
    run = server.runs / "copied"
    shutil.copytree(ready_folder / "ngram", run)
    try:
        for _ in range(2):
            answer = _post(server, "/api/compare", {"models": ["runs:copied", "runs:copied"]})
            assert [row["name"] for row in answer.json()["rows"]] == ["runs:copied"]
        assert measured == ["runs:copied"]
        with (run / "log.jsonl").open("a") as log:
            log.write('{"event": "note"}\n')
        assert _post(server, "/api/compare", {"models": ["runs:copied"]}).status_code == 200
        assert measured == ["runs:copied"] * 2
        curves = _post(server, "/api/curves", {"models": ["runs:copied", "ready:gru"]}).json()
        assert [(one["label"], one["kind"]) for one in curves] == [("copied", "ngram"), ("gru", "gru")]
        assert curves[0]["valid_step"] == []
        assert len(curves[1]["valid_seen"]) == len(curves[1]["valid_perplexity"]) > 0
    finally:
        shutil.rmtree(run)
    for path in ("/api/compare", "/api/curves"):
        assert _post(server, path, {"models": ["runs:copied"]}).status_code == 404
        assert _post(server, path, {"models": []}).status_code == 422
        assert _post(server, path, {"models": ["runs:../x"]}).status_code == 422
    assert httpx.get(f"{server.address}/api/comparisons/nobody").status_code == 404
    assert httpx.get(f"{server.address}/api/comparisons/..%2F..%2Fetc").status_code == 404


def test_what_ships_is_known_before_anything_is_measured(server: Served, ready_folder: Path):
    """The first answer has the figures of the ready models; the speed and a run of the user come when measured."""
    names = ["ready:lstm", "ready:gone", "ready:window"]
    with httpx.Client(base_url=server.address, timeout=60) as client:
        answer = client.post("/api/compare", json={"models": names, "measure": []}).json()
        rows = {row["name"]: row for row in answer["rows"]}
        assert set(rows) == {"lstm", "window"}
        lm = thereafter.load(ready_folder / "lstm")
        score = lm.score(ready.compared_sentences(ready_folder)["test"])
        assert rows["lstm"]["perplexity"] == pytest.approx(score.perplexity, rel=0.01)
        assert rows["lstm"]["agreement"]
        assert rows["lstm"]["curves"]
        measured = client.post("/api/compare", json={"models": [names[0], names[2]], "measure": [names[0]]}).json()
        assert measured["rows"][0]["next_ms"] > 0
        missing = client.post("/api/compare", json={"models": names, "measure": ["ready:gone"]})
        assert missing.status_code == 404


def _post(server: Served, path: str, asked: dict[str, Any]) -> httpx.Response:
    return httpx.post(server.address + path, json=asked, timeout=60)
