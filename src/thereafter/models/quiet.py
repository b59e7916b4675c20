"""Evaluation mode without gradients, also when several threads use a network at once; what is cached for given weights.

The mode belongs to the network, not to a thread: a thread that is done must not switch dropout on again while another
is still reading. So the users of a network are counted, and the last one restores the mode.

On a GPU cuDNN would round what convolutions and recurrent layers multiply to 10 bits (TF32). Answers are computed in
whole float32, so that they equal the CPU's.

What others derive from a model's weights is kept beside it (`Kept`), for example a recorded graph that is idle
now; `versions` says whether weights have changed since; `weights_by_layer` names them from the head down.

The head's product for some rows at once, with its matrix laid out for them: see `kernels.switches`, and
`kernels.step.stepper` for one that is stored in fewer bytes.

Shapes: B rows, H features, V words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock, RLock
from types import TracebackType
from typing import Self

import torch
from torch import Tensor, nn

from thereafter.base.devices import ANSWERING, is_out_of_memory, out_of_memory
from thereafter.errors import OptionError
from thereafter.kernels.step.stepper import StoredProduct
from thereafter.kernels.step.storing import Narrow
from thereafter.kernels.switches import CountedSwitch, can_pack_for_rows, multiply_rows, pack_for_rows
from thereafter.layers.heads import Softmax, WordHead, wide_log_softmax
from thereafter.layers.recurrent import Recurrent, count_parameters
from thereafter.models.base import Ids

FEATURES = "features"


@dataclass(frozen=True)
class NeuralState:
    """A value: it is never modified. All tensors have the rows as their first axis.

    `features_BH` are those after the last token; None before anything was read, and while training.
    """

    memory: Mapping[str, Tensor]
    features_BH: Tensor | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.memory.values())))

    def select(self, index: Ids | Tensor) -> Self:
        """The rows `index`, in that order."""
        wanted = torch.as_tensor(index, dtype=torch.int64)
        return self._each(lambda tensor: tensor.index_select(0, wanted.to(tensor.device)))

    def key(self) -> Hashable:
        """Continuous states never recur."""
        raise TypeError("this model's state is a point in a continuous space and has no key")

    def detach(self) -> Self:
        """The same numbers with no past to send gradients to; fit for training even where inference made them."""
        return self._each(lambda tensor: tensor.clone() if tensor.is_inference() else tensor.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Everything in it by name, to be saved."""
        named = dict(self.memory)
        if self.features_BH is not None:
            named[FEATURES] = self.features_BH
        return named

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        """A state of this kind from what `tensors` gave (the number of rows may be another)."""
        memory = {name: tensor for name, tensor in tensors.items() if name != FEATURES}
        if memory.keys() != self.memory.keys():
            raise OptionError(f"the state holds {', '.join(sorted(memory))}; expected {', '.join(sorted(self.memory))}")
        return replace(self, memory=memory, features_BH=tensors.get(FEATURES))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        memory = {name: change(tensor) for name, tensor in self.memory.items()}
        features = None if self.features_BH is None else change(self.features_BH)
        return replace(self, memory=memory, features_BH=features)


def stacked(states: Sequence[NeuralState]) -> NeuralState:
    """The rows of several states one below the other."""
    memory = {name: torch.cat([state.memory[name] for state in states]) for name in states[0].memory}
    features = [state.features_BH for state in states if state.features_BH is not None]
    return replace(states[0], memory=memory, features_BH=torch.cat(features) if len(features) == len(states) else None)


class Anew:
    """What belongs to one network of this process: a copy of it, or one that is loaded, begins with another."""

    def _arguments(self) -> tuple[object, ...]:
        """What the other one is made with."""
        return ()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        again: Callable[..., Self] = type(self)
        return again(*self._arguments())

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), self._arguments()


class Askers(Anew):
    """How many users a network has, and whether it goes back to training mode after the last one. A copy has none."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._was_training = False

    def enter(self, network: nn.Module) -> None:
        """Switch the network to evaluation mode."""
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


class _WholeFloats(CountedSwitch):
    """While any thread evaluates, cuDNN multiplies whole floats.

    How it does is one flag in older versions of torch, since 2.9 a precision for each kind of layer. torch refuses to
    read the flag where the two differ, so both are set. The flag first: it sets the precisions too.
    """

    def __init__(self) -> None:
        super().__init__()
        cudnn = torch.backends.cudnn
        layers = [getattr(cudnn, name) for name in ("conv", "rnn") if hasattr(cudnn, name)]
        self._layers = [layer for layer in layers if hasattr(layer, "fp32_precision")]
        self._flag: bool | None = None
        self._precisions: list[str] = []

    def put_on(self) -> None:
        try:
            flag: bool | None = torch.backends.cudnn.allow_tf32
        except RuntimeError:  # someone has used the precisions, which alone count then
            flag = None
        self._flag, self._precisions = flag, [layer.fp32_precision for layer in self._layers]
        self._put(None if flag is None else False, ["ieee"] * len(self._layers))

    def put_back(self) -> None:
        self._put(self._flag, self._precisions)

    def _put(self, flag: bool | None, precisions: list[str]) -> None:
        if flag is not None:
            torch.backends.cudnn.allow_tf32 = flag
        for layer, precision in zip(self._layers, precisions, strict=True):
            layer.fp32_precision = precision


_WHOLE_FLOATS = _WholeFloats()


class Evaluating:
    """A block in which a network has no dropout; gradients are as they were.

    If the device runs out of memory in it, one sentence says so, and what was `derived` from the weights is freed.
    """

    def __init__(self, network: nn.Module, askers: Askers, derived: Kept | None = None) -> None:
        self._network, self._askers, self._derived = network, askers, derived
        self._switched = False

    def __enter__(self) -> None:
        gpu_in_use: Callable[[], bool] = torch.cuda.is_initialized
        self._switched = gpu_in_use()  # before CUDA is initialised there is no switch to restore
        if self._switched:
            _WHOLE_FLOATS.__enter__()  # first: where torch refuses it, the network is left as it is
        self._askers.enter(self._network)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._put_in_words(error)

    def _leave(self) -> None:
        self._askers.leave(self._network)
        if self._switched:
            _WHOLE_FLOATS.__exit__(None, None, None)

    def _put_in_words(self, error: BaseException | None) -> None:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            if self._derived is not None:
                self._derived.clear()
            raise out_of_memory(next(self._network.parameters()).device, "answering", ANSWERING) from error


class Quietly(Evaluating):
    """The same without gradients. A class, not a generator: it is entered for every token that is read."""

    def __init__(self, network: nn.Module, askers: Askers, derived: Kept | None = None) -> None:
        super().__init__(network, askers, derived)
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


class SharedNetwork(nn.Module):
    """A network that several threads may use at once."""

    def __init__(self) -> None:
        super().__init__()
        self._askers = Askers()
        self.kept = Kept()
        """What others derived from its weights."""

    def quietly(self) -> Quietly:
        """A block without gradients and without dropout, for this thread and any other."""
        return Quietly(self, self._askers, self.kept)

    def evaluating(self) -> Evaluating:
        """A block without dropout, in which gradients may be taken."""
        return Evaluating(self, self._askers, self.kept)

    def weights_by_layer(self) -> list[list[str]]:
        """The names of its weights, a list for each layer, the head's first; one list if it is not divided."""
        return [[name for name, _ in self.named_parameters()]]

    def parameters_count(self) -> int:
        """How many numbers it learns, tied ones counted once."""
        return count_parameters(self)


