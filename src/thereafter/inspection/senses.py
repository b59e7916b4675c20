"""One word in different contexts: its vector is one, the state after reading it is many.

Shapes: S sentences, U units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.inspection.dynamics import principal
from thereafter.inspection.measurement import Measurement
from thereafter.models.neural import NeuralModel
from thereafter.text.tokenizers.base import Tokenizer


def senses(
    model: NeuralModel, tokenizer: Tokenizer, word: str, contexts: Mapping[str, Sequence[str]], *, text: str = ""
) -> Measurement:
    """The state after a word at the end of several contexts of each sense, against its one static vector.

    `contexts[sense]` are beginnings that end with the word. Returns `point` [sentence, 2], the states in the plane of
    their first two principal components, `sense` and `context` [sentence], and cosines of the states, their common mean
    taken off: `cosine` [sentence, sentence], `within` and `between`, their means. The static vector's cosine with
    itself is 1 in all contexts: `static` [sentence, sentence].
    """
    if len(contexts) < 2 or any(len(listed) < 2 for listed in contexts.values()):
        raise OptionError("expected at least 2 senses of 2 contexts each; try more sentences")
    labels = [sense for sense, listed in contexts.items() for _ in listed]
    listed = [context for several in contexts.values() for context in several]
    states_SU, vectors_SE = [], []
    table_VE = model.input_embedding()
    for context in listed:
        ids = tokenizer.encode(context)
        if not len(ids) or tokenizer.piece(int(ids[-1])).strip() != word:
            raise OptionError(f"{context!r} does not end with the model's token {word!r}; expected contexts that do")
        state = model.read(ids.reshape(1, -1), model.start(1))
        states_SU.append(model.known(state)[0].float().cpu().numpy())
        vectors_SE.append(table_VE[int(ids[-1])])
    points_SU = np.stack(states_SU).astype(np.float64)
    plane = principal(points_SU, 2)
    cosine = _cosines(points_SU - points_SU.mean(axis=0))
    same = np.array([[one == other for other in labels] for one in labels])
    others = ~np.eye(len(labels), dtype=bool)
    return Measurement(
        "senses",
        {
            "sense": np.array(labels),
            "context": np.array(listed),
            "point": plane.project(points_SU),
            "share": plane.share_K,
            "cosine": cosine,
            "static": _cosines(np.stack(vectors_SE).astype(np.float64)),
            "within": np.array(cosine[same & others].mean()),
            "between": np.array(cosine[~same].mean()),
        },
        {
            "sense": ("sentence",),
            "context": ("sentence",),
            "point": ("sentence", "component"),
            "share": ("component",),
            "cosine": ("sentence", "sentence"),
            "static": ("sentence", "sentence"),
            "within": (),
            "between": (),
        },
        {"model": type(model).__name__, "word": word, "text": text},
    )


def _cosines(points_SU: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.maximum(np.linalg.norm(points_SU, axis=1), np.finfo(np.float64).tiny)
    cosine_SS: NDArray[np.float64] = points_SU @ points_SU.T / np.outer(lengths, lengths)
    return cosine_SS
