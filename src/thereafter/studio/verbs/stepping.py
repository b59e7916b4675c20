"""The verb `step`: a model reads one more word after a prompt, and one sees what that did to its state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.cells.base import Cell
from thereafter.errors import OptionError
from thereafter.language_model import LanguageModel
from thereafter.models.base import Logs
from thereafter.models.neural import NeuralModel
from thereafter.models.state import NeuralState
from thereafter.studio.answers.prediction import CandidateAnswer
from thereafter.studio.answers.stepping import BeforeAnswer, GateAnswer, StepAnswer, TakenAnswer
from thereafter.studio.verbs.equations import equations
from thereafter.studio.verbs.number import twin_of
from thereafter.studio.verbs.numbers import number, numbers
from thereafter.studio.verbs.prediction import candidate

MOST_NUMBERS = 400_000
"""Of states and gates in one answer, which is some megabytes: of a large model fewer steps are shown."""
GATES = {
    "forget": "how much of the old cell state is kept",
    "input": "how much of the new is written",
    "output": "how much of the cell state is shown",
    "reset": "how much of the old state the new one is made from",
    "update": "",  # depends on the cell: see `_meaning`
    "cell": "what may be written",
    "new": "what may be written",
}
"""The gates in the order in which they are explained; what each says at 1. Then the candidates, which have a sign."""
_LETTERS = {"cell": "g", "new": "n"}


def step(
    lm: LanguageModel,
    prompt: str,
    text: str,
    *,
    k: int = 5,
    limit: int = 1,
    layer: int | None = None,
    gates: bool = True,
) -> StepAnswer:
    """Read the first `limit` tokens of a text after a prompt, a step for each.

    States and gates go by their names in `lm.trace` ("l0.h", "l0.forget") and have its values; `layer` chooses one
    layer, `gates=False` leaves the gates out. A model that does not recur has neither. A token and its form differ
    where the model does not know the word.
    """
    ids = lm.encode(text)
    if not len(ids):
        raise OptionError("the text to read is empty; expected at least one token; try a word")
    cells = _cells(lm, layer)
    shown = max(1, sum(_numbers(cell, gates) for cell in cells.values()))
    count = min(limit, len(ids), max(1, MOST_NUMBERS // shown))
    state = lm.state_after(lm.encode(prompt))
    carried = lm.model.carried(state) if isinstance(lm.model, NeuralModel) and isinstance(state, NeuralState) else {}
    recorded = {name: array for name, (_, array) in lm.model.record(ids[:count], state).items()}
    fields = [f"{name}.{field}" for name, cell in cells.items() for field in cell.state_sizes()]
    shown_gates = [gate for gate in GATES if gates and any(f"{name}.{gate}" in recorded for name in cells)]
    levels = [f"{name}.{gate}" for name in cells for gate in shown_gates]
    first = next(iter(cells.values()), None)
    before = BeforeAnswer(
        state={name: numbers(carried[name][0].float().cpu().numpy()) for name in fields},
        next=_expected(lm, lm.model.predict(state), prompt, k),
    )
    steps = []
    for t, (token, form) in enumerate(zip(ids[:count].tolist(), _forms(lm, text, ids)[:count], strict=True)):
        logp_1V, state = lm.model.step(np.array([token]), state)
        steps.append(
            TakenAnswer(
                token=lm.tokenizer.piece(token),
                form=form,
                known=token != lm.tokenizer.unknown_id,
                log_prob=number(recorded["log_prob"][t]),
                state={name: numbers(recorded[name][t]) for name in fields},
                gates={name: numbers(recorded[name][t]) for name in levels},
                next=_expected(lm, logp_1V, form, k),
            )
        )
    return StepAnswer(
        layers=list(_cells(lm, None)),
        gates=[
            GateAnswer(name=gate, meaning=_meaning(first, gate), letter=_LETTERS.get(gate, "")) for gate in shown_gates
        ],
        equations=[] if first is None else equations(first),
        twin=twin_of(lm, text),
        before=before,
        steps=steps,
        left=len(ids) - count,
    )


def _cells(lm: LanguageModel, layer: int | None) -> dict[str, Cell]:
    """The cells of the layers that are shown, by layer; a model that does not recur has none."""
    cells = dict(lm.model.cells) if isinstance(lm.model, NeuralModel) else {}
    if layer is None or not cells:
        return cells
    if layer >= len(cells):
        raise OptionError(f"layer is {layer} and the model has {len(cells)}; expected 0 to {len(cells) - 1}")
    name = list(cells)[layer]
    return {name: cells[name]}


def _numbers(cell: Cell, gates: bool) -> int:
    """How many numbers a layer shows in a step, at most."""
    return sum(cell.state_sizes().values()) + (len(cell.gates) * cell.hidden_size if gates else 0)


def _forms(lm: LanguageModel, text: str, ids: NDArray[np.int32]) -> list[str]:
    """The tokens of a text as they are written there: what the model does not know keeps its spelling."""
    forms = [lm.tokenizer.piece(token) for token in ids.tolist()]
    places = [at for at, token in enumerate(ids.tolist()) if token == lm.tokenizer.unknown_id]
    spellings = lm.tokenizer.measure(lm.normalise(text), False).unknown_forms
    if len(places) == len(spellings):  # a literal <unk> has no spelling, and then none is used
        for at, form in zip(places, spellings, strict=True):
            forms[at] = form
    return forms


def _expected(lm: LanguageModel, logp_1V: Logs, before: str, k: int) -> list[CandidateAnswer]:
    return [candidate(lm, before, token, p) for token, p in lm.likeliest(np.asarray(logp_1V)[0], k)]


def _meaning(cell: Cell | None, gate: str) -> str:
    """What a gate says at 1; of an update gate it depends on the cell, and in a GRU on its settings."""
    if gate != "update":
        return GATES[gate]
    memory = None if cell is None else cell.memory_gate
    keeps = memory is not None and memory.keeps
    return "how much of the old state is kept" if keeps else "how much of the state is made new"
