"""What a model does with a text, from the inside.

- `step`: it reads one more word after a prompt: what that did to its state, beside the equations of its cells
- `trace`: what it did over a text, as plain lists and as the file that `thereafter figure` reads
- `look`: what the network over the last few words makes of a text, from its word vectors to its predictions

Shapes: W words of the window, E word vector, H hidden units, V words that can be predicted.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from thereafter.cells.base import Cell
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import MinGRU, MinLSTM
from thereafter.errors import OptionError
from thereafter.language_model import LanguageModel
from thereafter.layers.embedding import Embedding
from thereafter.layers.heads import Softmax
from thereafter.layers.recurrent import count_parameters
from thereafter.models.base import Logs
from thereafter.models.feedforward import WindowModel
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import NeuralState
from thereafter.serving.schema import Answer, Prompt
from thereafter.studio.asking import LikelyAnswer, likely, nested, number, numbers, of_language_model, rows
from thereafter.studio.panels.prediction import CandidateAnswer, candidate, twin_of
from thereafter.text.tokenizers.base import START


class FieldAnswer(Answer):
    """The values of a field, nested as its axes say; the first axis is always the step."""

    axes: list[str]
    values: list[object]


class TraceAnswer(Answer):
    """`top[t]` are the likeliest tokens before token t was read. `cut` says how much of the text was left out."""

    tokens: list[str]
    cut: str
    fields: dict[str, FieldAnswer]
    top: list[list[LikelyAnswer]]


TraceLimit = Annotated[int, Field(ge=1, le=400)]
K = Annotated[int, Field(ge=1, le=50)]
"""How many of the likeliest tokens."""
FieldNames = Annotated[list[str], Field(max_length=40)] | None


@of_language_model("/trace")
def trace(
    lm: LanguageModel, text: Prompt, *, limit: TraceLimit = 100, top: K = 10, fields: FieldNames = None
) -> TraceAnswer:
    """What a model did at every token of a text: states, gates, attention, predictions.

    For each field its axes and its values, those of `lm.trace` in float32 as they are. `fields` chooses some; none
    means all.
    """
    recorded = lm.trace(text, limit=limit, top=top)
    wanted = [name for name in recorded.arrays if name != "top_token"] if fields is None else fields
    missing = [name for name in wanted if name not in recorded.arrays]
    if missing:
        raise OptionError(f"the trace has no field {missing[0]!r}; it has {', '.join(recorded.arrays)}")
    steps = range(len(recorded.tokens))
    return TraceAnswer(
        tokens=recorded.tokens,
        fields={name: FieldAnswer(axes=list(recorded.axes[name]), values=nested(recorded[name])) for name in wanted},
        cut=str(recorded.about.get("cut", "")),
        top=[likely(recorded.top(step)) for step in steps],
    )


@of_language_model("/trace.npz", file="trace.npz")
def trace_file(
    lm: LanguageModel, text: Prompt, *, limit: TraceLimit = 100, top: K = 10, fields: FieldNames = None
) -> bytes:
    """The same trace as `lm.trace(...).save` writes it, as a .npz file; it has all fields."""
    recorded = lm.trace(text, limit=limit, top=top)
    with tempfile.TemporaryDirectory() as folder:
        return recorded.save(Path(folder) / "trace.npz").read_bytes()


Vectors = dict[str, list[float | None]]
"""Vectors by the names they have in a trace: "l0.h", "l0.forget"."""
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


class BeforeAnswer(Answer):
    state: Vectors
    next: list[CandidateAnswer]


class TakenAnswer(Answer):
    """A step: `token` as the model reads it, `form` as it is written, `log_prob` what the model gave it."""

    token: str
    form: str
    known: bool
    log_prob: float | None
    state: Vectors
    gates: Vectors
    next: list[CandidateAnswer]


class GateAnswer(Answer):
    """`meaning` is what the gate says at 1. A candidate is no gate: `letter` is its name in the equations, else ""."""

    name: str
    meaning: str
    letter: str


class EquationAnswer(Answer):
    """`_x` and `_{...}` are subscripts; `field` is what it computes, `keeps` the gate that multiplies its old value."""

    text: str
    field: str
    keeps: str


class StepAnswer(Answer):
    """`left` tokens of the text were not read; `twin` is the text with every number turned round, or ""."""

    layers: list[str]
    gates: list[GateAnswer]
    equations: list[EquationAnswer]
    twin: str
    before: BeforeAnswer
    steps: list[TakenAnswer]
    left: int


@of_language_model("/step")
def step(
    lm: LanguageModel,
    *,
    prompt: Prompt = "",
    text: Annotated[Prompt, Field(min_length=1, examples=["farmers"])],
    k: K = 5,
    limit: Annotated[int, Field(ge=1, le=200)] = 1,
    layer: Annotated[int, Field(ge=0, le=63)] | None = None,
    gates: bool = True,
) -> StepAnswer:
    """Read one more word after a prompt: the state before and after, the gates, and what is expected next.

    Of the text the first `limit` tokens are read, a step for each. States and gates go by their names in `lm.trace`
    ("l0.h", "l0.forget") and have its values; `layer` chooses one layer, `gates=False` leaves the gates out. A model
    that does not recur has neither. A token and its form differ where the model does not know the word.
    """
    ids = lm.encode(text)
    if not len(ids):
        raise OptionError("the text to read is empty; expected at least one token; try a word")
    cells = _cells(lm, layer)
    # the most numbers that all layers show in a step
    parts = [(sum(cell.state_sizes().values()), len(cell.gates) * cell.hidden_size) for cell in cells.values()]
    shown = max(1, sum(states + gates * opened for states, opened in parts))
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


def equations(cell: Cell) -> list[EquationAnswer]:
    """The equations of a cell in the order in which they are computed; none for a cell without a row here.

    `_x` and `_{...}` are subscripts.
    """
    if not type(cell).__module__.startswith("thereafter."):
        return []  # made from one of ours, it may compute something else
    if isinstance(cell, LSTM):
        rows = _lstm(cell)
    elif isinstance(cell, GRU):
        rows = _gru(cell)
    elif isinstance(cell, Elman):
        f = {"identity": "", "sigmoid": "σ"}.get(cell.options.nonlinearity, cell.options.nonlinearity)
        rows = [_equation(f"h_t = {f}({_sum(cell)})", "h")]
    elif isinstance(cell, MinGRU):
        rows = [
            _equation("z_t = σ(W_z x_t + b_z)", "update"),
            _equation("n_t = W_n x_t + b_n", "new"),
            _equation("h_t = (1 − z_t) h_{t−1} + z_t n_t", "h", "1 - update"),
        ]
    elif isinstance(cell, MinLSTM):
        rows = [
            _equation("f_t, i_t = σ(W x_t + b), made to sum to 1", "forget"),
            _equation("n_t = W_n x_t + b_n", "new"),
            _equation("h_t = f_t h_{t−1} + i_t n_t", "h", "forget"),
        ]
    else:
        rows = []
    return rows


def _equation(text: str, field: str = "", keeps: str = "") -> EquationAnswer:
    """`field` is what it computes, by its name in a trace ("forget", "c"), "" where a step does not show that.

    `keeps` is the gate that the old value of `field` is multiplied by, "1 - update" where it is what that leaves.
    """
    return EquationAnswer(text=text, field=field, keeps=keeps)


def _lstm(cell: LSTM) -> list[EquationAnswer]:
    def gate(letter: str, peephole: str) -> str:
        return f"{letter}_t = σ({_sum(cell, letter)}{f' + p_{letter} {peephole}' if cell.options.peephole else ''})"

    shown = "norm(c_t)" if cell.layer_norm else "c_t"
    hidden = f"o_t tanh({shown})"
    return [
        _equation("f_t = 1 − i_t" if cell.options.coupled else gate("f", "c_{t−1}"), "forget"),
        _equation(gate("i", "c_{t−1}"), "input"),
        _equation(f"g_t = tanh({_sum(cell, 'g')})", "cell"),
        _equation("c_t = f_t c_{t−1} + i_t g_t", "c", "forget"),
        _equation(gate("o", "c_t"), "output"),
        # a projection mixes the units: h has no unit that belongs to one of c
        _equation(f"h_t = W_{{hr}} ({hidden})") if cell.options.proj_size else _equation(f"h_t = {hidden}", "h"),
    ]


def _gru(cell: GRU) -> list[EquationAnswer]:
    new = "r_t (U_n h_{t−1} + b′)" if cell.options.reset == "after" else "U_n (r_t h_{t−1}) + b′"
    keeps = cell.options.update == "old"
    return [
        _equation(f"r_t = σ({_sum(cell, 'r')})", "reset"),
        _equation(f"z_t = σ({_sum(cell, 'z')})", "update"),
        _equation(f"n_t = tanh(W_n x_t + b_n + {new})", "new"),
        _equation("h_t = z_t h_{t−1} + (1 − z_t) n_t", "h", "update")
        if keeps
        else _equation("h_t = (1 − z_t) h_{t−1} + z_t n_t", "h", "1 - update"),
    ]


def _sum(cell: Cell, letter: str = "") -> str:
    """W x + U h + b of a gate; without a letter that of the one there is."""
    below = f"_{letter}" if letter else ""
    read, carried = f"W{below} x_t", f"U{below} h_{{t−1}}"
    if cell.layer_norm:
        read, carried = f"norm({read})", f"norm({carried})"
    return f"{read} + {carried} + b{below}"


PartName = Literal["words", "embedding", "joined", "hidden", "output"]
_SHOWN = 60  # tokens of a text that are shown
_WEIGHT_LETTERS: dict[type[nn.Module], dict[str, str]] = {
    Embedding: {"weight": "E"},
    nn.Linear: {"weight": "A", "bias": "d"},
    Softmax: {"weight": "U", "bias": "b"},
}
"""Letters as in `WindowModel`'s equations."""


