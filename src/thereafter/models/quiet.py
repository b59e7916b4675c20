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

from thereafter.base.memory import ANSWERING, is_out_of_memory, out_of_memory
from thereafter.models.kept import Kept


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


class _Products:
    """How cuDNN multiplies floats: one flag in older versions of torch, since 2.9 a precision for each kind of layer.

    torch refuses to read the flag where the two differ, so both are set. The flag first: it sets the precisions too.
    """

    def __init__(self) -> None:
        cudnn = torch.backends.cudnn
        layers = [getattr(cudnn, name) for name in ("conv", "rnn") if hasattr(cudnn, name)]
        self._layers = [layer for layer in layers if hasattr(layer, "fp32_precision")]
        self._flag: bool | None = None
        self._precisions: list[str] = []

    def make_whole(self) -> None:
        """Whole floats from here on."""
        try:
            flag: bool | None = torch.backends.cudnn.allow_tf32
        except RuntimeError:  # someone has used the precisions, which alone count then
            flag = None
        self._flag, self._precisions = flag, [layer.fp32_precision for layer in self._layers]
        self._put(None if flag is None else False, ["ieee"] * len(self._layers))

    def put_back(self) -> None:
        """As it was before."""
        self._put(self._flag, self._precisions)

    def _put(self, flag: bool | None, precisions: list[str]) -> None:
        if flag is not None:
            torch.backends.cudnn.allow_tf32 = flag
        for layer, precision in zip(self._layers, precisions, strict=True):
            layer.fp32_precision = precision


class _WholeFloats:
    """While anybody answers, cuDNN multiplies whole floats. The switch belongs to the process: users are counted."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._products = _Products()

    def enter(self) -> bool:
        """Whether there is a switch to put back: not before anything has asked for a GPU."""
        gpu_in_use: Callable[[], bool] = torch.cuda.is_initialized
        if not gpu_in_use():
            return False
        with self._lock:
            if not self._count:
                self._products.make_whole()
            self._count += 1
        return True

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._products.put_back()


_WHOLE_FLOATS = _WholeFloats()


class Evaluating:
    """A block in which a network has no dropout; gradients are as they were.

    A device that runs out of memory in it is one sentence to whoever asked; what is `kept` for later is let go.
    """

    def __init__(self, network: nn.Module, askers: Askers, kept: Kept | None = None) -> None:
        self._network, self._askers, self._kept = network, askers, kept
        self._switched = False

    def __enter__(self) -> None:
        self._switched = _WHOLE_FLOATS.enter()  # first: where torch refuses it, the network is left as it is
        self._askers.enter(self._network)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._put_in_words(error)

    def _leave(self) -> None:
        self._askers.leave(self._network)
        if self._switched:
            _WHOLE_FLOATS.leave()

    def _put_in_words(self, error: BaseException | None) -> None:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            if self._kept is not None:
                self._kept.clear()
            raise out_of_memory(next(self._network.parameters()).device, "answering", ANSWERING) from error


class Quietly(Evaluating):
    """The same without gradients. A class, not a generator: it is entered for every token that is read."""

    def __init__(self, network: nn.Module, askers: Askers, kept: Kept | None = None) -> None:
        super().__init__(network, askers, kept)
        self._mode = torch.inference_mode()

    def __enter__(self) -> None:
        super().__enter__()
        self._mode.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mode.__exit__(kind, error, trace)
        self._leave()
        self._put_in_words(error)
