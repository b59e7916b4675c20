"""Writing a model out: into a temporary folder beside the target, checked there, then moved into place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from thereafter.base import progress
from thereafter.base.tabular import Row, Tabular
from thereafter.data.files import AnySource
from thereafter.errors import ExportError
from thereafter.export.check import Checked, check, count_steps, refuse
from thereafter.export.placing import beside, check_place, moved_together, size_of
from thereafter.export.plan import Plan, TransformerPlan, plan_of
from thereafter.export.targets import OpeningTarget, Target, WrittenFiles, target_of
from thereafter.export.texts import opening_of, text_of_check
from thereafter.models.base import Ids
from thereafter.training.kinds import Trained


@dataclass(frozen=True)
class Exported(Tabular):
    """The files of an export, the main one first, with what their check has seen and what else there is to say."""

    paths: tuple[Path, ...]
    to: str
    program: str
    int8: bool
    checked: Checked
    facts: Mapping[str, object] = field(default_factory=dict)
    dtype: str = "float32"
    replaced: tuple[Path, ...] = ()
    """Files that were there before."""

    @property
    def form(self) -> str:
        """What the weights are stored as."""
        return "int8" if self.int8 else self.dtype

    @property
    def path(self) -> Path:
        return self.paths[0]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size_of(path) for path in self.paths)

    def to_rows(self) -> list[Row]:
        checked = self.checked
        row: Row = {"file": str(self.path), "to": self.to, "bytes": self.size, "int8": self.int8}
        row |= {"steps": checked.steps, "largest_difference": checked.largest, "text": checked.text}
        row |= {"tokens": checked.tokens or checked.steps} if checked.unit == "steps" else {}
        row |= {"bits_per_byte": checked.bits, "bits_per_byte_exported": checked.bits_exported}
        row |= {"replaced": ", ".join(map(str, self.replaced))}
        return [row | {"checked_by": self.program} | {name: str(value) for name, value in self.facts.items()}]


def export(
    trained: Trained,
    path: Path,
    *,
    to: str,
    int8: bool = False,
    check_text: AnySource | None = None,
    check_steps: int | None = None,
) -> Exported:
    """Write a model; ExportError where it has no such form, or where what was written computes something else."""
    target = target_of(to)
    plan = plan_of(trained)
    reason = target.refuses(plan, int8)
    if reason is not None:
        raise ExportError(reason)
    check_place(path, target)
    context = plan.context if isinstance(plan, TransformerPlan) else 0
    steps = count_steps(check_steps, target.tolerance(int8), context)
    ids_T, name = text_of_check(trained, check_text, steps)
    if isinstance(target, OpeningTarget):
        target = target.opening_on(opening_of(trained))
    with beside(path) as folder:
        with progress.task(f"writing {path.name}", unit="files"):
            written = target.write(plan, folder / path.name, int8=int8)
        checked, program = _run(target, trained, plan, written, ids_T, name, steps)
        refuse(checked, target.tolerance(int8), path.name)
        paths, replaced = moved_together(written.paths, path.parent)
    return Exported(paths, to, program, int8, checked, written.facts, replaced=replaced)


def _run(
    target: Target, trained: Trained, plan: Plan, written: WrittenFiles, ids_T: Ids, name: str, steps: int
) -> tuple[Checked, str]:
    """What the check has seen, and who ran the file."""
    runner = target.runner(plan, written)
    if runner is None:
        raise ExportError(f"there is no {target.program} here to check the file with; nothing was written")
    try:
        return check(trained, runner, ids_T, name, steps), runner.name
    finally:
        runner.close()
