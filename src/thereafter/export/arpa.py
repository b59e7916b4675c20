"""An n-gram as an ARPA file, read again by our own reader of such files for the check."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from thereafter.export.plan import NgramPlan, Plan
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.models.base import Floats, Ids
from thereafter.ngram.arpa import read_arpa, write_arpa
from thereafter.ngram.model import NgramModel, NgramState
from thereafter.ngram.tables import Tables


class ArpaTarget:
    """What KenLM, SRILM and speech recognisers read; gzip where the name ends in `.gz`."""

    ending: ClassVar[str] = ".arpa"
    program: ClassVar[str] = "reader of ARPA files"
    tolerance: ClassVar[float] = FLOAT32

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        if not isinstance(plan, NgramPlan):
            return f"a model of kind {plan.kind!r} cannot be written as ARPA: only n-grams can; try --to onnx"
        if int8:
            return "an ARPA file holds decimal numbers, nothing in int8; try it without --int8"
        if plan.uniform:
            return (
                "this n-gram gives all unseen words one probability, which a back-off model cannot say, and an ARPA "
                "file contains nothing else; try --to c or html, or training with smoothing='modified-kneser-ney'"
            )
        if (plan.wording.restart is not None) != (plan.wording.tokens == "word"):
            return (
                f"this {plan.wording.tokens} model has a context that an ARPA file cannot say; "
                "try training without --context"
            )
        return None

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        if not isinstance(plan, NgramPlan):
            raise TypeError(plan.kind)
        words = plan.wording
        forms = list(words.pieces) if words.tokens == "byte" else [form.encode() for form in words.forms]
        write_arpa(_model(plan), forms, path, escaped=words.tokens != "word")
        return WrittenFiles((path,), {"order": plan.order, "n-grams": len(plan.word)})

    def runner(self, plan: Plan, written: WrittenFiles) -> ArpaRunner:
        return ArpaRunner(plan, written.paths[0])


class ArpaRunner:
    """The file, read again; its words are put into the order of the model's by their spelling."""

    name: ClassVar[str] = "our reader of ARPA files"

    def __init__(self, plan: Plan, path: Path) -> None:
        words = plan.wording
        self._model, spelled = read_arpa(path, escaped=words.tokens != "word")
        forms = list(words.pieces) if words.tokens == "byte" else [form.encode() for form in words.forms]
        place = {form: number for number, form in enumerate(spelled)}
        self._own_V = np.array([place.get(form, -1) for form in forms])
        self._state = self._model.start(1)

    def start(self, rows: int) -> Floats:
        self._state = self._model.start(rows)
        return self._listed(self._model.predict(self._state))

    def step(self, token_B: Ids) -> Floats:
        logp_BV, self._state = self._model.step(self._own_V[np.asarray(token_B)], self._state)
        return self._listed(logp_BV)

    def _listed(self, logp_BV: Floats) -> Floats:
        return np.where(self._own_V >= 0, logp_BV[:, self._own_V], -np.inf).astype(np.float32)

    def close(self) -> None:
        self._state = NgramState(np.empty(0, np.int32))


def _model(plan: NgramPlan) -> NgramModel:
    tables = Tables(plan.word, plan.logp, plan.suffix, plan.backoff, plan.first_child, plan.level_starts)
    line_end = plan.wording.line_end
    context = "stream" if plan.wording.restart is None else "line"
    return NgramModel(tables, context=context, line_end=line_end, smoothing="", uniform=plan.uniform)


TARGET = ArpaTarget()