class Kept(Anew):
    """A pool of a few things of any kind. One that is taken has one user until it is put back; the oldest go first.

    They belong to one model and its memory: a copy of the model has none of them.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # a finaliser may put a thing back while its own thread takes one
        self.things: list[object] = []

    def take(self, fits: Callable[[object], bool]) -> object | None:
        """Remove and return the first thing that fits; None if none does."""
        with self._lock:
            thing = next((candidate for candidate in self.things if fits(candidate)), None)
            self.things = [candidate for candidate in self.things if candidate is not thing]
        return thing

    def put(self, thing: object, most: int) -> None:
        """Put a thing back; at most `most` of all are kept."""
        with self._lock:
            self.things = [*self.things, thing][-most:]

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self.things = []


Versions = tuple[tuple[int, int], ...]


def versions(weights: Iterable[Tensor]) -> Versions:
    """Where each tensor lies and how often it was written to, by torch's own count.

    Writes through `.data` are not counted; so a cache with this key must also be dropped whenever a model is set to
    training or evaluation.
    """
    return tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights)


class RowHead(Anew):
    """Laid out when several rows are first predicted, dropped when the weights have changed."""

    def __init__(self, narrow: Narrow | None = None) -> None:
        self._narrow = narrow
        self._packed: tuple[Versions, Tensor] | None = None
        self._stored: tuple[Versions, StoredProduct] | None = None

    def log_prob(self, head: WordHead, f_BH: Tensor) -> Tensor:
        """log p of every word, [B, V]."""
        if self._narrow is not None and f_BH.is_cpu and isinstance(head, Softmax) and not torch.is_grad_enabled():
            return wide_log_softmax(self._product(head, self._narrow)(f_BH))
        if (
            len(f_BH) < 2
            or not isinstance(head, Softmax)
            or torch.is_grad_enabled()
            or not can_pack_for_rows(head.matrix)
        ):
            return head.log_prob(f_BH)
        weights, packed = versions([head.matrix]), self._packed  # read once: threads may put their own there
        if packed is None or packed[0] != weights:
            packed = self._packed = (weights, pack_for_rows(head.matrix[: head.words]))
        return wide_log_softmax(multiply_rows(f_BH, packed[1], head.bias))

    def _product(self, head: Softmax, narrow: Narrow) -> StoredProduct:
        weights, stored = versions([head.matrix, head.bias]), self._stored
        if stored is None or stored[0] != weights:
            stored = self._stored = (weights, StoredProduct(head.matrix[: head.words], head.bias, narrow))
        return stored[1]

    def _arguments(self) -> tuple[Narrow | None]:
        return (self._narrow,)


_LAYER = re.compile(r"_l(\d+)(?:_reverse)?$")


def weights_by_layer(net: nn.Module, stack: str, lowest: Collection[str]) -> list[list[str]]:
    """First what is above the module `stack`, then its layers from the top down, then the modules `lowest`.

    >>> class Net(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.words, self.head = nn.Embedding(3, 2), nn.Linear(2, 1, bias=False)
    ...         self.stack = Recurrent("mingru", 2, 2, 2, bias=False)
    >>> weights_by_layer(Net(), "stack", ["words"])
    [['head.weight'], ['stack.weight_ih_l1'], ['stack.weight_ih_l0'], ['words.weight']]
    """
    names = [name for name, _ in net.named_parameters()]
    inside = [name for name in names if name.startswith(f"{stack}.")]
    below = [name for name in names if name.partition(".")[0] in lowest]
    above = [name for name in names if name not in inside and name not in below]
    layers = [inside]
    if isinstance(net.get_submodule(stack), Recurrent):  # those of the last layer first
        numbers = {name: int(match[1]) for name in inside if (match := _LAYER.search(name))}
        numbered = sorted(set(numbers.values()), reverse=True)
        layers = [[name for name in inside if numbers[name] == layer] for layer in numbered]
    return [layer for layer in (above, *layers, below) if layer]