class SlotAnswer(Answer):
    """A place of the window: `<s>` where nothing was read; `known` is false for a word the model never met."""

    text: str
    known: bool
    vector: list[float | None]


class WeightAnswer(Answer):
    """A learned array, shaped as what comes in by what goes out."""

    name: str
    shape: list[int]


class PartAnswer(Answer):
    """A component: the shapes of what it takes and gives for one text, and what it learns."""

    name: PartName
    input: list[int]
    weights: list[WeightAnswer]
    output: list[int]
    parameters: int


class WindowAnswer(Answer):
    """`tokens` are the last of the text, of which the model sees the last `seen`; `earlier` more are not listed."""

    window: int
    tokens: list[str]
    earlier: int
    seen: int
    slots: list[SlotAnswer]
    hidden: list[float | None]
    candidates: list[CandidateAnswer]
    parts: list[PartAnswer]
    parameters: int


@of_language_model("/window", "window")
def look(lm: LanguageModel, text: Prompt = "", k: K = 10) -> WindowAnswer:
    """Word vectors, hidden layer and likeliest words of a window model after a text.

    All values are those of the model's own layers. `slots` is the window, each place with its word vector; `<s>` stands
    where nothing was read. `hidden` is what the head sees of the hidden layer, `candidates` are the k likeliest
    continuations, `parts` the components with their shapes.
    """
    model = lm.model
    if not isinstance(model, WindowModel):
        raise OptionError(
            f"the model is of the kind {lm.config['model']!r}; expected a window of words; "
            "try ready:window, or train one with model='window'"
        )
    ids = lm.encode(text)
    state = model.start(1)
    if len(ids):
        state = model.read(ids.reshape(1, -1), state)
    with model.quietly():
        window_1W = state.memory["tokens"]
        x_WE = model.embedding(window_1W)[0]
        f_F = model.features_of(state)[0]
    window = window_1W[0].tolist()
    shown = ids[-_SHOWN:].tolist()
    logp_V = model.predict(state)[0]
    return WindowAnswer(
        window=model.settings.window,
        tokens=[lm.tokenizer.piece(token) for token in shown],
        earlier=len(ids) - len(shown),
        # the words after the last `<s>`, which begins every text or line
        seen=window[::-1].index(model.nothing) if model.nothing in window else len(window),
        slots=[
            SlotAnswer(
                text=START if token == lm.tokenizer.start_id else lm.tokenizer.piece(token),
                known=token != lm.tokenizer.unknown_id,
                vector=x_E,
            )
            for token, x_E in zip(window, rows(x_WE.float().cpu().numpy()), strict=True)
        ],
        hidden=numbers(f_F[: model.settings.hidden].float().cpu().numpy()),
        candidates=[candidate(lm, text, token, p) for token, p in lm.likeliest(logp_V, k)],
        parts=_parts(model),
        parameters=model.parameters_count(),
    )


