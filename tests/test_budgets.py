"""Budgets count text, not time: what is trained by default is the same on a quiet machine and on a busy one."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from thereafter.cli import app
from thereafter.comparing import tables
from thereafter.comparing.compare import Comparison, compare
from thereafter.comparing.rows import Trial
from thereafter.evaluation.agreement import Tally, Verdicts
from thereafter.ready import models as ready
from thereafter.studio import worker

ROOT = Path(__file__).parents[1]
TIMED = {"train tok/s", "next ms", "train s"}
SIZE = "size MB"  # of a run folder, which names its source: another folder, another size


@contextmanager
def busy() -> Iterator[None]:
    """An endless loop beside, which takes its share of a core."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def untimed(compared: Comparison) -> list[Any]:
    """All that a comparison shows but what it measured with a clock."""
    heads, lines = tables.score_table(compared)
    scores = [[cell for head, cell in zip(heads, line, strict=True) if head not in {*TIMED, SIZE}] for line in lines]
    probes = [tables.probe_tables(probed) for probed in compared.probes()]
    assert probes, "the sentences offer a probe"
    return [scores, probes, [row.first.seen for row in compared.rows]]


def test_the_budgets_of_the_demo_are_tokens(demo: ModuleType):
    for options in (demo.AGREEMENT, demo.DOCS):
        budgets = {name for name in options if name.rpartition(".")[2] in ("minutes", "epochs", "tokens_budget")}
        assert budgets == {"tokens_budget"}


def compare_few(demo: ModuleType, folder: Path, models: Sequence[str] = ("ngram-3", "rnn", "lstm")) -> Comparison:
    """A comparison as the demo makes it, of a few sentences and a few steps."""
    texts = demo.sentences(folder / demo.RUNS / "sentences", {"train": 200, "valid": 20, "test": 40})
    options = demo.AGREEMENT | {"tokens_budget": 600, "validate_every": 2}
    others = {name.partition(".")[0] for name in options if "." in name} - {"text", *models}
    options = {name: value for name, value in options.items() if name.partition(".")[0] not in others}
    return compare(texts, models=models, out=folder / demo.RUNS / "agreement", **options)


def assert_all_read_the_same(trials: Sequence[Trial]) -> None:
    assert {trial.seen for trial in trials} == {trials[0].seen}
    assert trials[0].seen >= 600


