"""The task `act`: games of catch, played, explained and compared with other players."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys import Shell, catch_rule

import thereafter
from thereafter.errors import OptionError
from thereafter.training.recipes import read_recipe
from thereafter.vision.acting.game import ACTIONS, Episode, caught, play
from thereafter.vision.acting.network import CatcherSettings
from thereafter.vision.acting.task import ACTING, Played, PlayedExplained
from thereafter.vision.measures import resampled_catches, score_catches

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "acting.md"
QUICK: dict[str, Any] = {"patch": 3, "scales": 2, "hidden": 12, "read": 8, "cell": "rnn", "batch": 64, "rate": 0.01}


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> thereafter.TaskModel:
    """Plays on a screen of 6 x 6, trained for some steps."""
    source = catch_rule(tmp_path_factory.mktemp("games") / "games.json", 1_200)
    return thereafter.train(source, task="act", epochs=4, seed=1, **QUICK)


def test_a_game_is_played_by_its_number_and_explained_step_by_step(player: thereafter.TaskModel) -> None:
    explained = player.explain("1:7")
    assert isinstance(explained, PlayedExplained)
    assert explained.answer == player.predict(Episode(7, 1)) == player.predict("1:7")
    moments = play(Episode(7, 1), lambda moment: explained.actions_T[moment.row], 6)
    assert [one.column for one in moments] == list(explained.columns_T)
    assert [one.paddle for one in moments] == list(explained.paddles_T)
    assert explained.answer == Played(caught(moments[-1]), moments[-1].column, moments[-1].paddle)
    assert explained.chances_TA.argmax(1).tolist() == list(explained.actions_T)
    np.testing.assert_allclose(explained.chances_TA.sum(1), 1, rtol=1e-5)
    first, *lines = str(explained).splitlines()
    assert first.startswith(("caught; o the ball", "missed by "))
    assert [len(line) for line in lines[:6]] == [8] * 6
    assert "=" in lines[5]
    assert re.match(r"  step   5  ball in column +\d, paddle +\d, looked at column +[\d.]+, row", lines[-1])
    steps = explained.as_dict()["steps"]
    assert len(steps) == 5
    assert steps[2]["action"] in ACTIONS


def test_a_miss_says_by_how_much() -> None:
    assert str(Played(True, 4, 3)) == "caught"
    assert str(Played(False, 2, 3)) == "missed by 1 pixel on the left"
    assert str(Played(False, 9, 3)) == "missed by 5 pixels on the right"


def test_a_trace_of_a_game_has_places_policy_and_states(player: thereafter.TaskModel) -> None:
    trace = player.trace("5")
    assert trace.tokens == [f"step {number}" for number in range(1, 6)]
    assert trace.arrays["l0.h"].shape == (5, 12)
    assert trace.arrays["patches"].shape == (5, 2, 3, 3)
    weight, bias = (player.net.state_dict()[f"policy.{name}"].numpy()[:3] for name in ("weight", "bias"))
    scores = np.exp(trace.arrays["l0.h"] @ weight.T + bias)
    np.testing.assert_allclose(scores / scores.sum(1, keepdims=True), trace.arrays["policy"], rtol=1e-4)


def test_other_players_stand_beside_a_score(player: thereafter.TaskModel, tmp_path: Path) -> None:
    rows = dict(player.baselines(catch_rule(tmp_path / "more.json", 150, seed=4), trained=False))
    shares = {name: row.as_dict()["caught"] for name, row in rows.items()}
    assert list(shares) == ["random actions", "standing still", "sees the whole screen"]
    assert shares["sees the whole screen"] == 1
    assert max(shares["random actions"], shares["standing still"]) < 0.6


def test_the_share_of_balls_caught_has_an_interval() -> None:
    score = score_catches([True] * 85 + [False] * 15)
    assert str(score) == "caught 85.0 % (76.7 to 90.7) of 100 games"
    resampled = resampled_catches([True] * 85 + [False] * 15)
    assert resampled.figures(resampled.statistics_NS.sum(0, keepdims=True))["caught"].tolist() == [0.85]
    assert score.to_rows()[0]["caught"] == score.as_dict()["caught"] == 0.85


def test_games_from_the_command_line(player: thereafter.TaskModel, tmp_path: Path, shell: Shell) -> None:
    run, rule = player.save(tmp_path / "run"), catch_rule(tmp_path / "rule.json", 7)
    lines, code = shell("predict", run, "3", "1:4", rule)
    assert code == 0
    assert len(lines) == 9
    assert all(re.match(r"(\d\t)?(caught|missed by)", line) for line in lines)
    _, code = shell("predict", run, "--in", rule, "--out", tmp_path / "games.csv")
    assert code == 0
    rows = list(csv.DictReader((tmp_path / "games.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["episode"] for row in rows] == [f"1:{number}" for number in range(7)]
    lines, code = shell("predict", run, "3", "--explain")
    assert code == 0
    assert any("looked at column" in line for line in lines)


@pytest.mark.parametrize("wrong", ["", "seventeen", "-3", "1:2:3", "1.5", 2.5, True, "99999999999999999999"])
def test_what_is_no_episode_is_refused(player: thereafter.TaskModel, wrong: object) -> None:
    with pytest.raises(OptionError, match="expected the number of an episode"):
        player.predict([wrong])


def test_the_corpus_catch_is_its_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thereafter.data import corpora

    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path))
    corpus = corpora.locate("catch")
    assert (corpus.kind, list(corpus.parts)) == ("games", ["train", "valid", "test"])
    recipe = read_recipe(ROOT / "recipes" / "catch.toml")
    assert (recipe.task, recipe.source) == ("act", "catch")


def test_the_page_on_acting_says_what_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(block, "docs/acting.md", "exec"), {})  # noqa: S102, our own page
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.+)", block)
    defaults = vars(CatcherSettings())
    for names, values in re.findall(r"^\| (`.*`) \| ([^|]*\d.*) \|$", page.partition("## What was")[0], re.M):
        for name, value in zip(re.findall(r"`(\w+)`", names), re.split(r"[,;] ", values), strict=False):
            assert str(defaults[name]).removesuffix(".0") == value.strip("`"), name


@pytest.mark.parametrize("given", ["9" * 5_000, f"{'1' * 5_000}:3", str(2**53), "3:-1", "x:3"])
def test_an_episode_that_no_game_has_is_one_sentence(given: str) -> None:
    with pytest.raises(OptionError, match=r"^the episode is .{3,80}; expected the number of an episode") as caught:
        ACTING.example(given)
    assert len(str(caught.value)) < 300
    assert ACTING.example("3:17") == Episode(17, 3)
