"""What each neural model of a comparison reads: the same for all, and counted in text, never in time unless asked for.

Seconds are not: on a busy machine, or one on which a kernel is slow, a budget in minutes gives some models less to
learn from than others, and ranks the machine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from thereafter import config as toml
from thereafter.comparing.shared_text import SHARES
from thereafter.config import Table
from thereafter.errors import OptionError
from thereafter.text.sources import Texts
from thereafter.training.kinds import MODELS
from thereafter.training.protocol import part_of
from thereafter.training.settings import TrainingSettings

UNITS = ("epochs", "tokens_budget", "minutes")
TOKENS = 600_000
"""Tokens each model reads by default, about: the whole ladder takes a few minutes on two cores."""
EPOCHS = 30.0
"""At most: a small text is soon known by heart."""
# of a token with the white space before it, about; others have 1
_CHARACTERS = {"word": 5.5, "prose": 5.0, "bpe": 4.0, "wordpiece": 4.0, "unigram": 4.0}


def read_budget(given: Table) -> Table:
    """The budget that was asked for; empty where none was."""
    budget = {name: given[name] for name in UNITS if given.get(name) is not None}
    toml.build(TrainingSettings, budget, "training")  # refuses what training would refuse, before anything is read
    return budget


def default_budget(texts: Texts, tokens: Collection[str], total: int = TOKENS) -> Table:
    """Epochs, equal for all models: as many as make about `total` of the finest of these tokens, at most `EPOCHS`.

    Not tokens: where some models read words and others characters, the same number of tokens is not the same text.
    """
    return {"epochs": min(EPOCHS, float(f"{total / count_tokens(texts, tokens):.2g}"))}


def count_tokens(texts: Texts, tokens: Collection[str]) -> float:
    """How many of the finest of these tokens a training text has, about, by its length: at least one."""
    part, share = (texts.parts["text"], SHARES[0]) if "text" in texts.parts else (part_of(texts, "train"), 1.0)
    length = share * sum(len(chunk) for chunk in part.chunks())
    return max(1.0, length / min(_CHARACTERS.get(name, 1.0) for name in tokens))


def describe_budget(budget: Table) -> str:
    """A budget in words: "4.2 epochs", "1 epoch", "600,000 tokens"."""
    units = {name: name.removesuffix("_budget") for name in budget}
    return ", ".join(
        f"{value:,.12g} {units[name].removesuffix('s') if value == 1 else units[name]}"
        for name, value in budget.items()
    )


def read_seeds(seeds: int | Sequence[int] | None, seed: int | None) -> list[int]:
    """The seeds of all neural models: `seed` is one of them, `seeds` are how many, or which; 0 where none is given."""
    if seed is not None:
        if seeds is not None:
            raise OptionError(f"got seed={seed!r} and seeds={seeds!r}; expected one of them; try seeds=[{seed!r}]")
        if not isinstance(seed, int):
            raise OptionError(f"seed is {seed!r}; expected a whole number, 0 or more; try seed=1")
        toml.build(TrainingSettings, {"seed": seed}, "training")
        return [seed]
    wanted = 1 if seeds is None else seeds
    chosen = list(range(wanted)) if isinstance(wanted, int) else list(dict.fromkeys(wanted))
    if not chosen or not all(isinstance(one, int) and one >= 0 for one in chosen):
        raise OptionError(f"seeds is {seeds!r}; expected how many, 1 or more, or a list of them; try seeds=3")
    return chosen


def refuse_uneven(options: Table) -> None:
    """Raise where a budget or a seed is given to one kind of model: `lstm.epochs`."""
    for spelled in options:
        table, _, name = spelled.rpartition(".")
        if table in MODELS and name in (*UNITS, "seed"):
            raise OptionError(
                f"{spelled} is for one kind of model, and in a comparison all have the same; "
                f"try {name}={options[spelled]!r}"
            )
