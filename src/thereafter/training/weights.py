"""A model's weights by name: parameters and kept buffers, each once, however often a tied one is used.

In training, layers may learn one after the other and at rates of their own (`Layering`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from thereafter.errors import FormatError, OptionError
from thereafter.training.settings import TrainingSettings

N = TypeVar("N", bound=nn.Module)
_MOST_LAYERS = 1_000
_LARGEST, _TIMES = 1 << 26, 64
"""How many numbers a model may compute for itself (tables of positions), at most: so many, or so many times its own."""

_FACTORIES = frozenset(
    (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.arange, torch.eye)
)
_HOLLOW = {"device": "meta"}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The tensors themselves, not copies; sorted as the model holds them."""
    kept = model.state_dict().keys()
    named: dict[str, Tensor] = {name: weight.detach() for name, weight in model.named_parameters()}
    return named | {name: buffer.detach() for name, buffer in model.named_buffers() if name in kept}


def load_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Put saved weights into a model's own; FormatError where they are not those of such a model."""
    own = weights_of(model)
    _check_names(own, saved)
    put_weights(model, saved)


def put_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Put these weights into a model's own and leave the others as they are."""
    own = weights_of(model)
    with torch.no_grad():
        for name in saved:
            if name not in own:
                raise FormatError(f"the model has no weight {name!r}; try training again")
            weight = own[name]
            if weight.shape != saved[name].shape or weight.dtype != saved[name].dtype:
                raise FormatError(_misfit(name, tuple(saved[name].shape), str(saved[name].dtype), weight))
            weight.copy_(saved[name])


def restored(build: Callable[[], N], saved: Mapping[str, NDArray[np.generic]]) -> N:
    """What `build` makes, with saved weights. No memory is taken for a model that they do not fit: it is built on
    torch's device "meta" first, where tensors have shapes and no numbers.

    The settings come from a file, so whatever goes wrong while building is a FormatError.
    """
    try:
        stored = sum(array.size for array in saved.values())
        with torch.random.fork_rng(devices=[]):  # fresh weights are drawn and overwritten: leave no trace of that
            if _check_fit(build, saved, stored):
                model = build()
            else:
                with _Bounded(stored):
                    model = build()
        load_weights(model, {name: torch.from_numpy(np.array(array)) for name, array in saved.items()})
        _check_finite(model)
    except FormatError:
        raise
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"the weights are incomplete or damaged ({reason[:300]}); try training again") from error
    return model


class _Bounded(TorchFunctionMode):
    """Inside the block fresh tensors have, all together, no more numbers than a model of so many stored ones can need;
    more are refused before memory is taken."""

    def __init__(self, stored: int) -> None:
        super().__init__()
        self._stored, self._left = stored, max(_LARGEST, _TIMES * stored)

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        given = dict(kwargs or {})
        if func in _FACTORIES:
            shape = func(*args, **{name: value for name, value in given.items() if name != "generator"} | _HOLLOW)
            self._left -= shape.numel() if isinstance(shape, Tensor) else 0
            if self._left < 0:
                raise FormatError(
                    f"the settings ask for far more than the {self._stored:,} numbers that are stored; expected "
                    "settings that belong to them; try training again"
                )
        return func(*args, **given)


def _check_fit(build: Callable[[], nn.Module], saved: Mapping[str, NDArray[np.generic]], stored: int) -> bool:
    """Refuse a model that so many stored numbers do not fit; False where that shows only when it is built."""
    try:
        with torch.device("meta"):
            hollow = build()
    except NotImplementedError:  # a network that looks at numbers while it is built
        return False
    except RuntimeError as error:  # sizes that no machine can count
        raise FormatError(
            f"the settings ask for a model that cannot be built ({str(error).splitlines()[0][:200]}); expected one of "
            f"{stored:,} numbers, as stored; try training again"
        ) from error
    own = weights_of(hollow)
    _check_names(own, saved)
    for name, weight in own.items():
        if tuple(weight.shape) != saved[name].shape:
            raise FormatError(_misfit(name, saved[name].shape, str(saved[name].dtype), weight))
    computed = sum(buffer.numel() for name, buffer in hollow.named_buffers() if name not in own)
    if computed > max(_LARGEST, _TIMES * stored):
        raise FormatError(
            f"the settings ask for tables of {computed:,} numbers beside {stored:,} weights; expected settings that "
            "belong to them; try training again"
        )
    return True


