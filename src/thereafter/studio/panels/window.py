"""Window: what the network over the last few words makes of a text, from its word vectors to its predictions.

Shapes: W words of the window, E word vector, H hidden units, V words that can be predicted.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from thereafter.errors import OptionError
from thereafter.language_model import LanguageModel
from thereafter.layers.embedding import Embedding
from thereafter.layers.heads import Softmax
from thereafter.layers.recurrent import count_parameters
from thereafter.models.window import WindowModel
from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.asking import of_language_model
from thereafter.studio.panels.numbers import numbers, rows
from thereafter.studio.panels.prediction import CandidateAnswer, candidate
from thereafter.text.vocabulary import START

PartName = Literal["words", "embedding", "joined", "hidden", "output"]
_SHOWN = 60  # tokens of a text that are shown
_LETTERS: dict[type[nn.Module], dict[str, str]] = {
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


class WindowAsked(Asked):
    model: Annotated[ModelName, Field(examples=["ready:window"])]
    text: Prompt = ""
    k: Annotated[int, Field(ge=1, le=50)] = 10


@of_language_model(WindowAsked, "window")
def look(lm: LanguageModel, text: str, k: int = 10) -> WindowAnswer:
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
        f_F = model.known(state)[0]
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
    weights = [] if module is None else _weights(module)
    parameters = 0 if module is None else count_parameters(module)
    return PartAnswer(name=name, input=taken, weights=weights, output=given, parameters=parameters)


def _weights(module: nn.Module) -> list[WeightAnswer]:
    """The learned arrays of a component, each shaped as what comes in by what goes out, whichever way it is stored."""
    letters = _LETTERS.get(type(module), {})
    turn = 1 if isinstance(module, Embedding) else -1
    return [
        WeightAnswer(name=letters.get(name, name), shape=list(weight.shape)[::turn])
        for name, weight in module.named_parameters()
    ]