@pytest.fixture(scope="module")
def small(demo: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    """A comparison as the demo makes it, of a few sentences and a few steps, and the folder it stands in."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, compare_few(demo, folder)


def test_the_demo_shows_the_same_table_beside_a_busy_loop(
    demo: ModuleType, small: tuple[Path, Comparison], tmp_path: Path
):
    with busy():
        loaded = compare_few(demo, tmp_path)
    assert untimed(small[1]) == untimed(loaded)
    sizes = [[row.first.size for row in compared.rows] for compared in (small[1], loaded)]
    assert sizes[0] == pytest.approx(sizes[1], abs=500)
    assert_all_read_the_same([row.first for row in loaded.rows if row.first.model != "ngram"])


@pytest.mark.wide
def test_every_generation_of_the_demo_reads_the_same(demo: ModuleType, tmp_path: Path):
    compared = compare_few(demo, tmp_path, demo.GENERATIONS)
    assert len(compared.rows) == 4
    assert_all_read_the_same([row.first for row in compared.rows])


def changed(compared: Comparison, **figures: dict[str, Any]) -> Comparison:
    """The same comparison with other figures: those of each model by its name."""
    rows = [
        replace(row, trials=tuple(replace(trial, **figures.get(row.name, {})) for trial in row.trials))
        for row in compared.rows
    ]
    return replace(compared, rows=tuple(rows))


def test_the_sentences_of_the_demo_follow_from_its_figures(demo: ModuleType, small: tuple[Path, Comparison]):
    curve = [[1.0, 1000.0, 2.6], [2.0, 2000.0, 2.4], [3.0, 3000.0, 2.35]]
    counted = {"bits_per_byte": 2.0, "validation": 2.5}
    far = changed(small[1], **{"ngram-3": counted}, rnn={"bits_per_byte": 3.0})
    ahead = changed(far, lstm={"bits_per_byte": 1.8, "curve": curve})
    behind = changed(far, lstm={"bits_per_byte": 2.2, "curve": [[1.0, 1000.0, 2.6], [2.0, 2000.0, 2.7]]})
    assert demo.learning_notes(ahead)[1:] == [
        "Trained on fewer than 2k tokens it loses to ngram-3 there.",
        "What more training does: the last 1k tokens took off 0.050 bits per byte.",
        "lstm passes ngram-3: 10.0 % fewer bits per byte of the test part.",
    ]
    assert demo.learning_notes(behind)[1:] == [
        "lstm has not passed ngram-3 there: its training is too short.",
        "What more training does: the last 1k tokens took off nothing more.",
        "lstm does not pass ngram-3: 10.0 % more bits per byte of the test part.",
    ]
    (other,) = [one for one in ahead.differences if one.other != "rnn"]
    unsure = replace(other, difference=replace(other.difference, low=-0.1, high=0.1))
    assert demo.ahead(replace(ahead, differences=(unsure,))).endswith("part, which another test text may reverse.")
    assert demo.mixture_note(ahead, 1.7, [0.25, 0.75]).endswith("5.6 % fewer than lstm, the better of the two.")
    assert demo.mixture_note(behind, 2.1, [0.25, 0.75]).endswith("no fewer than ngram-3 alone.")


def test_the_demo_says_how_far_each_model_reaches(demo: ModuleType, small: tuple[Path, Comparison]):
    def answers(*shares: float) -> dict[str, Any]:
        distances = {
            far: Tally(400 * share, 400) for (far, _), share in zip(demo.BINS[: len(shares)], shares, strict=True)
        }
        groups = {"attractors": {0: Tally(1, 2)}, "congruence": {"congruent": Tally(1, 2)}}
        return {"probes": {"agreement": Verdicts(distances, groups).as_dict()}}

    figures = {"ngram-3": answers(0.9, 0.5, 0.9), "rnn": answers(0.52, 0.9, 0.9), "lstm": answers(0.9, 0.8, 0.7)}
    assert demo.distance_notes(changed(small[1], **figures))[:-1] == [
        "Training has at most 6 words between. Right with 3 to 3: ngram-3 90.0 %, rnn 90.0 %, lstm 70.0 %.",
        "Better than guessing at no distance: rnn.",
        "Better than guessing with up to 0 words between: ngram-3.",
        "Better than guessing with up to 3 words between: lstm.",
    ]


def test_the_commands_that_the_demo_ends_with_run(
    demo: ModuleType, small: tuple[Path, Comparison], monkeypatch: pytest.MonkeyPatch
):
    folder, compared = small
    monkeypatch.chdir(folder)
    lstm = replace(compared, folder=demo.RUNS / "agreement")
    commands = [shlex.split(command)[1:] for _, command in demo.next_commands(lstm, lstm)]
    for command in commands:
        shorter = ["600" if word.isdecimal() and int(word) > 1000 else word for word in command]
        answer = CliRunner().invoke(app, shorter)
        assert answer.exit_code == 0, answer.output
    assert [command[0] for command in commands] == ["inspect", "compare", "next"]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_demo_installs_the_package_alone():
    """By the commands that make would run, each with a line that says what follows."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    planned = {
        target: subprocess.run(
            ["make", "-nB", target], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for target in ("demo", "ready")
    }
    installs = {target: [line for line in lines if "pip install" in line] for target, lines in planned.items()}
    assert [line.split()[-2:] for line in installs["demo"]] == [["-e", "."]]
    assert [line.split()[-1] for line in installs["ready"]] == [".", '".[dev]"']
    for target, lines in planned.items():
        assert lines[0].startswith("echo ")
        for line in installs[target]:
            assert "-c constraints.txt" in line
            assert lines[lines.index(line) - 1].startswith("echo ")


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_no_recipe_is_measured_in_minutes(path: Path):
    training = tomllib.loads(path.read_text(encoding="utf-8")).get("training", {})
    assert "minutes" not in training


def test_all_ready_models_of_the_sentences_read_equally_much():
    budgets = {one.budget for one in ready.READY if one.source == ready.SENTENCES_NAME and one.kind != "ngram"}
    assert budgets == {ready.BUDGET}


def test_a_training_of_the_studio_has_epochs_unless_minutes_are_asked_for(tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\n" * 100_000, encoding="utf-8")
    chosen = worker.watched_options(str(text), "prose", {})
    assert chosen["epochs"] == pytest.approx(2_000_000 / (0.9 * 2_300_000 / 5), rel=0.05)
    assert "minutes" not in chosen
    for asked in ({"minutes": 1.0}, {"epochs": 2.0}):
        assert not {"epochs", "minutes", "tokens_budget"} & set(worker.watched_options(str(text), None, asked))
