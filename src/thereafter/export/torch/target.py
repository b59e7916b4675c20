"""FILE.pt2, a step, and FILE-sequence.pt2, whole sequences: programs of `torch.export` with free batch and length.

Shapes: B rows, T steps, V words.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from thereafter.export.facts import facts_of
from thereafter.export.parts import StatePart
from thereafter.export.plans import NeuralPlan, NgramPlan, Plan
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.export.torch.bodies import state_of
from thereafter.export.torch.module import PlannedSequence, PlannedStep
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
