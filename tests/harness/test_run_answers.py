"""What a run answers to a harness, without the harness: against `rank`, `score` and `generate`, and token by token."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import MissingPackageError, OptionError
from thereafter.language_model import LanguageModel
from thereafter.serving.harness import backend
from thereafter.serving.harness.backend import RunAnswers, settings_of

ROOT = Path(__file__).parents[2]
TEXT = (
    "".join(f"the {one} sees a {other}, and smiles.\n" for one in ("cat", "dog", "owl") for other in ("hen", "cow")) * 4
)
KINDS = ("word", "prose", "char", "bpe")


@pytest.fixture(scope="module", params=core(KINDS, ["word", "bpe"]))
def counted(request: pytest.FixtureRequest) -> LanguageModel:
    return thereafter.train(text=TEXT, order=4, tokens=request.param, min_count=1 if request.param != "bpe" else None)


@pytest.fixture(scope="module")
def words() -> LanguageModel:
    return thereafter.train(text=TEXT, order=3, tokens="word", min_count=1)


def token_by_token(lm: LanguageModel, before: str, whole: str) -> tuple[float, bool]:
    """log p and greed of the tokens of `whole` after those of `before`, one step at a time."""
    start, ids = len(lm.encode(before)), lm.encode(whole).tolist()
    state, total, greedy = lm.model.start(1), 0.0, True
    logp_1V = lm.model.predict(state)
    for place, token in enumerate(ids):
        if place >= start:
            logp_V = np.array(logp_1V[0], dtype=np.float64)
            total += logp_V[token]
            if lm.tokenizer.unknown_id is not None:
                logp_V[lm.tokenizer.unknown_id] = -np.inf
            greedy &= int(logp_V.argmax()) == token
        logp_1V, state = lm.model.step(np.array([token]), state)
    return total, greedy


def test_continuations_are_those_of_single_steps(counted: LanguageModel) -> None:
    asked = [
        ("the cat", " sees a hen, and"),
        ("the cat", " sees"),
        ("the cat ", "sees"),  # the space belongs to the continuation
        ("the dog", " and a hen, sees"),
        ("", "the owl sees"),
        ("the cat", " sees a cow,"),
    ]
    answers = RunAnswers(counted).continuations(asked)
    for (context, continuation), answer in zip(asked, answers, strict=True):
        log_prob, greedy = token_by_token(counted, context.rstrip(), context + continuation)
        assert answer.log_prob == pytest.approx(log_prob, abs=1e-4)
        assert answer.greedy is greedy
    assert answers[1] == answers[2]
    assert {answer.greedy for answer in answers} == {True, False}


def test_neural_runs_are_asked_alike() -> None:
    lm = thereafter.train(text=TEXT, model="lstm", tokens="char", hidden=8, tokens_budget=300, seed=1)
    asked = [("the cat", " sees a hen"), ("the cat", " "), ("", "the"), ("the ow", "l sees")]
    for (context, continuation), answer in zip(asked, RunAnswers(lm).continuations(asked), strict=True):
        log_prob, greedy = token_by_token(lm, context.rstrip(), context + continuation)
        assert answer.log_prob == pytest.approx(log_prob, abs=1e-4)
        assert answer.greedy is greedy


def test_unknown_words_pay_for_their_spelling(words: LanguageModel) -> None:
    ranked = dict(words.rank([" zebra", " hen,", " zebras and zebus"], "the cat sees a"))
    answers = RunAnswers(words).continuations([("the cat sees a", text) for text in ranked])
    assert [answer.log_prob for answer in answers] == pytest.approx(list(ranked.values()))
    assert not answers[1].greedy


def test_a_continuation_that_only_lengthens_a_word_is_read_by_itself(words: LanguageModel) -> None:
    answers = RunAnswers(words)
    grown, apart, empty = answers.continuations([("the ca", "t"), ("the ca", " t"), ("the cat", " ")])
    assert grown.log_prob == pytest.approx(apart.log_prob)
    assert (empty.log_prob, empty.greedy) == (0.0, True)


def test_documents_are_those_of_score(counted: LanguageModel) -> None:
    texts = [TEXT[:200], TEXT[100:333], ""]
    scores = [counted.score(text=text) for text in texts[:2]]
    expected = [-(score.nats + score.spelling_nats) for score in scores]
    assert RunAnswers(counted).documents(texts) == pytest.approx([*expected, 0.0])


def test_scores_that_are_no_probabilities_only_compare_choices() -> None:
    raw = RunAnswers(thereafter.train(text=TEXT, order=2, tokens="word", smoothing="stupid-backoff", normalise=False))
    with assert_refused(OptionError):
        raw.documents([TEXT])
    good, bad = raw.continuations([("the cat", " sees"), ("the cat", " cat")])
    assert good.log_prob > bad.log_prob


def test_texts_end_before_a_stop_string(counted: LanguageModel) -> None:
    greedy = {"until": [" and", ""], "max_gen_toks": 30}
    (text,) = RunAnswers(counted).texts([("the cat sees", greedy)], most=256, seed=1)
    whole = counted.generate("the cat sees", 30, do_sample=False)[len("the cat sees") :]
    assert text == whole.partition(" and")[0]
    drawn = {"do_sample": True, "temperature": 1.0, "max_gen_toks": 12}
    several = RunAnswers(counted).texts([("the", drawn)] * 4, most=256, seed=5)
    assert several == [counted.generate("the", 12, seed=5 + place)[3:] for place in range(4)]
    assert len(set(several)) > 1


def test_generation_options_of_tasks() -> None:
    plain = settings_of({"until": "\n"}, most=7, seed=1)
    assert (plain.greedy, plain.max_new_tokens, plain.stops, plain.seed) == (True, 7, ("\n",), 1)
    assert settings_of({"do_sample": False, "temperature": 0.7}, most=7, seed=1).greedy
    warm = settings_of({"temperature": 0.7, "top_p": 0.9, "max_tokens": 3}, most=7, seed=1)
    assert (warm.greedy, warm.temperature, warm.top_p, warm.max_new_tokens) == (False, 0.7, 0.9, 3)
    assert settings_of({"do_sample": True}, most=7, seed=1).temperature == 1.0
    assert settings_of({"do_sample": True, "temperature": None}, most=7, seed=1).temperature == 1.0
    for given, sentence in (
        ({"until": 3}, "expected a text or several"),
        ({"top_q": 0.9}, "gen_kwargs has no setting 'top_q'.*top_"),
        ({"max_gen_toks": "many"}, "expected int"),
    ):
        with pytest.raises(OptionError, match=sentence):
            settings_of(given, most=7, seed=1)


def test_mistakes_at_the_harness_are_sentences(
    words: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(words.save(tmp_path / "run"))
    with assert_refused(OptionError, "--model"):
        backend.run_harness(run, ["--model=hf", "--tasks", "blimp"])
    with assert_refused(OptionError, "--model_args", "max_gen_tok", "max_gen_toks"):
        backend.RunBackend(run, max_gen_tok=3)
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with assert_refused(MissingPackageError, "thereafter[harness]"):
        backend.run_harness(run, ["--tasks", "blimp"])
    result = CliRunner().invoke(app, ["lm-eval", "--tasks", "blimp"])
    assert result.exit_code == 2
    assert "--run" in result.output


def test_all_other_arguments_go_to_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, list[str], dict[str, object]]] = []
    monkeypatch.setattr(backend, "run_harness", lambda run, rest, **options: calls.append((run, rest, options)))
    rest = ["--tasks", "a", "b", "--limit", "3", "-f", "2", "--gen_kwargs", "top_p=0.9"]
    result = CliRunner().invoke(app, ["lm-eval", *rest[:3], "--run", "runs/book", "--as-written", *rest[3:]])
    assert result.exit_code == 0, result.output
    assert calls == [("runs/book", rest, {"tokens": "word", "as_written": True})]


def test_the_entry_point_names_the_class() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert groups["lm_eval.models"] == {backend.NAME: "thereafter.serving.harness.backend:ThereafterLM"}
    with assert_refused(AttributeError, "Other"):
        backend.Other  # noqa: B018
