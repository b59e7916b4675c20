"""The weights that ship with the package, unpacked as a run in a moment, and models trained anew in their place.

They are float16 or int8 (`runs/narrow.py` says how they are rounded), one folder a model. `weights/cards.json` says of
each model by which recipe it was made, the sha256 of its files, what it scored with rounded weights, and what its units
carry. A model whose recipe has changed since does not count as shipped: it is trained. Both the files and the cards are
written by `examples/ready_models.py`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from thereafter.base.config import Table
from thereafter.base.storage import map_arrays, write_arrays, write_text
from thereafter.errors import FormatError
from thereafter.ready import models, tasks
from thereafter.ready.models import Made, sign
from thereafter.runs.narrow import narrowed, widened

CARDS, WEIGHTS, LOG = "cards.json", "weights.safetensors", "log.jsonl"
STEPS = 150
"""The most training steps that a shipped log lists."""
_TEXTS = "TEXTS/"
"""Stands in shipped files for the folder of the texts, which is another on every machine."""
FILES = ("config.toml", "tokenizer.json", LOG, WEIGHTS)


def weights_folder() -> Path:
    """Where the package keeps them."""
    return Path(str(resources.files("thereafter.ready") / "weights"))


@cache
def cards() -> dict[str, Table]:
    """The card of every shipped model, by name."""
    path = weights_folder() / CARDS
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def is_shipped(one: Made) -> bool:
    """Whether the package has this model, made by this recipe."""
    return cards().get(one.name, {}).get("recipe") == one.recipe


def unpack(one: Made, folder: Path, texts: Path | None = None) -> bool:
    """Write a model as the run `folder/NAME`; False where the package has none by this recipe.

    `texts` is the folder of what it was trained on, `folder/texts` by default: its files are written when they are
    first asked for (`models.sentences`, `tasks.examples`).
    """
    if not is_shipped(one):
        return False
    place = (texts or folder / "texts").absolute()
    restore(weights_folder() / one.name, cards()[one.name]["sha256"], folder / one.name, place)
    sign(one, folder)
    return True


def restore(packed: Path, sha256: Mapping[str, str], run: Path, texts: Path) -> None:
    """Write a packed model as a run, in float32. It appears whole or not at all: it is written beside its place and
    moved."""
    run.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=run.parent) as place:
        new = Path(place) / run.name
        new.mkdir()
        for name, expected in sha256.items():
            check(packed / name, expected)
            if name == WEIGHTS:
                arrays, facts = map_arrays(packed / name)
                write_arrays(new / name, widened(arrays), facts)
            else:
                content = (packed / name).read_text(encoding="utf-8")
                write_text(new / name, content.replace(_TEXTS, f"{texts.as_posix()}/"))
        if run.exists():
            shutil.rmtree(run)
        new.replace(run)


def check(path: Path, sha256: str) -> None:
    """Refuse a file that is not the one that was shipped."""
    measured = hash_of(path)
    if measured != sha256:
        raise FormatError(
            f"{path} is damaged: got sha256 {measured[:12]}…, expected {sha256[:12]}…; try installing thereafter again"
        )


def hash_of(path: Path) -> str:
    """The sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pack(run: Path, target: Path, texts: Path, dtype: str = "float16") -> dict[str, str]:
    """Write a run for shipping: weights as `dtype`, and no folder of the machine it was made on, where its `texts` lie.

    Returns the sha256 of each file.
    """
    target.mkdir(parents=True, exist_ok=True)
    arrays, facts = map_arrays(run / WEIGHTS)
    write_arrays(target / WEIGHTS, narrowed(arrays, dtype), facts)
    names = [name for name in (*FILES, "units.json") if (run / name).is_file()]
    for name in names:
        if name != WEIGHTS:
            content = (run / name).read_text(encoding="utf-8")
            content = thin(content) if name == LOG else content
            write_text(target / name, content.replace(f"{texts.absolute().as_posix()}/", _TEXTS))
    return {name: hash_of(target / name) for name in names}


def thin(log: str) -> str:
    """A log with at most `STEPS` of its steps, evenly spread: enough for a curve, a tenth of the bytes."""
    lines = log.splitlines(keepends=True)
    steps = [at for at, line in enumerate(lines) if json.loads(line).get("event") == "step"]
    kept = {steps[round(at)] for at in np.linspace(0, len(steps) - 1, min(STEPS, len(steps)))} if steps else set()
    return "".join(line for at, line in enumerate(lines) if at in kept or at not in set(steps))


APART = "anew"
"""The folder of what is being trained, inside that of all ready models; a run that was stopped is resumed there."""
_MODELS = {one.name: one for one in models.READY}
_TASKS = {one.name: one for one in tasks.READY_TASKS}
NAMES = (*_MODELS, *_TASKS)


def make_anew(name: str, folder: Path, scale: float = 1.0) -> None:
    """Train the ready model of that name by its recipe in a folder apart; at its end it replaces the one that is there.

    `scale` shortens it, for tests.
    """
    apart = folder / APART
    if name in _MODELS:
        models.make(_MODELS[name], apart, scale)
        _replace(apart / name, folder / name)
        models.sign(_MODELS[name], folder)
    else:
        tasks.make(_TASKS[name], apart, scale)
        _replace(apart / tasks.TASKS / name, folder / tasks.TASKS / name)
        models.sign(_TASKS[name], folder / tasks.TASKS)


def _replace(new: Path, old: Path) -> None:
    """Move the new one to the place of the old, which is removed last: a stop between leaves one of them whole."""
    old.parent.mkdir(parents=True, exist_ok=True)
    former = new.with_name(f"{new.name}.former")
    shutil.rmtree(former, ignore_errors=True)
    if old.exists():
        old.replace(former)
    new.replace(old)
    shutil.rmtree(former, ignore_errors=True)
