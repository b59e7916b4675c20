"""The text that a file is checked with: one that is given, else one that was held out, else one the model writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thereafter.data.files import AnySource
from thereafter.errors import CorpusError, OptionError, SourceError
from thereafter.models.base import Ids
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import join_ids
from thereafter.training import protocol, roles
from thereafter.training.kinds import Trained
from thereafter.training.options import TextSettings
from thereafter.training.resume import find_again

MOST = 20_000
"""Tokens of a text that are read at most."""
SEED = 7


def text_of_check(trained: Trained, given: AnySource | None, steps: int) -> tuple[Ids, str]:
    """The tokens, [T], and what they are; a text of the training part is refused."""
    if given is None:
        source = _held_out(trained)
        if source is None:
            return _written(trained, steps), "a text that the model writes"
        return _first(trained, source, steps), source.name
    texts = protocol.find_texts(given, None, TextSettings.of_config(trained.config["text"], None))
    source = protocol.part_of(texts, "test", "valid")
    if roles.trained_on(trained, source.text_hash()):
        raise OptionError(
            f"{source.name} is what the model learned from; a check reads other text; try another --check"
        )
    return _first(trained, source, max(steps, MOST)), source.name


def _held_out(trained: Trained) -> Source | None:
    """The validation part of the text it was trained on, where that is still there and was not learned from."""
    try:
        texts = trained.texts or find_again(trained.config, Path("exported here"))
    except (SourceError, CorpusError, OptionError, KeyError):
        return None
    return texts.parts.get("valid", texts.parts.get("test"))


def _first(trained: Trained, source: Source, most: int) -> Ids:
    parts, count = [], 0
    for ids in trained.tokenizer.encode_stream(source.chunks(), whole=True):
        parts.append(ids[: most - count])
        count += len(parts[-1])
        if count >= most:
            break
    return join_ids(parts)


def _written(trained: Trained, steps: int) -> Ids:
    """Tokens drawn from the model itself: it has not learned from them."""
    model, drawing = trained.model, np.random.default_rng(SEED)
    state = model.start(1)
    logp_1V, tokens = np.asarray(model.predict(state)), []
    for _ in range(steps):
        p_V = np.exp(logp_1V[0].astype(np.float64))
        tokens.append(int(drawing.choice(len(p_V), p=p_V / p_V.sum())))
        logp_1V, state = model.step(np.array(tokens[-1:]), state)
    return np.array(tokens, dtype=np.int32)
