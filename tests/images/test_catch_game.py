"""The game of catch: its rules, its file, and that many games at once are the same games."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from refusals import assert_refused
from thereafter.errors import FormatError, OptionError
from thereafter.tasks import TASKS
from thereafter.vision.acting.game import (
    ACTIONS,
    FINE,
    CatchCodec,
    CatchRule,
    Episode,
    Episodes,
    caught,
    foreseeing,
    play,
    screen,
    starts_of,
)
from thereafter.vision.acting.network import CatchBoard


@pytest.mark.parametrize("size", [3, 7, 24])
def test_many_games_at_once_are_the_games_of_one_player(size: int) -> None:
    rng = np.random.default_rng(size)
    episodes = [Episode(int(number), int(seed)) for number, seed in rng.integers(0, 10**9, (60, 2))]
    starts = starts_of(episodes, size)
    actions_BT = rng.integers(0, len(ACTIONS), (60, size - 1))
    games = [
        play(one, lambda moment, row=row: int(row[moment.row]), size)  # type: ignore[misc]
        for one, row in zip(episodes, actions_BT, strict=True)
    ]
    board = CatchBoard(*torch.from_numpy(starts).unbind(1), size=size)
    for step in range(size):
        moments = [game[step] for game in games]
        assert board.column_BT[:, step].tolist() == [one.column for one in moments]
        assert board.paddle_B.tolist() == [one.paddle for one in moments]
        points_BP2 = board.points(step)
        for row, moment in enumerate(moments):
            painted = np.zeros((size, size), np.uint8)
            painted[points_BP2[row, :, 1], points_BP2[row, :, 0]] = 255
            np.testing.assert_array_equal(painted, screen(moment, size))
        if step < size - 1:
            board.move(torch.from_numpy(actions_BT[:, step]))
    assert board.caught().tolist() == [caught(game[-1]) for game in games]


def test_the_ball_falls_straight_on_and_bounces_off_the_walls() -> None:
    for number in range(200):
        moments = play(Episode(number, 5), lambda _: 1)
        assert [one.row for one in moments] == list(range(24))
        assert {one.paddle for one in moments} == {moments[0].paddle}
        steps = np.diff([one.column for one in moments])
        assert np.abs(steps).max() <= 1
        turns = np.flatnonzero(np.diff(np.sign(steps[steps != 0])))
        assert len(turns) <= 1  # at the fastest it crosses the screen once
    ball_B, slant_B, paddle_B = starts_of([Episode(number) for number in range(4_000)], 24).T
    assert np.unique(ball_B).tolist() == list(range(24))
    assert np.unique(paddle_B).tolist() == list(range(23))
    assert (slant_B.min(), slant_B.max()) == (-FINE, FINE)


def test_who_sees_all_catches_all() -> None:
    for size in (3, 8, 24):
        games = [Episode(number, 2) for number in range(400)]
        assert all(caught(play(one, foreseeing(one, size), size)[-1]) for one in games)
    still = sum(caught(play(Episode(number, 2), lambda _: 1)[-1]) for number in range(1_000))
    assert 50 <= still <= 120  # two of 24 columns


def test_episodes_are_those_of_their_rules(tmp_path: Path) -> None:
    rule = CatchRule(count=5, seed=9, size=8)
    (tmp_path / "rule.json").write_text(rule.to_json())
    assert CatchRule.read(tmp_path / "rule.json") == rule
    episodes = Episodes([rule, CatchRule(count=2, seed=1, size=8)])
    assert len(episodes) == 7
    assert [one.name for one in episodes] == ["9:0", "9:1", "9:2", "9:3", "9:4", "1:0", "1:1"]
    assert episodes[-1] == episodes[6]
    assert episodes == Episodes([rule, CatchRule(count=2, seed=1, size=8)])
    alone, together = starts_of([episodes[3]], 8), starts_of(episodes, 8)
    assert alone[0].tolist() == together[3].tolist()
    assert CatchCodec.fit(episodes).batch(episodes).shape == (7, 3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"format": "moving digits"}', "not a rule of catch"),
        ('{"format": "catch", "sise": 24}', "did you mean.*size"),
        ('{"format": "catch", "size": 2}', "size is 2; expected a whole number from 3 to 256"),
        ('{"format": "catch", "count": 0}', "count is 0"),
        ("[", "not JSON"),
    ],
)
def test_a_wrong_rule_of_catch_is_refused(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        CatchRule.from_json(text)


def test_a_screen_of_another_size_is_refused() -> None:
    codec = CatchCodec.fit([Episode(1, size=8)])
    with assert_refused(FormatError, "24 x 24", "8 x 8"):
        codec.check(Episodes([CatchRule()]), "the rule")
    with pytest.raises(OptionError, match="no episodes"):
        CatchCodec.fit([])
    for stored in ({}, {"side": 2}, {"side": 10**9}, {"side": True}):
        with pytest.raises(FormatError, match="damaged"):
            CatchCodec.from_json(stored)


def test_the_first_episodes_of_rules_are_not_made() -> None:
    several = Episodes([CatchRule(count=3, seed=5), CatchRule(count=2, seed=6), CatchRule(count=10**8, seed=7)])
    for count in (1, 3, 4, 5, 9):
        assert list(several[:count]) == [several[k] for k in range(count)]
    assert len(several[: 10**8]) == 10**8
    learned, heldout, _ = TASKS.load("act").hold_out(several, 0.05)
    assert (len(learned), len(heldout)) == (10**8 + 5 - 2_000, 2_000)
    assert isinstance(learned, Episodes)
    assert heldout[0].number == learned[len(learned) - 1].number + 1
