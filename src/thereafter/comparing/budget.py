"""What each neural model of a comparison reads, the same for all, and the folder that keeps to such a plan.

A budget is counted in text, and in time only where that is asked for: on a busy machine, or one on which a kernel is
slow, a budget in minutes gives some models less to learn from than others, and ranks the machine. What a comparison was
begun under is written down in its folder, and only the same plan goes on there.

The one text that all models of a comparison get: cut once, normalised once, the same bytes for everyone.

A corpus with train, valid and test parts keeps them; any other text is cut 90 / 5 / 5, each cut before the line it
falls into. Where some models read words between white space and others do not, white space is made what it is for the
former: single spaces, none at the ends of lines, and a newline behind the last.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.base.storage import replacing, write_text
from thereafter.errors import EmptyCorpusError, OptionError, SourceError
from thereafter.runs.folder import LOCK, is_file, owning
from thereafter.text.reading import WORD_TAIL, recut
from thereafter.text.sources import Source, Texts
from thereafter.training import protocol
from thereafter.training.finding import SourceSlice, form_notes, part_of, split_texts
from thereafter.training.kinds import MODELS
from thereafter.training.settings import TextSettings, TrainingSettings

PARTS = ("train", "valid", "test")
SHARES = (0.90, 0.95)
_COARSE = "word"  # the one tokenizer that does not keep white space


@dataclass(frozen=True)
class SharedText:
    """`texts` and `valid` are what training is given, `settings` how it is to read them, `parts` all three parts."""

    texts: Texts
    valid: Texts | None
    parts: dict[str, Source]
    settings: TextSettings
    notes: tuple[str, ...]


def fingerprint(texts: Texts) -> str:
    """sha256 of all parts."""
    return hashlib.sha256(
        " ".join(f"{name} {part.fingerprint()}" for name, part in texts.parts.items()).encode()
    ).hexdigest()


def is_mixed(tokens: Collection[str]) -> bool:
    """Whether white space must be made alike: some read words between it, and others read it."""
    return _COARSE in tokens and len(set(tokens)) > 1


def share(texts: Texts, settings: TextSettings, tokens: Collection[str], folder: Path) -> SharedText:
    """The text for models over these kinds of tokens; what is cut or normalised is written to `folder`."""
    mixed = is_mixed(tokens)
    notes = [*texts.notes, *form_notes(next(iter(texts.parts.values())))]
    texts = replace(texts, notes=())  # which every training would repeat
    if all(part in texts.parts for part in PARTS):
        parts = {part: texts.parts[part] for part in PARTS}
        notes.append(f"train, valid and test are parts of {texts.name}")
    elif "test" in texts.parts:
        cut, sentences = split_texts(texts, None, hold_out=True)
        parts = {part: cut.parts[part] for part in PARTS}
        notes += sentences
    elif "text" in texts.parts:
        parts = cut_in_three(texts.parts["text"])
        notes.append("cut 90 / 5 / 5 at ends of lines")
    else:
        named = ", ".join(f"{texts.name}:{part}" for part in texts.parts)
        raise SourceError(f"{texts.name} has no part to test on; name one of its parts, which is then cut: {named}")
    if mixed:
        notes.append("white space as the word tokenizer leaves it, for all")
    if not mixed and all(part in texts.parts for part in PARTS):
        return SharedText(texts, None, parts, settings, tuple(notes))
    written = {
        name: _write(source, folder / f"{name}.txt", f"{texts.name} ({name})", mixed) for name, source in parts.items()
    }
    name = f"{texts.name} (cut)" if not mixed else f"{texts.name} (normalised)"
    return SharedText(
        replace(texts, name=name, parts={"text": written["train"]}),
        Texts(f"{name}, valid", {"text": written["valid"]}, texts.tokens),
        written,
        replace(settings, encoding=None),  # whatever it was, the parts are written as UTF-8
        tuple(notes),
    )


def cut_in_three(source: Source) -> dict[str, Source]:
    """The first 90 % of the characters, the next 5 % and the rest; each cut is moved before the line it falls into."""
    length = sum(len(chunk) for chunk in source.chunks())
    marks = [round(length * share) for share in SHARES]
    ends = _line_ends(source, marks)
    bounds = [0, ends[0], ends[1], length]
    if not all(low < high for low, high in pairwise(bounds)):
        bounds = [0, *marks, length]  # lines too long to cut between them
    if not all(low < high for low, high in pairwise(bounds)):
        raise EmptyCorpusError(
            f"{source.name} has {length:,} characters, too few to cut into parts for training, validation and test; "
            "try a longer text"
        )
    return {
        name: SourceSlice.of(source, f"{source.name} ({name})", low, high)
        for name, low, high in zip(PARTS, bounds[:-1], bounds[1:], strict=True)
    }


def normalise_space(chunks: Iterable[str]) -> Iterator[str]:
    """Words with single spaces between, a newline behind every line.

    >>> "".join(normalise_space([" so ", "long\\n\\n and", " thanks"]))
    'so long\\n\\nand thanks\\n'
    """
    inside, ended = False, True
    for piece in recut(chunks, WORD_TAIL):
        lines = piece.split("\n")
        for number, line in enumerate(lines):
            words = line.split()
            if words:
                yield (" " if inside else "") + " ".join(words)
                inside = True
            if number + 1 < len(lines):
                yield "\n"
                inside = False
        ended = piece.endswith("\n")
    if not ended:
        yield "\n"


def _line_ends(source: Source, marks: list[int]) -> list[int]:
    """Behind which characters the last lines end that lie before the marks; 0 where none does."""
    ends = [0] * len(marks)
    at = 0
    for chunk in source.chunks():
        for number, mark in enumerate(marks):
            newline = chunk.rfind("\n", 0, max(0, mark - at))
            if newline >= 0:
                ends[number] = at + newline + 1
        at += len(chunk)
        if at >= marks[-1]:
            break
    return ends


def _write(source: Source, path: Path, name: str, normalise: bool) -> Source:
    chunks = source.chunks(f"writing {name}")
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for piece in normalise_space(chunks) if normalise else chunks:
            file.write(piece)
    return Source(name, (path,), lower=source.lower, letters_only=source.letters_only)


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


PLAN = "plan.json"
_OURS = (PLAN, "text", "runs", "results", "compare.json", "report.html", LOCK)


@contextmanager
def planned_folder(out: str | PathLike[str] | None, base: str | PathLike[str] | None, plan: Table) -> Iterator[Path]:
    """The folder of the comparison, its plan written down; one that is thrown away where none is asked for."""
    if out is None and base is None:
        with tempfile.TemporaryDirectory(prefix="thereafter-compare-") as name:
            yield Path(name)
        return
    folder = Path(out) if out is not None else _free(Path(base or "."), plan)
    other = _difference(folder, plan)
    if other:
        raise OptionError(f"{folder} {other}; try another --out, or what it was begun with")
    with owning(folder):
        write_text(folder / PLAN, _to_json(plan) + "\n", durable=True)
        yield folder


def _free(base: Path, plan: Table) -> Path:
    """The first of NAME, NAME-2, NAME-3 that is free or was begun under the same plan."""
    name = "compare-" + protocol.run_name(plan["source"], "").removesuffix("-")
    folder, number = base / name, 2
    while _difference(folder, plan):
        folder, number = base / f"{name}-{number}", number + 1
    return folder


def _difference(folder: Path, plan: Table) -> str:
    """Why a folder cannot take a comparison under a plan; nothing where it can."""
    try:
        others = [path.name for path in folder.iterdir() if path.name not in _OURS]
        if not is_file(folder / PLAN):
            return "holds other files and no comparison" if others else ""
        begun = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError) as error:
        return f"cannot be used for a comparison: {getattr(error, 'strerror', None) or error}"
    wanted = json.loads(_to_json(plan))
    if isinstance(begun, dict) and ("task" in begun) != ("task" in wanted):
        return f"holds a comparison of {'networks of a task' if 'task' in begun else 'language models'}"
    for name, value in wanted.items():
        planned = begun.get(name) if isinstance(begun, dict) else None
        if planned != value:
            return f"holds a comparison with {name} {planned!r}, and this one has {value!r}"
    return ""


def _to_json(plan: Table) -> str:
    """A plan as JSON; numbers of numpy as Python's, a path as its name."""
    return json.dumps(
        plan, indent=1, default=lambda value: value.item() if isinstance(value, np.generic) else str(value)
    )
