"""Networks that lose to what is solved at once."""

from __future__ import annotations

from refusals import assert_refused
from thereafter.comparing.task_trials import choose_networks, losses, verdict
from thereafter.errors import OptionError
from thereafter.tasks import TASKS

VALUES = {"naive": 0.034, "linear": 0.026, "ar": 0.03, "lstm": 0.028, "gru": 0.025, "rnn": 0.05}
SOLVED = ("naive", "linear", "ar")


def test_a_network_is_held_against_the_best_of_those_that_are_solved():
    lost = losses(VALUES, SOLVED, "mse_standardised")
    assert [(one.network, one.simpler) for one in lost] == [("lstm", "linear"), ("rnn", "linear")]
    expected = "lstm loses to linear, which is solved at once: 0.028 and 0.026 MSE in standard deviations"
    assert str(lost[0]) == expected
    assert losses({"lstm": 0.03, "naive": 0.03}, ["naive"], "mae") == []
    assert losses({"lstm": 0.03}, ["naive"], "mae") == []


def test_the_verdict_names_the_best():
    assert verdict(VALUES, SOLVED, "mae") == "gru is the best, 0.025 mae"
    some = {name: VALUES[name] for name in ("linear", "lstm")}
    assert verdict(some, SOLVED, "mae").endswith("no network that is trained in steps beats it here: take linear")
    assert verdict({"gru": 1.0}, (), "mae") == ""


def test_kinds_are_networks_by_their_names():
    task = TASKS.load("forecast")
    wide = {"wide": {"model": "gru", "hidden": 9}, "lstm": {"hidden": 3}}
    assert choose_networks(task, wide) == {
        "wide": {"model": "gru", "hidden": 9},
        "lstm": {"model": "lstm", "hidden": 3},
    }
    assert choose_networks(task, "naive, gru") == {"naive": {"model": "naive"}, "gru": {"model": "gru"}}
    assert choose_networks(task, ["ar"]) == {"ar": {"model": "ar"}}
    assert choose_networks(task, {"deep": {"layers": 2}}) == {"deep": {"layers": 2}}
    assert list(choose_networks(task, None)) == list(task.peers())
    assert choose_networks(TASKS.load("tag"), None) == {"tag": {}}
    with assert_refused(OptionError, "forecast", "lstn", "lstm"):
        choose_networks(task, ["lstn"])
    with assert_refused(OptionError, "gru"):
        choose_networks(TASKS.load("tag"), ["gru"])
