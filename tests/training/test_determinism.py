"""While a training runs on a GPU torch's switches are set; afterwards, and in other threads, nothing is lost."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator

import pytest
import torch

from thereafter.base import progress
from thereafter.training import numerics
from thereafter.training.numerics import WORKSPACE, orderless, same_bits

CPU, GPU = torch.device("cpu"), torch.device("cuda")  # switches can be set where no GPU is
Switches = tuple[bool, bool, bool, bool, str | None]


def switches() -> Switches:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch._C._get_deterministic_fill_uninitialized_memory(),
        torch.backends.cudnn.benchmark,
        os.environ.get(WORKSPACE),
    )


INSIDE = (True, True, False, False, ":4096:8")


class Listener(progress.Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[Switches]:
    before, show = switches(), warnings.showwarning
    yield before
    assert switches() == before
    assert warnings.showwarning is show


def put() -> None:
    """An operation without a deterministic form, on a CPU as well."""
    torch.zeros(3).put_(torch.tensor([0, 1]), torch.tensor([1.0, 2.0]))


def test_switches_are_set_and_put_back(as_before: Switches):
    with same_bits(GPU):
        assert switches() == INSIDE
        with same_bits(GPU):
            assert switches() == INSIDE
        assert switches() == INSIDE
    assert switches() == as_before
    with pytest.raises(KeyboardInterrupt), same_bits(GPU):
        raise KeyboardInterrupt


def test_a_training_on_a_gpu_has_them_set(as_before: Switches, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    with numerics.as_in(None, GPU):
        assert switches() == INSIDE
    with numerics.as_in(None, CPU), same_bits(CPU):
        assert switches() == as_before


def test_what_a_user_chose_is_kept():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKSPACE, ":16:8")
        assert_choices_are_kept()


def assert_choices_are_kept() -> None:
    torch._C._set_deterministic_algorithms(True, warn_only=False)
    torch.backends.cudnn.benchmark = True
    try:
        with same_bits(GPU):
            assert switches() == (True, False, False, False, ":16:8")
        assert switches() == (True, False, True, True, ":16:8")
    finally:
        torch._C._set_deterministic_algorithms(False, warn_only=False)
        torch.backends.cudnn.benchmark = False


def test_an_operation_without_a_fixed_order_is_noted_once_a_training():
    listener = Listener()
    with progress.reporting(listener), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as `python -W ignore`
        for _ in range(2):
            with same_bits(GPU):
                put()
                put()
    (note,) = set(listener.notes)
    assert len(listener.notes) == 2
    assert note == "torch's put_ adds in any order: the last bits may differ from run to run"


def test_other_warnings_are_shown_as_ever():
    listener = Listener()
    with progress.reporting(listener), pytest.warns(UserWarning, match="something else"), same_bits(GPU):
        warnings.warn("something else", UserWarning, stacklevel=1)
    assert listener.notes == []


def test_the_warnings_of_a_backward_pass_are_notes_too():
    class Loose(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, dx: torch.Tensor) -> torch.Tensor:
            put()
            return dx

    listener = Listener()
    with progress.reporting(listener), same_bits(GPU):
        loss = Loose.apply(torch.ones(2, requires_grad=True)).sum()
        loss.backward()
    assert len(listener.notes) == 1


def test_one_of_two_trainings_does_not_switch_the_other_off(as_before: Switches):
    inside, ended, seen = threading.Barrier(3), threading.Event(), []

    def train(first: bool) -> None:
        with same_bits(GPU):
            inside.wait(10)
            if not first:
                ended.wait(10)
            seen.append(switches())

    threads = [threading.Thread(target=train, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    inside.wait(10)
    threads[0].join(10)
    assert switches() == INSIDE  # the second one is still at work
    ended.set()
    threads[1].join(10)
    assert seen == [INSIDE, INSIDE]
    assert switches() == as_before


@pytest.mark.parametrize(
    ("message", "operation"),
    [
        ("cumsum_cuda_kernel does not have a deterministic implementation, but you set", "cumsum_cuda_kernel"),
        ("Flash Attention defaults to a non-deterministic algorithm. To explicitly enable", "Flash Attention"),
        ("Deterministic behavior was enabled with either", None),
        ("something else", None),
    ],
)
def test_the_operation_of_a_warning(message: str, operation: str | None):
    assert orderless(message) == operation
