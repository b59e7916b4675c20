"""FILE.pt2, a step, and FILE-sequence.pt2, whole sequences: programs of `torch.export` with free batch and length.

    step       (token[B], state...)                 -> (log_p[B, V], state...)
    sequence   (tokens[B, T], lengths[B], state...) -> (log_p[B, T, V], state...)

Each is exported from a module of plain torch operations.

Shapes: B rows, T steps, V words, H features.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan  # the one loop of a free length that torch.export keeps

from thereafter.export.facts import facts_of
from thereafter.export.parts import HeadPlan, SoftmaxPlan, StatePart
from thereafter.export.plan import NeuralPlan, NgramPlan, Plan
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.export.torch.bodies import body_of, rows_of, state_of, tensor
from thereafter.models.base import Floats, Ids

FACTS = "thereafter.json"
_EXAMPLE = (2, 3)
"""Rows and steps of the example that is written down; neither is kept."""


class TorchTarget:
    """Programs that `torch.export.load(FILE).module()` runs, in Python or by AOTInductor."""

    ending: ClassVar[str] = ".pt2"
    program: ClassVar[str] = "torch.export.load"

    def tolerance(self, int8: bool) -> float:
        return FLOAT32

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        if isinstance(plan, NgramPlan):
            return "an n-gram is a search in a trie, which is no program of torch; try --to c, --to html or --to arpa"
        return "a program of torch keeps float32 weights here; try --to onnx --int8" if int8 else None

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        if isinstance(plan, NgramPlan):
            raise TypeError(plan.kind)
        rows, steps = (torch.export.Dim(name) for name in "BT")
        parts, (count, length) = state_of(plan), _EXAMPLE
        state, free = tuple(fresh(part, count) for part in parts), tuple({0: rows} for _ in parts)
        token_B = torch.full((count,), plan.wording.start)
        _save(plan, PlannedStep(plan), (token_B, *state), ({0: rows}, free), path)
        whole = path.with_name(f"{path.stem}-sequence{path.suffix}")
        given = (token_B[:, None].repeat(1, length), torch.full((count,), length), *state)
        _save(plan, PlannedSequence(plan), given, ({0: rows, 1: steps}, {0: rows}, free), whole)
        size = sum(int(np.prod(part.shape)) * (8 if part.whole else 4) for part in parts)
        return WrittenFiles((path, whole), {"state": f"{size:,} bytes a row"})

    def runner(self, plan: Plan, written: WrittenFiles) -> TorchRunner:
        if isinstance(plan, NgramPlan):
            raise TypeError(plan.kind)
        return TorchRunner(plan, *written.paths)


def _save(plan: NeuralPlan, module: nn.Module, given: tuple[Tensor, ...], free: tuple[object, ...], path: Path) -> None:
    facts = json.dumps(facts_of(plan, state_of(plan)), ensure_ascii=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of things that are none of a user's
        program = torch.export.export(module.eval(), given, dynamic_shapes=free)
        torch.export.save(program, path, extra_files={FACTS: facts})


class TorchRunner:
    """The programs, loaded again, each with a state of its own."""

    name: ClassVar[str] = "torch.export.load"

    def __init__(self, plan: NeuralPlan, path: Path, whole: Path) -> None:
        self._plan = plan
        self._step, self.sequence = (_loaded(one) for one in (path, whole))
        self._state, self._carried = list[Tensor](), list[Tensor]()

    def start(self, rows: int) -> Floats:
        self._state, self._carried = ([fresh(part, rows) for part in state_of(self._plan)] for _ in range(2))
        return self.step(np.full(rows, self._plan.wording.start))

    def step(self, token_B: Ids) -> Floats:
        with torch.no_grad():
            logp_BV, *self._state = self._step(torch.as_tensor(np.asarray(token_B, dtype=np.int64)), *self._state)
        logs: Floats = logp_BV.numpy()
        return logs

    def whole(self, tokens_BT: Ids) -> Floats:
        given = torch.as_tensor(np.asarray(tokens_BT, dtype=np.int64))
        with torch.no_grad():
            lengths_B = torch.full((len(given),), given.shape[1])
            logp_BTV, *self._carried = self.sequence(given, lengths_B, *self._carried)
        logs: Floats = logp_BTV.numpy()
        return logs

    def close(self) -> None:
        self._state = self._carried = []


def _loaded(path: Path) -> Callable[..., tuple[Tensor, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: Callable[..., tuple[Tensor, ...]] = torch.export.load(path).module()
    return made


def fresh(part: StatePart, rows: int) -> Tensor:
    """A part of the state at the beginning of a text."""
    return torch.full((rows, *part.shape), part.fresh, dtype=torch.int64 if part.whole else torch.float32)


TARGET = TorchTarget()


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
