"""FILE.pt2: a step as a program of `torch.export`, with free batch.

Shapes: B rows, V words.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from thereafter.export.facts import facts_of
from thereafter.export.parts import StatePart
from thereafter.export.plans import NgramPlan, Plan, TransformerPlan
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.export.torch.module import PlannedStep
from thereafter.models.base import Floats, Ids

FACTS = "thereafter.json"


class TorchTarget:
    """A program that `torch.export.load(FILE).module()` runs, in Python or by AOTInductor."""

    ending: ClassVar[str] = ".pt2"
    program: ClassVar[str] = "torch.export.load"

    def tolerance(self, int8: bool) -> float:
        return FLOAT32

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        if isinstance(plan, NgramPlan):
            return "an n-gram is a search in a trie, which is no program of torch; try --to c, --to html or --to arpa"
        if isinstance(plan, TransformerPlan):
            return "a Transformer is not written as a program of torch here; try --to onnx or --to transformers"
        return "a program of torch keeps float32 weights here; try --to onnx --int8" if int8 else None

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        if isinstance(plan, NgramPlan | TransformerPlan):
            raise TypeError(plan.kind)
        rows, parts = torch.export.Dim("B"), plan.state()
        given = (torch.full((2,), plan.wording.start), *(fresh(part, 2) for part in parts))
        shapes = ({0: rows}, tuple({0: rows} for _ in parts))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of things that are none of a user's
            program = torch.export.export(PlannedStep(plan).eval(), given, dynamic_shapes=shapes)
            torch.export.save(program, path, extra_files={FACTS: json.dumps(facts_of(plan, parts), ensure_ascii=False)})
        state = sum(int(np.prod(part.shape)) * (8 if part.whole else 4) for part in parts)
        return WrittenFiles((path,), {"state": f"{state:,} bytes a row"})

    def runner(self, plan: Plan, written: WrittenFiles) -> TorchRunner:
        return TorchRunner(plan, written.paths[0])


class TorchRunner:
    """The program, loaded again."""

    name: ClassVar[str] = "torch.export.load"

    def __init__(self, plan: Plan, path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._step = torch.export.load(path).module()
        self._plan, self._state = plan, list[Tensor]()

    def start(self, rows: int) -> Floats:
        self._state = [fresh(part, rows) for part in self._plan.state()]
        return self.step(np.full(rows, self._plan.wording.start))

    def step(self, token_B: Ids) -> Floats:
        with torch.no_grad():
            logp_BV, *self._state = self._step(torch.as_tensor(np.asarray(token_B, dtype=np.int64)), *self._state)
        logs: Floats = logp_BV.numpy()
        return logs

    def close(self) -> None:
        self._state = []


def fresh(part: StatePart, rows: int) -> Tensor:
    """A part of the state at the beginning of a text."""
    return torch.full((rows, *part.shape), part.fresh, dtype=torch.int64 if part.whole else torch.float32)


TARGET = TorchTarget()
