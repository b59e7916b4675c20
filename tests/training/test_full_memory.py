"""A device without memory is one sentence, and a training that runs out of it goes on from its snapshot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import thereafter
from thereafter.base.devices import is_out_of_memory
from thereafter.cli import main
from thereafter.errors import DeviceMemoryError
from thereafter.training import fit
from thereafter.training.fit import _use_less
from thereafter.training.loop import Loop
from thereafter.training.neural import TextLearner, Validation
from thereafter.training.settings import TrainingSettings

SMALL: dict[str, Any] = {"hidden": 8, "embed": 8, "batch": 4, "steps": 8, "seed": 1, "device": "cpu"}
SMALL |= {"checkpoint_every": 2, "checkpoint_seconds": 0.0, "validate_every": 5, "epochs": 1}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat\nthe dog ran far away from it\n" * 30, encoding="utf-8")
    return path


def full(*given: object, **named: object) -> Any:
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nAnd much more to read.")


def after(calls: int, own: Any) -> Any:
    """As `own`, for so many calls; then the memory is full."""
    left = [calls]

    def limited(*given: object, **named: object) -> Any:
        left[0] -= 1
        return own(*given, **named) if left[0] >= 0 else full()

    return limited


@pytest.mark.parametrize("where", ["a step", pytest.param("a validation", marks=pytest.mark.wide)])
def test_a_training_is_saved_and_goes_on_as_if_nothing_had_happened(
    where: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = thereafter.train(text, model="lstm", tokens="word", **SMALL)
    run = tmp_path / "run"
    owner, name, calls = (TextLearner, "loss", 7) if where == "a step" else (Validation, "measure", 1)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, after(calls, getattr(owner, name)))
        with pytest.raises(DeviceMemoryError) as caught:
            thereafter.train(text, model="lstm", tokens="word", out=run, **SMALL)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith(
        "this machine is out of memory, and training needs more; "
        "try a smaller batch (it is 4) or fewer steps (they are 8); "
    )
    step = 6 if where == "a step" else 10
    assert sentence.endswith(
        f"nothing is lost: with more memory step {step} goes on with: thereafter train --resume {run}"
    )
    assert caught.value.__cause__ is None  # whose frames would keep the memory of the step
    again = thereafter.resume(run)
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True))


@pytest.mark.wide
def test_steps_that_could_not_be_saved_are_said_to_be_lost(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    monkeypatch.setattr(TextLearner, "loss", after(7, TextLearner.loss))
    monkeypatch.setattr(Loop, "rescue", full)
    with pytest.raises(DeviceMemoryError) as caught:
        thereafter.train(text, model="lstm", tokens="word", out=run, **SMALL)
    assert "nothing is lost" not in str(caught.value)
    assert str(caught.value).endswith(
        "the steps since its last checkpoint are lost: with more memory it goes on from there with: "
        f"thereafter train --resume {run}"
    )


def test_the_largest_batch_is_advised_where_it_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    training = TrainingSettings(device="cpu", batch=4)
    assert "auto" not in _use_less(training)
    monkeypatch.setattr(fit, "SEARCHED", {"cpu"})
    assert _use_less(training) == "a smaller batch (it is 4) or batch='auto' (--batch auto)"


def test_the_first_step_that_does_not_fit_says_how_to_begin_again(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TextLearner, "loss", full)
    words = ("train", text, "--model", "lstm", "--out", tmp_path / "run", "--epochs", "1")
    monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert f"it begins again with: thereafter train --resume {tmp_path / 'run'}" in printed.splitlines()[-1]


def test_answers_that_do_not_fit_are_a_sentence(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = thereafter.train(text, model="lstm", tokens="word", **SMALL)
    labelled = tmp_path / "labelled.tsv"
    labelled.write_text("a gripping film\tgood\na dull film\tbad\n" * 10, encoding="utf-8")
    judge = thereafter.train(labelled, task="classify", hidden=8, epochs=1, device="cpu")
    monkeypatch.setattr(type(lm.model), "encode", full)
    monkeypatch.setattr(type(judge.task), "answers", full)
    asked = (
        lambda: lm.score(text="the cat"),
        lambda: lm.generate("the", 3),
        lambda: judge.predict("a dull film"),
        lambda: judge.score(labelled),
    )
    for ask in asked:
        with pytest.raises(
            DeviceMemoryError, match=r"^this machine is out of memory, and answering needs more; try fewer"
        ):
            ask()


def test_errors_of_other_kinds_are_not_taken_for_it() -> None:
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    assert is_out_of_memory(RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"))
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))
    assert not is_out_of_memory(ValueError("out of memory"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**55)
    assert is_out_of_memory(caught.value)
