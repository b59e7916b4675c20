"""The two programs of a plan, as modules of plain torch operations for `torch.export`.

    step       (token[B], state...)                 -> (log_p[B, V], state...)
    sequence   (tokens[B, T], lengths[B], state...) -> (log_p[B, T, V], state...)

Shapes: B rows, T steps, V words, H features.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan  # the one loop of a free length that torch.export keeps

from thereafter.export.parts import HeadPlan, SoftmaxPlan
from thereafter.export.plans import NeuralPlan
from thereafter.export.torch.bodies import body_of, rows_of, state_of, tensor


class _Planned(nn.Module):
    """Body and head; the state is in the order of `state_of(plan)`."""

    def __init__(self, plan: NeuralPlan) -> None:
        super().__init__()
        self.words, self.parts = plan.wording, state_of(plan)
        self.body, self.head = body_of(plan), PlannedHead(plan.head)

    def features(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Features and state; rows that read a line end forget everything and read `<s>` where lines start afresh."""
        if self.words.restart is not None:
            ended_B = token_B == self.words.restart
            token_B = torch.where(ended_B, self.words.start, token_B)
            parts = zip(state, self.parts, strict=True)
            state = tuple(torch.where(rows_of(ended_B, one), _like(part.fresh, one), one) for one, part in parts)
        made: tuple[Tensor, ...] = self.body(token_B, *state)
        return made


class PlannedStep(_Planned):
    """One token a row."""

    def forward(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        f_BH, *after = self.features(token_B, *state)
        return (self.head(f_BH), *after)


class PlannedSequence(_Planned):
    """T tokens a row; what stands beyond a row's length is read by nobody, its log_p mean nothing."""

    def forward(self, tokens_BT: Tensor, lengths_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        time_T1 = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)[:, None]
        there_TB = time_T1 < lengths_B

        def one(before: tuple[Tensor, ...], given: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, ...], Tensor]:
            token_B, there_B = given
            f_BH, *after = self.features(token_B, *before)
            kept = (torch.where(rows_of(there_B, new), new, old) for new, old in zip(after, before, strict=True))
            return tuple(kept), f_BH.clone()

        ends, f_TBH = scan(one, state, (tokens_BT.transpose(0, 1), there_TB))
        return (self.head(f_TBH).transpose(0, 1), *ends)


class PlannedHead(nn.Module):
    """log p of all words, of any number of axes before the last."""

    def __init__(self, head: HeadPlan) -> None:
        super().__init__()
        self.register_buffer("matrix", tensor(head.matrix))
        self.register_buffer("bias", tensor(head.bias))
        self.clusters = 0 if isinstance(head, SoftmaxPlan) else len(head.down)
        self.ranked = not isinstance(head, SoftmaxPlan)
        if not isinstance(head, SoftmaxPlan):
            self.register_buffer("rank", torch.from_numpy(head.rank.copy()))
            for number, (down, out) in enumerate(zip(head.down, head.out, strict=True)):
                self.register_buffer(f"down_{number}", tensor(down))
                self.register_buffer(f"out_{number}", tensor(out))

    def forward(self, f_NH: Tensor) -> Tensor:
        logp = F.log_softmax(F.linear(f_NH, self.get_buffer("matrix"), self.get_buffer("bias")), -1)
        if not self.ranked:
            return logp
        short = logp.shape[-1] - self.clusters
        parts = [logp[..., :short]]
        for number in range(self.clusters):
            down = F.linear(f_NH, self.get_buffer(f"down_{number}"))
            inside = F.log_softmax(F.linear(down, self.get_buffer(f"out_{number}")), -1)
            parts.append(inside + logp[..., short + number : short + number + 1])
        return torch.cat(parts, -1).index_select(-1, self.get_buffer("rank"))


def _like(value: float, part: Tensor) -> Tensor:
    return torch.full((), value if math.isfinite(value) else 0.0, dtype=part.dtype)
