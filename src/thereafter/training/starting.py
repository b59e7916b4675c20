"""Starting from a run: a language model goes on with the weights and the tokenizer of another one, on new text.

What the weights depend on is the run's own: the kind of model, its sizes, how text is cut. Options that say otherwise
are refused. Dropout and other regularisation is free, as are all options of training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS, listed
from thereafter.base.storage import open_plain
from thereafter.errors import FormatError, OptionError, SourceError
from thereafter.evaluation.scores import MANY, unknown_share
from thereafter.runs import folder as files
from thereafter.text.chunks import IdArray
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training.kinds import MODELS, ModelKind, Trained, load_trained, read_config
from thereafter.training.options import START, Sorted

_OF_TOKENS = ("tokens", "context", "min_count", "vocabulary", "lower", "letters_only")
"""The options of the text that the vocabulary, and so the weights, depend on."""
_FREE = ("dropout", "weight_drop", "alpha", "beta")
"""How options begin that change how a model learns and not what it is."""


@dataclass(frozen=True)
class Start:
    """A finished language model that another training begins with."""

    folder: Path
    sha256: str
    """Of its weights."""
    trained: Trained

    @property
    def model(self) -> str:
        """The kind of model."""
        return str(self.trained.config["model"])

    @property
    def weights(self) -> dict[str, NDArray[np.generic]]:
        kind: ModelKind = MODELS.load(self.model)
        return kind.arrays(self.trained.model)[0]

    def describe(self) -> Table:
        """What the configuration says of it. `texts`: hashes of what it has learned from, whatever comes after."""
        source, before = self.trained.config["source"], self.trained.config.get(START, {})
        hashes = [source[key] for key in ("text_sha256", "whole_text_sha256") if source.get(key)]
        texts = [*hashes, *before.get("texts", ())]
        return {"run": str(self.folder.absolute()), "sha256": self.sha256, "texts": texts}

    def settle(self, given: Sorted, tokens: str | None) -> Sorted:
        """The options of a training that goes on with this run; OptionError for one that contradicts it."""
        config, text = self.trained.config, dict(given.text)
        if tokens is not None:
            text["tokens"] = tokens
        own = {name: config["text"].get(name) for name in _OF_TOKENS}
        self._check({name: value for name, value in text.items() if name in own}, own, "reads its text with")
        fixed = {name: value for name, value in given.model.items() if not name.startswith(_FREE)}
        self._check(fixed, config[self.model], "is a model with")
        return Sorted(text | own, dict(config[self.model]) | given.model, dict(given.training))

    def _check(self, given: Mapping[str, object], own: Mapping[str, object], how: str) -> None:
        for name, value in given.items():
            if _plain(value) != _plain(own.get(name)):
                raise OptionError(
                    f"{name} is {value!r}, and training goes on from {self.folder}, which {how} "
                    f"{name}={own.get(name)!r}; expected the run's own; try leaving {name} out"
                )


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def read_start(run: Path, model: str | None = None) -> Start:
    """The language model of a run folder, to begin with; OptionError where nothing can go on from it.

    `model`: the kind that was asked for, where one was.
    """
    kind = check_start(run)
    if model not in (None, kind):
        raise OptionError(
            f"model is {model!r}, and training goes on from {run}, which is {kind!r}; try leaving model out"
        )
    return Start(run, _sha256(run), load_trained(run))


def check_start(run: Path) -> str:
    """The kind of model in a run that another training can begin with."""
    if files.holds_task(run):
        raise FormatError(f"{run} holds a task; expected a language model to start from; try one of `thereafter train`")
    config, _ = read_config(run)
    kind: ModelKind = MODELS.load(config["model"])
    if not kind.trained_in_steps:
        neural = listed([name for name, row in KINDS.items() if row.neural])
        raise OptionError(
            f"{run} holds the model {config['model']!r}, which counts and has no weights to go on with; expected one "
            f"of {neural}; to use it beside a model of other text, mix them: "
            f"thereafter.mixture([{str(run)!r}, OTHER], tune=TEXT)"
        )
    files.check_weights(config, run)
    return str(config["model"])


def read_again(about: Table, run: Path) -> Start:
    """The run that another one began with, which must be the same still."""
    folder = Path(str(about["run"]))
    try:
        same = _sha256(folder) == about["sha256"]
    except OSError:
        same = False
    if not same:
        raise SourceError(
            f"{run} was stopped before its first checkpoint, and the run {folder} that it begins with is not there any "
            "more, or has changed; try putting that back, or training anew with another --out"
        )
    return read_start(folder)


def _sha256(run: Path) -> str:
    digest = hashlib.sha256()
    with open_plain(run / files.WEIGHTS) as weights:
        while block := weights.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def unknown_note(tokenizer: Tokenizer, ids: Iterable[IdArray], run: Path) -> list[str]:
    """How much of new text a tokenizer does not know; nothing for one that knows every text."""
    if tokenizer.unknown_id is None:
        return []
    counts = [(int(np.count_nonzero(np.asarray(one) == tokenizer.unknown_id)), len(one)) for one in ids]
    unknown, total = (sum(column) for column in zip(*counts, strict=True))
    remedy = "little of this text can be learned with its vocabulary; try training anew"
    return [describe_unknown(unknown, total, f"{tokenizer.name} tokens", run, remedy)]


def describe_unknown(unknown: int, total: int, what: str, run: Path, remedy: str) -> str:
    """A sentence; where much is unknown a warning, with what can be done."""
    share = unknown_share(unknown, total)
    note = f"{unknown:,} of {total:,} {what} ({100 * share:.1f} %) are unknown to {run}"
    return note if share <= MANY else f"{progress.WARNING}{note}: {remedy}"
