"""Optimizers, in torch's fused form: clipping and the update of all weights in one pass over the memory.

    sgd      v <- m v + g,  w <- w - r v                                        (Robbins and Monro 1951; momentum m)
    adam     w <- w - r m' / (sqrt(v') + eps)                                   (Kingma and Ba 2015)
    adamw    w <- (1 - r d) w, then adam; matrices decay, biases and gains do not     (Loshchilov and Hutter 2019)
    nt-asgd  sgd; from step T on the mean of w_T .. w_k is what is validated    (Merity, Keskar and Socher 2018)

T comes when a validation is worse than the best of those that are more than `nonmono` validations old. In sgd, nt-asgd
and adam the weight decay d is added to the gradient, g + d w. A layer of the network may have a rate of its own, a
factor of r (`weights.py`); weights without a gradient, such as those of a frozen layer, stay as they are.

The operators are those behind `torch.optim`, called directly: its classes load torch's compiler, which takes
longer than a small training. What each remembers is a table of tensors and one of plain values, for a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.training.settings import TrainingSettings

Facts = Table
Factors = Mapping[str, float]
OptimizerState = dict[str, list[Tensor]]
"""Tensors by name, such as "momentum": an entry for each parameter."""
_EPSILON = 1e-8


def clip(gradients: list[Tensor], largest: float, scaled: float = 1.0) -> tuple[Tensor, Tensor | None]:
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
        """Change the weights by their gradients, divided by `scale` (see `clip`)."""
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

    def state(self) -> tuple[dict[str, Tensor], Facts]:
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

    def state(self) -> tuple[dict[str, Tensor], Facts]:
        return super().state()[0], {"losses": list(self._losses), "averaged": self._averaged}

    def restore(self, tensors: Mapping[str, Tensor], facts: Table) -> None:
        self._state.pop("average", None)
        if facts["averaged"]:
            self._begin()
        super().restore(tensors, facts)
        self._losses, self._averaged = [float(loss) for loss in facts["losses"]], int(facts["averaged"])


def make(model: nn.Module, settings: TrainingSettings, factors: Factors | None = None) -> Optimizer:
    """The optimizer that the settings ask for. `factors`: of the rate, by the name of a weight; 1 for all others."""
    factors = factors or {}
    if settings.optimizer in ("adam", "adamw"):
        return Adam(model, settings, factors, decoupled=settings.optimizer == "adamw")
    averaged = settings.optimizer == "nt-asgd"
    return (NonmonotonicAverage if averaged else Optimizer)(model, settings, factors)