def _parts(model: WindowModel) -> list[PartAnswer]:
    """The components in the order in which a text passes them: shapes of one text, learned arrays and their sizes."""
    settings, words = model.settings, model.vocabulary_size
    size, head = model.reader.size, model.get_submodule("head")
    joined = settings.window * size
    features = settings.hidden + (joined if settings.direct else 0)
    return [
        _part("words", [], [1, settings.window]),
        _part("embedding", [1, settings.window], [1, settings.window, size], model.embedding),
        _part("joined", [1, settings.window, size], [1, joined]),
        _part("hidden", [1, joined], [1, settings.hidden], model.hidden),
        _part("output", [1, features], [1, words], head),
    ]


def _part(name: PartName, taken: list[int], given: list[int], module: nn.Module | None = None) -> PartAnswer:
    """A component that has the learned arrays of a module."""
    named = [] if module is None else list(module.named_parameters())
    letters = {} if module is None else _WEIGHT_LETTERS.get(type(module), {})
    turn = 1 if isinstance(module, Embedding) else -1  # what comes in by what goes out, whichever way it is stored
    weights = [WeightAnswer(name=letters.get(name, name), shape=list(array.shape)[::turn]) for name, array in named]
    parameters = 0 if module is None else count_parameters(module)
    return PartAnswer(name=name, input=taken, weights=weights, output=given, parameters=parameters)
