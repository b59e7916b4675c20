"""What every task must do, held against everything in the table of tasks: a new one is tested before its author writes
a test. It needs a `Toy` in `toys.py`."""

from __future__ import annotations

import io
import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import TOYS, Shell, Toy, assert_resumed_to_the_bit

import thereafter
from refusals import assert_refused
from thereafter.base import config
from thereafter.data.codecs import CODECS, restore_codecs, store_codecs
from thereafter.data.finding import FileKind
from thereafter.errors import OptionError, ThereafterError
from thereafter.task_model import TaskModel
from thereafter.tasks import TASKS
from thereafter.tasks.fitting import settle
from thereafter.tasks.task import Answering, AnyTask
from thereafter.training.settings import TrainingSettings

SMALL: dict[str, Any] = {"hidden": 8, "epochs": 1, "batch": 8, "rate": 0.01, "dropout": 0.2, "seed": 1}


@dataclass(frozen=True)
class Case:
    """A task with a trained network of it, and what it learned from."""

    name: str
    toy: Toy
    source: Path
    model: TaskModel

    @property
    def task(self) -> AnyTask:
        return self.model.task

    @property
    def options(self) -> dict[str, Any]:
        return SMALL | dict(self.toy.options)

    def examples(self) -> list[object]:
        """A few examples with their answers."""
        return self.task.read([self.source])[:6]

    def asked(self, *more: str) -> list[object]:
        """The questions as examples without answers."""
        return [self.task.example(question) for question in (*self.toy.questions, *more)]

    def batch(self, examples: Sequence[object]) -> Any:
        return self.task.batch(examples, self.model.codecs)

    def answers(self, examples: Sequence[object]) -> list[object]:
        return self.task.answers(self.model.net, self.batch(examples), self.model.codecs)


