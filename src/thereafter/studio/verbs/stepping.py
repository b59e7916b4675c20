"""The verb `step`: a model reads one more word after a prompt, and one sees what that did to its state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.cells.base import Cell
from thereafter.cells.gru import GRU
from thereafter.errors import OptionError
from thereafter.language_model import LanguageModel
from thereafter.layers.lanes import Lane
from thereafter.models.base import Logs
from thereafter.models.recurrent import RecurrentModel
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
}
"""The gates in the order in which they are explained; what each says at 1."""


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
    lanes = _lanes(lm, layer)
    shown = max(1, sum(_numbers(lane.cell, gates) for lane in lanes))
    count = min(limit, len(ids), max(1, MOST_NUMBERS // shown))
    state = lm.state_after(lm.encode(prompt))
    memory = state.memory if isinstance(state, NeuralState) else {}
    recorded = {name: array for name, (_, array) in lm.model.record(ids[:count], state).items()}
    fields = {f"{lane.name}.{field}": f"{field}_{lane.name}" for lane in lanes for field in lane.cell.state_sizes()}
    shown_gates = [gate for gate in GATES if gates and lanes and f"{lanes[0].name}.{gate}" in recorded]
    levels = [f"{lane.name}.{gate}" for lane in lanes for gate in shown_gates]
    before = BeforeAnswer(
        state={name: numbers(memory[key][0].float().cpu().numpy()) for name, key in fields.items()},
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
        layers=[lane.name for lane in _lanes(lm, None)],
        gates=[GateAnswer(name=gate, meaning=_meaning(lanes[0].cell, gate)) for gate in shown_gates],
        equations=equations(lanes[0].cell) if lanes else [],
        twin=twin_of(lm, text),
        before=before,
        steps=steps,
        left=len(ids) - count,
    )


def _lanes(lm: LanguageModel, layer: int | None) -> list[Lane]:
    """The layers that are shown; a model that does not recur has none."""
    if not isinstance(lm.model, RecurrentModel):
        return []
    lanes = list(lm.model.layers.lanes)
    if layer is not None and layer >= len(lanes):
        raise OptionError(f"layer is {layer} and the model has {len(lanes)}; expected 0 to {len(lanes) - 1}")
    return lanes if layer is None else [lanes[layer]]


def _numbers(cell: Cell, gates: bool) -> int:
    """How many numbers a layer shows in a step, at most."""
    return sum(cell.state_sizes().values()) + (len(cell.gates) * cell.hidden_size if gates else 0)


def _forms(lm: LanguageModel, text: str, ids: NDArray[np.int32]) -> list[str]:
    """The tokens of a text as they are written there: what the model does not know keeps its spelling."""
    forms = [lm.tokenizer.piece(token) for token in ids.tolist()]
    places = [at for at, token in enumerate(ids.tolist()) if token == lm.tokenizer.unknown_id]
    spellings = lm.tokenizer.measured(lm.normalise(text), False).unknown_forms
    if len(places) == len(spellings):  # a literal <unk> has no spelling, and then none is used
        for at, form in zip(places, spellings, strict=True):
            forms[at] = form
    return forms


def _expected(lm: LanguageModel, logp_1V: Logs, before: str, k: int) -> list[CandidateAnswer]:
    return [candidate(lm, before, token, p) for token, p in lm.likeliest(np.asarray(logp_1V)[0], k)]


def _meaning(cell: Cell, gate: str) -> str:
    """What a gate says at 1; of an update gate it depends on the cell, and in a GRU on its settings."""
    if gate != "update":
        return GATES[gate]
    keeps = isinstance(cell, GRU) and cell.options.update == "old"
    return "how much of the old state is kept" if keeps else "how much of the state is made new"
