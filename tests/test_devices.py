"""Where a loaded model computes: the device that is named, or the one there is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import thereafter
from far_device import far_device
from refusals import assert_refused
from thereafter.base import devices, progress
from thereafter.cli import main
from thereafter.errors import DeviceMemoryError, OptionError
from thereafter.language_model import LanguageModel
from thereafter.models import quiet
from thereafter.task_model import TaskModel

TEXT = "the cat sat on the mat\nthe dog ran far away\n" * 20
LABELLED = "a gripping film\tgood\na dull film\tbad\n" * 10


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an n-gram, an LSTM and a task."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "labelled.tsv").write_text(LABELLED, encoding="utf-8")
    small: dict[str, Any] = {"hidden": 8, "epochs": 1, "device": "cpu"}
    thereafter.train(folder / "text.txt", tokens="word", out=folder / "ngram")
    thereafter.train(folder / "text.txt", model="lstm", tokens="word", out=folder / "lstm", **small)
    thereafter.train(folder / "labelled.tsv", task="classify", out=folder / "task", **small)
    return folder


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("name", ["lstm", "task"])
def test_a_gpu_that_is_not_here_is_refused_in_a_sentence(runs: Path, name: str) -> None:
    with assert_refused(OptionError, "device", "cuda", "device='cpu'"):
        thereafter.load(runs / name, device="cuda")
    assert thereafter.load(runs / name, device="auto") is not None


@pytest.mark.parametrize("name", ["ngram", "lstm", "task"])
def test_an_unknown_device_is_refused(runs: Path, name: str) -> None:
    with assert_refused(OptionError, "device", "gpu", "auto", "cpu", "cuda"):
        thereafter.load(runs / name, device="gpu")


class Listener(progress.Silent):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


def test_an_ngram_says_that_it_answers_on_the_cpu(runs: Path) -> None:
    listener = Listener()
    with progress.reporting(listener):
        lm = thereafter.load(runs / "ngram", device="cuda")
    assert isinstance(lm, LanguageModel)
    assert listener.notes == ["the model 'ngram' has no network to compute on a GPU: it answers on the CPU"]


def test_a_run_is_loaded_onto_the_device_that_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = thereafter.load(runs / "task", device="cpu")
    lm = thereafter.load(runs / "lstm", device="cpu")
    assert isinstance(here, TaskModel)
    assert isinstance(lm, LanguageModel)
    answers = here.predict(["a gripping film", "dull"]), lm.score(text=TEXT).nats
    with far_device(monkeypatch) as far:
        monkeypatch.setattr(devices, "device_for", lambda asked: far.type if asked == "cuda" else "cpu")
        there, lm = thereafter.load(runs / "task", device="cuda"), thereafter.load(runs / "lstm", device="cuda")
        assert isinstance(there, TaskModel)
        assert isinstance(lm, LanguageModel)
        assert there.net.device == far
        assert not there.net.training
        assert (there.predict(["a gripping film", "dull"]), pytest.approx(lm.score(text=TEXT).nats, 1e-6)) == answers


@pytest.mark.parametrize(
    "command",
    [
        ("next", "lstm", "the cat"),
        ("generate", "lstm", "the cat", "--max-new-tokens", "3"),
        ("rank", "lstm", "the cat", "the dog"),
        ("score", "lstm", "text.txt"),
        ("score", "task", "labelled.tsv"),
        ("surprisal", "lstm", "text.txt"),
        ("predict", "task", "a dull film"),
        ("predict", "task", "--score", "labelled.tsv"),
        ("score", "lstm", "text.txt", "--mix", "lstm"),
    ],
    ids=" ".join,
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_commands_take_a_device(
    command: tuple[str, ...], runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    for device, code in (("cpu", 0), ("cuda", 2)):
        monkeypatch.setattr(sys, "argv", ["thereafter", *command, "--device", device])
        with pytest.raises(SystemExit) as end:
            main()
        assert (end.value.code or 0) == code
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: device is 'cuda', and torch sees no GPU here")


@pytest.mark.parametrize("name", ["lstm", "task"])
def test_a_gpu_that_is_full_leaves_the_model_on_the_cpu_unless_it_was_named(
    name: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, listener = torch.nn.Module.to, Listener()

    def to(net: torch.nn.Module, device: Any, *more: Any) -> torch.nn.Module:
        if torch.device(device).type == "cuda":
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return own(net, device, *more)

    monkeypatch.setattr(devices, "device_for", lambda asked: "cuda")
    monkeypatch.setattr(torch.nn.Module, "to", to)
    with progress.reporting(listener):
        model = thereafter.load(runs / name, device="auto")
    called = "lstm" if name == "lstm" else "classify"
    assert listener.notes == [f"the memory of the GPU is full: {called!r} answers on the CPU"]
    net = model.net if isinstance(model, TaskModel) else model.model
    assert not net.training
    assert {weight.device.type for weight in net.parameters()} == {"cpu"}
    with assert_refused(DeviceMemoryError, called, "device='cpu'"):
        thereafter.load(runs / name, device="cuda")


def test_bfloat16_that_is_imitated_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for own in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, own=own: own)
        assert devices.precision_for("auto", "cuda") == ("bfloat16" if own else "float32")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)  # a torch without the argument
    assert devices.precision_for("auto", "cuda") == "bfloat16"
    assert devices.precision_for("auto", "cpu") == "float32"


def test_answers_are_computed_in_whole_floats(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = thereafter.load(runs / "lstm", device="cpu")
    assert isinstance(lm, LanguageModel)
    before, seen = torch.backends.cudnn.allow_tf32, []
    own = type(lm.model).encode

    def encode(*given: Any, **named: Any) -> Any:
        seen.append(torch.backends.cudnn.allow_tf32)
        return own(*given, **named)

    monkeypatch.setattr(type(lm.model), "encode", encode)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    lm.score(text="the cat")
    assert set(seen) == {True}  # no GPU was asked for
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    seen.clear()
    with lm.model.quietly():
        lm.score(text="the dog")
        assert torch.backends.cudnn.allow_tf32 is False
    assert set(seen) == {False}
    assert torch.backends.cudnn.allow_tf32 is True
    monkeypatch.undo()
    assert torch.backends.cudnn.allow_tf32 == before


@pytest.fixture
def own_precisions() -> Iterator[None]:
    """What a test sets is put back: first the flag, which sets the precisions, then what is above them."""
    yield
    torch.backends.fp32_precision = "none"
    torch.backends.cudnn.allow_tf32 = True


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="this torch has one flag alone")
@pytest.mark.parametrize("chosen", ["ieee", "tf32"])
@pytest.mark.parametrize("place", ["all", "conv"])
@pytest.mark.usefixtures("own_precisions")
def test_answers_come_whatever_precision_a_user_has_chosen(
    chosen: str, place: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = thereafter.load(runs / "lstm", device="cpu")
    assert isinstance(lm, LanguageModel)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    layers = [getattr(torch.backends.cudnn, name) for name in ("conv", "rnn")]
    (torch.backends if place == "all" else layers[0]).fp32_precision = chosen
    before = [layer.fp32_precision for layer in layers]
    with lm.model.quietly():
        lm.score(text="the dog")
        assert [layer.fp32_precision for layer in layers] == ["ieee", "ieee"]
    assert [layer.fp32_precision for layer in layers] == before


def test_a_switch_that_torch_refuses_leaves_nothing_behind(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = thereafter.load(runs / "lstm", device="cpu")
    assert isinstance(lm, LanguageModel)

    def refuse(self: object) -> None:
        raise RuntimeError("no such switch")

    lm.model.train()
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "is_initialized", lambda: True)
        patched.setattr(quiet._WholeFloats, "put_on", refuse)
        with pytest.raises(RuntimeError, match="no such switch"):
            lm.score(text="the dog")
    assert lm.model.training
    lm.score(text="the dog")
    assert lm.model.training
