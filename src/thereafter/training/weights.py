"""A model's weights: by name, read back, and updated.

Parameters and kept buffers go by name, each once, however often a tied one is used. In training, layers may learn one
after the other and at rates of their own (`Layering`). The optimizers are torch's fused ones, clipping and the update
of all weights in one pass over the memory:

    sgd      v <- m v + g,  w <- w - r v                                        (Robbins and Monro 1951; momentum m)
    adam     w <- w - r m' / (sqrt(v') + eps)                                   (Kingma and Ba 2015)
    adamw    w <- (1 - r d) w, then adam; matrices decay, biases and gains do not     (Loshchilov and Hutter 2019)
    nt-asgd  sgd; from step T on the mean of w_T .. w_k is what is validated    (Merity, Keskar and Socher 2018)

T comes when a validation is worse than the best of those that are more than `nonmono` validations old. In sgd, nt-asgd
and adam the weight decay d is added to the gradient, g + d w. A layer of the network may have a rate of its own, a
factor of r; weights without a gradient, such as those of a frozen layer, stay as they are.

The operators are those behind `torch.optim`, called directly: its classes load torch's compiler, which takes
longer than a small training. What each remembers is a table of tensors and one of plain values, for a checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from thereafter.base.config import Table
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


Factors = Mapping[str, float]
OptimizerState = dict[str, list[Tensor]]
"""Tensors by name, such as "momentum": an entry for each parameter."""
_EPSILON = 1e-8


def clip_gradients(gradients: list[Tensor], largest: float, scaled: float = 1.0) -> tuple[Tensor, Tensor | None]:
    """The common norm of all gradients, and what to divide them by so that it is at most `largest` (0: any).

    `scaled`: what the loss was multiplied by, and the gradients with it; the norm is the one without. The division is
    left to the optimizer, which has the gradients in hand anyway; None where there is nothing to divide. On a CPU that
    is known at once; elsewhere the host is not asked.
    """
    norm = _norm(gradients) / scaled if scaled != 1.0 else _norm(gradients)
    if not largest:
        return norm, None if scaled == 1.0 else norm.new_full((), scaled)
    if scaled == 1.0 and norm.device.type == "cpu" and not norm.item() > largest:
        return norm, None
    return norm, ((norm + 1e-6) / largest).clamp(min=1.0) * scaled


def _norm(gradients: list[Tensor]) -> Tensor:
    """On a CPU by the product library's dot product, which uses all cores and is twice as quick as torch's norm."""
    if gradients and all(g.device.type == "cpu" and g.is_contiguous() for g in gradients):
        return torch.stack([torch.dot(g.view(-1), g.view(-1)) for g in gradients]).sum().sqrt()
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    return norm


class Optimizer:
    """Plain and momentum SGD, and what all optimizers share."""

    def __init__(self, model: nn.Module, settings: TrainingSettings, factors: Factors) -> None:
        named = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self._names = list(named)
        self._factors = [factors.get(name, 1.0) for name in named]
        self.parameters: list[Tensor] = list(named.values())
        self._decay = float(settings.weight_decay or 0.0)
        self._momentum = settings.momentum
        self._state: OptimizerState = self._fresh()

    def _fresh(self) -> OptimizerState:
        """The optimizer state before the first step."""
        return {"momentum": [torch.zeros_like(weight) for weight in self.parameters]} if self._momentum else {}

    def clear(self) -> None:
        """Forget the gradients."""
        for weight in self.parameters:
            weight.grad = None

    def gradients(self) -> list[Tensor]:
        """The gradients that there are."""
        return [weight.grad for weight in self.parameters if weight.grad is not None]

    @torch.no_grad()
    def step(self, rate: float | Tensor, scale: Tensor | None = None) -> None:
        """Change the weights by their gradients, divided by `scale` (see `clip_gradients`)."""
        for factor in dict.fromkeys(self._factors):
            own = ((row, weight.grad) for row, weight in enumerate(self.parameters) if self._factors[row] == factor)
            gradients = {row: gradient for row, gradient in own if gradient is not None}
            if gradients:
                self._update(gradients, rate if factor == 1.0 else rate * factor, scale)

    def _update(self, gradients: dict[int, Tensor], rate: float | Tensor, scale: Tensor | None) -> None:
        """Change the weights that have these gradients, by the rows of both."""
        torch._fused_sgd_(
            [self.parameters[row] for row in gradients],
            list(gradients.values()),
            [self._state["momentum"][row] for row in gradients] if self._momentum else [],
            weight_decay=self._decay,
            momentum=self._momentum,
            lr=rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
            grad_scale=scale,
        )

    def after_step(self) -> None:
        """Called after each step, for work that a CUDA graph cannot hold."""

    def after_validation(self, loss: float) -> str | None:
        """Called with every validation loss; returns a note where that changes something."""
        return None

    @contextmanager
    def best_guess(self) -> Iterator[None]:
        """Inside the block the model has the weights to be validated and kept."""
        yield

    def state(self) -> tuple[dict[str, Tensor], Table]:
        """What it remembers, the tensors not copied."""
        tensors = {
            f"{key}/{name}": tensor
            for key, row in self._state.items()
            for name, tensor in zip(self._names, row, strict=True)
        }
        return tensors, {}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], facts: Table) -> None:
        """Remember what `state` gave; the tensors are copied."""
        own, _ = self.state()
        if own.keys() != tensors.keys() or any(own[name].shape != tensors[name].shape for name in own):
            raise FormatError("the optimizer's state in the checkpoint is not that of this model; try training again")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


class Adam(Optimizer):
    """Adam, and AdamW where `decoupled`."""

    def __init__(self, model: nn.Module, settings: TrainingSettings, factors: Factors, *, decoupled: bool) -> None:
        super().__init__(model, settings, factors)
        self._betas = settings.betas
        self._decoupled = decoupled

    def _fresh(self) -> OptimizerState:
        state = {name: [torch.zeros_like(weight) for weight in self.parameters] for name in ("mean", "square")}
        return state | {"step": [torch.zeros((), device=weight.device) for weight in self.parameters]}

    def _update(self, gradients: dict[int, Tensor], rate: float | Tensor, scale: Tensor | None) -> None:
        state = self._state
        torch._foreach_add_([state["step"][row] for row in gradients], 1.0)
        operator = torch._fused_adamw_ if self._decoupled else torch._fused_adam_
        for deep in (True, False):
            rows = [row for row in gradients if (self.parameters[row].dim() >= 2) == deep]
            if not rows:
                continue
            operator(
                [self.parameters[row] for row in rows],
                [gradients[row] for row in rows],
                [state["mean"][row] for row in rows],
                [state["square"][row] for row in rows],
                [],
                [state["step"][row] for row in rows],
                lr=rate,
                beta1=self._betas[0],
                beta2=self._betas[1],
                weight_decay=self._decay if deep or not self._decoupled else 0.0,
                eps=_EPSILON,
                amsgrad=False,
                maximize=False,
                grad_scale=scale,
            )


class NonmonotonicAverage(Optimizer):
    """NT-ASGD: see the top of this file."""

    def __init__(self, model: nn.Module, settings: TrainingSettings, factors: Factors) -> None:
        super().__init__(model, settings, factors)
        self._patience = settings.nonmono
        self._losses: list[float] = []
        self._averaged = 0

    @torch.no_grad()
    def after_step(self) -> None:
        if self._averaged:
            self._averaged += 1
            torch._foreach_lerp_(self._state["average"], self.parameters, 1.0 / self._averaged)

    def after_validation(self, loss: float) -> str | None:
        if self._averaged:
            return None
        earlier = self._losses[: -self._patience]
        self._losses.append(loss)
        if not earlier or loss <= min(earlier):
            return None
        self._begin()
        return f"validation {loss:.4f} is worse than {min(earlier):.4f} before: from here on weights are averaged"

    def _begin(self) -> None:
        self._state["average"] = [weight.detach().clone() for weight in self.parameters]
        self._averaged = 1

    @contextmanager
    def best_guess(self) -> Iterator[None]:
        if not self._averaged:
            yield
            return
        kept = [weight.detach().clone() for weight in self.parameters]
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self._state["average"])
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, kept)

    def state(self) -> tuple[dict[str, Tensor], Table]:
        return super().state()[0], {"losses": list(self._losses), "averaged": self._averaged}

    def restore(self, tensors: Mapping[str, Tensor], facts: Table) -> None:
        self._state.pop("average", None)
        if facts["averaged"]:
            self._begin()
        super().restore(tensors, facts)
        self._losses, self._averaged = [float(loss) for loss in facts["losses"]], int(facts["averaged"])


def make_optimizer(model: nn.Module, settings: TrainingSettings, factors: Factors | None = None) -> Optimizer:
    """The optimizer that the settings ask for. `factors`: of the rate, by the name of a weight; 1 for all others."""
    factors = factors or {}
    if settings.optimizer in ("adam", "adamw"):
        return Adam(model, settings, factors, decoupled=settings.optimizer == "adamw")
    averaged = settings.optimizer == "nt-asgd"
    return (NonmonotonicAverage if averaged else Optimizer)(model, settings, factors)