def _check_finite(model: nn.Module) -> None:
    """Refuse weights, trained or solved, that are not all numbers; a sum is one pass over them and takes no memory."""
    for name, weight in weights_of(model).items():
        if weight.is_floating_point() and not math.isfinite(weight.sum(dtype=torch.float64)):
            raise FormatError(
                f"the weight {name!r} holds nan or inf, expected finite numbers; the file is damaged, or its training "
                "failed; try training again"
            )


def _check_names(own: Mapping[str, Tensor], saved: Mapping[str, object]) -> None:
    if own.keys() != saved.keys():
        other = sorted(own.keys() ^ saved.keys())[0]
        raise FormatError(f"the weights are not those of this model: {other!r} is on one side only; try training again")


def _misfit(name: str, shape: tuple[int, ...], dtype: str, weight: Tensor) -> str:
    return (
        f"the weight {name!r} is {tuple(shape)} of {dtype}; expected {tuple(weight.shape)} of {weight.dtype}; "
        "try training again"
    )


def check_counts(settings: object, arrays: int) -> None:
    """Refuse settings that ask for far more layers than there are arrays: building them would take for ever."""
    for name in ("layers", "sizes", "blocks"):
        value = getattr(settings, name, 0)
        count = len(value) if isinstance(value, tuple) else value
        if isinstance(count, int) and count > max(arrays, _MOST_LAYERS):
            raise FormatError(
                f"the settings have {name} = {count:,}, and there are {arrays} arrays of weights; expected fewer "
                "layers than arrays; try training again"
            )


LayerNames = Sequence[Sequence[str]]
"""The names of a network's weights, a list for each layer, the head's first."""


def asked_for(settings: TrainingSettings) -> str | None:
    """The setting that needs to know layers, where there is one."""
    return "unfreeze" if settings.unfreeze else "layer_decay" if settings.layer_decay != 1.0 else None


def check_layered(settings: TrainingSettings, layered: bool, what: str) -> None:
    """Refuse settings of layers for a network that is not divided into any."""
    name = asked_for(settings)
    if name is not None and not layered:
        raise OptionError(
            f"{name} is on, and the weights of {what} are not divided into layers; expected a recurrent model, or a "
            "task over one; try leaving it out"
        )


class Layering:
    """The layers of one network from the head down: which of them learn in an epoch, and at what rate.

        rate of layer l = r d^l              l = 0 is the head, d the setting `layer_decay`
        epoch e trains the layers 0 .. e     where `unfreeze` is on, else all of them

    Both are from Howard and Ruder 2018 (Universal Language Model Fine-tuning for Text Classification), with
    d = 1 / 2.6. Frozen weights take no gradient, so that neither the optimizer nor the norm of the gradient knows of
    them. What is frozen is a function of the epoch alone: a snapshot need not say it.
    """

    def __init__(self, model: nn.Module, settings: TrainingSettings, layers: LayerNames) -> None:
        check_layered(settings, len(layers) > 1, type(model).__name__)
        depths = {name: depth for depth, names in enumerate(layers) for name in names}
        self._depths = [(weight, depths.get(name, 0)) for name, weight in model.named_parameters()]
        self._gradual, self._last = settings.unfreeze, len(layers) - 1
        self._lowest: int | None = None
        self.factors = {name: settings.layer_decay**depth for name, depth in depths.items()}
        """What the rate of each weight is multiplied by."""

    def open(self, epoch: int) -> bool:
        """Let the layers of this epoch learn, and no others; whether that changed which."""
        lowest = min(epoch, self._last) if self._gradual else self._last
        if not self._gradual or lowest == self._lowest:
            return False
        self._lowest = lowest
        for weight, depth in self._depths:
            weight.requires_grad_(depth <= lowest)
        return True

    def open_all(self) -> None:
        """Let every weight learn again, as it did before the training."""
        if self._gradual:
            self._lowest = None
            for weight, _ in self._depths:
                weight.requires_grad_(True)
