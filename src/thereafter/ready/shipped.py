"""The weights that ship with the package, unpacked as a run in a moment, and models trained anew in their place.

They are float16 or int8 (`runs/narrow.py` says how they are rounded), one folder a model. `weights/cards.json` says of
each model by which recipe it was made, the sha256 of its files, what it scored with rounded weights, and what its units
carry. A model whose recipe has changed since does not count as shipped: it is trained. `examples/ready_models.py`
trains, scores and packs them, and writes the cards.
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

from thereafter.base.config import Table
from thereafter.base.storage import map_arrays, write_arrays, write_text
from thereafter.errors import FormatError
from thereafter.ready import models, tasks
from thereafter.ready.models import Made, sign
from thereafter.runs.narrow import widened
from thereafter.tasks.answers import TOGETHER

CARDS, WEIGHTS = "cards.json", "weights.safetensors"
TEXTS = "TEXTS/"
"""Stands in shipped files for the folder of the texts, which is another on every machine."""


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
                write_text(new / name, content.replace(TEXTS, f"{texts.as_posix()}/"))
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


FAR = (6, 10)
"""Words between subject and verb that count as far."""


def in_words(scores: Mapping[str, float]) -> str:
    """The figures of a card that say most, in a line."""
    forms = {
        "agreement_far": f"{{:.1f}} % of the verbs right at {FAR[0]} to {FAR[1]} words",
        "perplexity": "perplexity {:.1f}",
        "bits_per_character": "{:.2f} bits a letter",
        "bleu": "BLEU {:.1f}",
        "bleu_4": "BLEU-4 {:.1f}",
        "cider_d": "CIDEr-D {:.2f}",
        "nats": "{:.0f} nats a picture" if "latent" in scores else "{:.0f} nats a frame",
        "caught": "{:.3f} of the balls caught",
        "mase": "{:.2f} of the seasonal naive error (MASE)",
    }
    words = [form.format(scores[name]) for name, form in forms.items() if name in scores]
    if TOGETHER in scores:
        words += [f"{name} {100 * share:.1f} % right" for name, share in scores.items() if name != TOGETHER]
    return ", ".join(words) or f"{100 * scores['accuracy']:.1f} % right"
