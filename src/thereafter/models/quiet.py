"""Evaluation mode without gradients, also where several threads use a network at once.

The mode belongs to the network, not to a thread: a thread that is done must not switch dropout on again while another
is still reading. So the users of a network are counted, and the last one restores the mode.

On a GPU cuDNN would round what convolutions and recurrent layers multiply to 10 bits (TF32). Answers are computed in
whole float32, so that they equal the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import TracebackType

import torch
from torch import nn

from thereafter.memory import ANSWERING, is_out_of_memory, out_of_memory


class Askers:
    """How many users a network has, and whether it goes back to training mode after the last of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._was_training = False

    def enter(self, network: nn.Module) -> None:
        """The network is in evaluation mode from here on."""
        with self._lock:
            if network.training:
                network.eval()
                self._was_training = True
            self._count += 1

    def leave(self, network: nn.Module) -> None:
        """Back to training mode after the last user, if it was in it."""
        with self._lock:
            self._count -= 1
            if not self._count and self._was_training:
                self._was_training = False
                network.train()

    def __deepcopy__(self, memo: dict[int, object]) -> Askers:
        return Askers()  # the copy has no users

    def __reduce__(self) -> tuple[type[Askers], tuple[()]]:
        return Askers, ()


_gpu_in_use: Callable[[], bool] = torch.cuda.is_initialized


class _WholeFloats:
    """While anybody answers, cuDNN multiplies whole floats. The switch belongs to the process: users are counted."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._rounded = False

    def enter(self) -> bool:
        """Whether there is a switch to put back: not before anything has asked for a GPU."""
        if not _gpu_in_use():
            return False
        with self._lock:
            if not self._count:
                self._rounded = torch.backends.cudnn.allow_tf32
                torch.backends.cudnn.allow_tf32 = False
            self._count += 1
        return True

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                torch.backends.cudnn.allow_tf32 = self._rounded


_WHOLE_FLOATS = _WholeFloats()


class Evaluating:
    """A block in which a network has no dropout; gradients are as they were."""

    def __init__(self, network: nn.Module, askers: Askers) -> None:
        self._network, self._askers = network, askers
        self._switched = False

    def __enter__(self) -> None:
        self._askers.enter(self._network)
        self._switched = _WHOLE_FLOATS.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        _in_words(self._network, error)

    def _leave(self) -> None:
        if self._switched:
            _WHOLE_FLOATS.leave()
        self._askers.leave(self._network)


class Quietly(Evaluating):
    """The same without gradients. A class, not a generator: it is entered for every token that is read."""

    def __init__(self, network: nn.Module, askers: Askers) -> None:
        super().__init__(network, askers)
        self._mode = torch.inference_mode()

    def __enter__(self) -> None:
        super().__enter__()
        self._mode.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mode.__exit__(kind, error, trace)
        self._leave()
        _in_words(self._network, error)


def _in_words(network: nn.Module, error: BaseException | None) -> None:
    """A device that ran out of memory in a block is one sentence to whoever asked."""
    if isinstance(error, RuntimeError) and is_out_of_memory(error):
        raise out_of_memory(next(network.parameters()).device, "answering", ANSWERING) from error