@pytest.fixture(scope="module", params=TASKS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Trained for a few steps."""
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    toy = TOYS[name]
    source = toy.write(folder / "examples.tsv", 40)
    return Case(name, toy, source, thereafter.train(source, task=name, **SMALL | dict(toy.options)))


def quick_with(*names: str) -> pytest.MarkDecorator:
    """A check that holds for what all tasks share: these stand for all, the others are wide."""
    tasks = [name if name in names else pytest.param(name, marks=pytest.mark.wide) for name in TASKS]
    return pytest.mark.parametrize("case", tasks, indirect=True)


def same(one: object, other: object) -> bool:
    """Equal answers, probabilities to 5 digits."""
    if isinstance(one, float):
        return isinstance(other, float) and math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.shape == other.shape and same(one.tolist(), other.tolist())
    if is_dataclass(one):
        return type(one) is type(other) and same(list(vars(one).values()), list(vars(other).values()))
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(same, one, other))
    return one == other


def test_its_row_says_what_it_is(case: Case) -> None:
    task = case.task
    assert task.name == case.name
    known = ("tagged", "labelled", "labelled-series", "series", "pairs", "captioned", "pictures", "clips", "text")
    assert task.kind in (*known, "games")
    assert isinstance(task.file_kind, FileKind)
    assert task.file_kind.groups
    assert task.defaults.keys() <= {field.name for field in fields(TrainingSettings)}
    assert is_dataclass(task.settings)
    assert type(case.model.config[case.name]) is dict
    assert TASKS.load(case.name).name == case.name


# ---- examples and codecs


def test_it_reads_examples_and_refuses_a_damaged_file_in_a_sentence(case: Case, tmp_path: Path) -> None:
    assert len(case.task.read([case.source])) == 40
    path = tmp_path / "damaged.tsv"
    for content in (case.toy.damaged, case.source.read_bytes() + b"\xff\xfe \xff\n"):
        path.write_bytes(content)
        with assert_refused(ThereafterError, "damaged.tsv") as caught:
            case.task.read([path])
        assert "\n" not in str(caught.value)


def test_its_codecs_come_back_from_json(case: Case) -> None:
    codecs = case.model.codecs
    again = restore_codecs(json.loads(json.dumps(store_codecs(codecs))))
    assert store_codecs(again) == store_codecs(codecs)
    assert all(codec.codec in CODECS for codec in codecs.values())
    for examples in (case.examples(), case.asked()):
        one, other = case.batch(examples), case.task.batch(examples, again)
        for name, tensor in vars(one).items():
            assert (tensor is None) == (getattr(other, name) is None)
            if isinstance(tensor, torch.Tensor):
                assert torch.equal(tensor, getattr(other, name)), name


def test_lengths_and_targets_are_those_of_the_batch(case: Case) -> None:
    examples, codecs = case.examples(), case.model.codecs
    lengths = case.task.lengths(examples, codecs)
    assert lengths.dtype == np.int64
    assert lengths.shape == (len(examples),)
    assert (lengths > 0).all()
    alone = [case.task.targets([one], codecs) for one in examples]
    assert min(alone) > 0
    assert sum(alone) == case.task.targets(examples, codecs)


# ---- the network


def test_settings_make_the_network(case: Case) -> None:
    settings, _ = settle(case.task, case.options)
    again = config.build(case.task.settings, case.model.config[case.name], case.name)
    assert again == settings
    small = case.task.build(settings, case.model.codecs)
    large = case.task.build(replace(settings, hidden=16), case.model.codecs)  # type: ignore[type-var]
    assert small.parameters_count() == case.model.net.parameters_count() < large.parameters_count()


def test_the_loss_is_finite_and_every_weight_has_a_gradient(case: Case) -> None:
    torch.manual_seed(1)
    settings, _ = settle(case.task, case.options | {"dropout": 0.0})
    net = case.task.build(settings, case.model.codecs).train()
    nats = net.nats(case.batch(case.examples()))
    assert nats.shape == ()
    assert 0 < nats.item() < math.inf
    nats.backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None, name
        assert torch.isfinite(weight.grad).all(), name
        assert weight.grad.any(), name


def test_the_order_of_a_batch_changes_no_row(case: Case) -> None:
    for examples in (case.examples(), case.asked()):
        order = list(range(len(examples)))
        random.Random(3).shuffle(order)
        answers = case.answers(examples)
        assert same(case.answers([examples[k] for k in order]), [answers[k] for k in order])


def test_padding_changes_no_row(case: Case) -> None:
    questions = case.asked()
    answers = case.answers(questions)
    assert same([case.answers([one])[0] for one in questions], answers)
    assert same(case.answers(case.asked(case.toy.long))[:-1], answers)
    with case.model.net.quietly():
        alone = [float(case.model.net.nats(case.batch([one]))) for one in case.examples()]
        together = float(case.model.net.nats(case.batch(case.examples())))
    assert together == pytest.approx(sum(alone), rel=1e-5)


# ---- a trained model


def test_saved_and_loaded_it_answers_the_same(case: Case, tmp_path: Path) -> None:
    again = thereafter.load(case.model.save(tmp_path / "copy"))
    assert config.dumps(again.config) == config.dumps(case.model.config)
    for name, weight in case.model.net.state_dict().items():
        assert torch.equal(weight, again.net.state_dict()[name]), name
    questions = list(case.toy.questions)
    assert again.predict(questions) == case.model.predict(questions)
    assert str(again.score(case.source)) == str(case.model.score(case.source))


def test_loading_draws_from_no_generator(case: Case, tmp_path: Path) -> None:
    case.model.save(tmp_path / "run")
    torch.manual_seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    thereafter.load(tmp_path / "run")
    thereafter.resume(tmp_path / "run")
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # type: ignore[index]


@quick_with("tag", "caption", "forecast", "draw", "act")
def test_a_stopped_training_goes_on_to_the_same_bits(case: Case, tmp_path: Path) -> None:
    assert_resumed_to_the_bit(tmp_path / "run", case.name, case.source, step=3, whole=case.model, **case.options)


def test_a_score_says_its_figure_and_its_unit(case: Case) -> None:
    score = case.model.score(case.source)
    first, *_ = str(score).splitlines()
    assert re.search(case.toy.figure, first), first
    figures = json.loads(json.dumps(score.as_dict()))
    numbers = [value for value in figures.values() if isinstance(value, int | float)]
    assert numbers
    assert all(map(math.isfinite, numbers))


def test_answers_come_in_the_order_of_the_questions(case: Case) -> None:
    questions = [*case.toy.questions, case.toy.long] * 3
    order = list(range(len(questions)))
    random.Random(1).shuffle(order)
    alone = {question: case.model.predict(question) for question in questions}
    answers = case.model.predict([questions[k] for k in order])
    assert same(answers, [alone[questions[k]] for k in order])
    assert case.model.predict([]) == []


@quick_with("classify", "classify-pictures", "caption", "forecast", "act")
def test_blank_lines_keep_their_place(
    case: Case, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = case.model.save(tmp_path / "run")
    given = "\n\n".join(case.toy.questions).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
    lines, code = shell("predict", run)
    assert code == 0
    assert len(lines) == 2 * len(case.toy.questions) - 1
    assert [bool(line.strip()) for line in lines[1::2]] == [False] * (len(case.toy.questions) - 1)
    one_by_one = [shell("predict", run, question)[0] for question in case.toy.questions]
    assert [[line] for line in lines[::2]] == one_by_one


# ---- mistakes


def test_an_unknown_option_is_refused_with_the_nearest_name(case: Case, tmp_path: Path) -> None:
    with assert_refused(OptionError, case.name, "hiden", "hidden"):
        thereafter.train(tmp_path / "never-read.tsv", task=case.name, hiden=3)
    asked = case.task.asked if isinstance(case.task, Answering) else {}
    nearest = ["beam"] if "beam" in asked else asked
    with assert_refused(OptionError, case.name, "beem", *nearest):
        case.model.predict(case.toy.questions[0], beem=3)


@pytest.mark.parametrize(("name", "value"), [("jitter", True), ("batching", "stream")])
def test_options_that_would_do_nothing_are_refused(case: Case, name: str, value: Any, tmp_path: Path) -> None:
    with assert_refused(OptionError, name, value, case.name):
        thereafter.train(tmp_path / "never-read.tsv", task=case.name, **{name: value})


def test_an_empty_question_is_refused_in_a_sentence(case: Case) -> None:
    for empty in ("", "  "):
        with pytest.raises(OptionError, match="expected") as caught:
            case.model.predict([case.toy.questions[0], empty])
        assert "\n" not in str(caught.value)


# ---- threads


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as the interpreter can make them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@quick_with("classify", "translate", "forecast", "video")
@pytest.mark.usefixtures("restless")
def test_threads_get_the_answers_of_one_thread(case: Case) -> None:
    model, questions = case.model, list(case.toy.questions)

    def explain() -> str:
        try:
            return str(model.explain(questions[0]))
        except OptionError as refused:  # a task need not explain its answers
            return str(refused)

    asks: list[Callable[[], Any]] = [lambda: model.predict(questions), explain] * 8
    expected = [ask() for ask in asks]
    model.net.train()  # asked while it is being trained: dropout must be off for all of them
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda ask: ask(), asks)) == expected
        assert model.net.training
    finally:
        model.net.eval()
