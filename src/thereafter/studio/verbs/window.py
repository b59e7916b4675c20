"""Window: what the network over the last few words makes of a text, from its word vectors to its predictions.

Shapes: W words of the window, E word vector, H hidden units, V words that can be predicted.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from thereafter.errors import OptionError
from thereafter.language_model import LanguageModel
from thereafter.layers.counting import count_parameters
from thereafter.layers.embedding import Embedding
from thereafter.layers.softmax import Softmax
from thereafter.models.window import WindowModel
from thereafter.studio.verbs.prediction import candidate
from thereafter.studio.verbs.tracing import plain
from thereafter.text.vocabulary import START

_SHOWN = 60  # tokens of a text that are shown


def look(lm: LanguageModel, text: str, k: int = 10) -> dict[str, Any]:
    """What the model sees of a text and what it makes of it; all values are those of its own layers.

    `tokens` are the last of the text, of which the model sees the last `seen`; `earlier` more are not listed. `slots`
    is the window, each place with its word vector; `<s>` stands where nothing was read. `hidden` is what the head sees
    of the hidden layer, `candidates` are the k likeliest continuations, `parts` the components with their shapes.
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
    return {
        "window": model.settings.window,
        "tokens": [lm.tokenizer.piece(token) for token in shown],
        "earlier": len(ids) - len(shown),
        "seen": _seen(window, model.nothing),
        "slots": [
            {"text": _form(lm, token), "known": token != lm.tokenizer.unknown_id, "vector": x_E}
            for token, x_E in zip(window, plain(x_WE.float().cpu()), strict=True)
        ],
        "hidden": plain(f_F[: model.settings.hidden].float().cpu()),
        "candidates": [candidate(lm, text, token, p) for token, p in lm.likeliest(logp_V, k)],
        "parts": _parts(model),
        "parameters": model.parameters_count(),
    }


def _seen(window: list[int], nothing: int) -> int:
    """How many words of the text stand in the window: those after the last `<s>`, which begins every text or line."""
    return window[::-1].index(nothing) if nothing in window else len(window)


def _form(lm: LanguageModel, token: int) -> str:
    return START if token == lm.tokenizer.start_id else lm.tokenizer.piece(token)


def _parts(model: WindowModel) -> list[dict[str, Any]]:
    """The components in the order in which a text passes them: shapes of one text, learned arrays and their sizes."""
    settings, words = model.settings, model.vocabulary_size
    size, head = model.reader.size, model.get_submodule("head")
    joined = settings.window * size
    features = settings.hidden + (joined if settings.direct else 0)
    return [
        _part("words", [], [1, settings.window], [], None),
        _part("embedding", [1, settings.window], [1, settings.window, size], _named(model.embedding), model.embedding),
        _part("joined", [1, settings.window, size], [1, joined], [], None),
        _part("hidden", [1, joined], [1, settings.hidden], _named(model.hidden), model.hidden),
        _part("output", [1, features], [1, words], _named(head), head),
    ]


def _part(
    name: str, taken: list[int], given: list[int], weights: list[dict[str, Any]], module: nn.Module | None
) -> dict[str, Any]:
    parameters = 0 if module is None else count_parameters(module)
    return {"name": name, "input": taken, "weights": weights, "output": given, "parameters": parameters}


_LETTERS: dict[type[nn.Module], dict[str, str]] = {
    Embedding: {"weight": "E"},
    nn.Linear: {"weight": "A", "bias": "d"},
    Softmax: {"weight": "U", "bias": "b"},
}
"""Letters as in `WindowModel`'s equations."""


def _named(module: nn.Module) -> list[dict[str, Any]]:
    """The learned arrays of a component, each shaped as what comes in by what goes out, whichever way it is stored."""
    letters = _LETTERS.get(type(module), {})
    turn = 1 if isinstance(module, Embedding) else -1
    return [
        {"name": letters.get(name, name), "shape": list(weight.shape)[::turn]}
        for name, weight in module.named_parameters()
    ]
