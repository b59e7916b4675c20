"""The weights that ship with the package, unpacked as a run in a moment, and models trained anew in their place.

They are float16 or int8 (`runs/narrow.py` says how they are rounded), one folder a model. `weights/cards.json` says of
each model by which recipe it was made, the sha256 of its files, what it scored with rounded weights, and what its units
carry. A model whose recipe has changed since does not count as shipped: it is trained. Both the files and the cards are
written by `examples/ready_models.py`.

Their scores are measured here, too, on text that no training has seen.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from thereafter.base.config import Table
from thereafter.base.storage import map_arrays, write_arrays, write_text
from thereafter.errors import FormatError
from thereafter.ready import models, tasks
from thereafter.ready.models import (
    HAVE_UNITS,
    LETTERS_TEXT,
    SENTENCES_NAME,
    Made,
    Ready,
    search_letters,
    search_number,
    sentences,
    sign,
)
from thereafter.ready.tasks import TASKS, ReadyTask, examples
from thereafter.runs.narrow import narrowed, widened
from thereafter.tasks.classify.measures import TOGETHER

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel


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


UnitScore = list[str | float]
"""A unit, its AUC or correlation on text it was not chosen on, and that of the control."""
FAR = (6, 10)
"""Words between subject and verb that count as far."""
_CHARACTERS = 100_000
"""Of the held-out Python code."""


def measure(one: Ready, folder: Path) -> Table:
    """The scores of a ready language model, and for each property the AUC or correlation of its best unit."""
    from thereafter.language_model import load_language_model
    from thereafter.text.sources import Source, resolve

    lm = load_language_model(folder / one.name)
    scores: Table = {}
    if one.source == SENTENCES_NAME:
        scores = _sentence_scores(lm, folder)
    else:
        text = resolve(LETTERS_TEXT).parts["text"].text()[:_CHARACTERS]
        scores["bits_per_character"] = round(lm.score(Source.of_text(text)).bits_per_char, 4)
    if one.kind in HAVE_UNITS:
        scores["units"] = _unit_scores(one, lm, folder)
    return scores


def _sentence_scores(lm: LanguageModel, folder: Path) -> dict[str, float]:
    from thereafter.evaluation.agreement import measure_agreement
    from thereafter.text.agreement import read_sentences

    test = sentences(folder)["test"]
    known = list(read_sentences(test.with_suffix(".jsonl")))
    agreement = measure_agreement(lm.model, lm.tokenizer, known, context=lm.config["text"]["context"])
    return {
        "perplexity": round(lm.score(test).perplexity, 3),
        "agreement": round(100 * agreement.overall.accuracy, 2),
        "agreement_far": round(100 * agreement.between(*FAR).accuracy, 2),
    }


def _unit_scores(one: Ready, lm: LanguageModel, folder: Path) -> dict[str, UnitScore]:
    """For each property: the unit, its figure on the half it was not chosen on, and the control's."""
    if one.source == SENTENCES_NAME:
        units = search_number(lm, folder)
        rows = {"number": (units["unit"][0], units["held_out"][0], units["control"].max())}
    else:
        units = search_letters(lm)
        columns = (units["unit"][:, 0], units["held_out"][:, 0], units["control"])
        rows = dict(zip(units["property"].tolist(), zip(*columns, strict=True), strict=True))
    return {
        name: [str(unit), round(float(figure), 3), round(float(luck), 3)] for name, (unit, figure, luck) in rows.items()
    }


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


def measure_task(one: ReadyTask, folder: Path) -> dict[str, float]:
    """The scores of a ready task model on its test examples: plain numbers alone."""
    from thereafter.task_model import load_task

    model = load_task(folder / TASKS / one.name)
    facts = model.score(examples(folder, one, "test")).as_dict()
    return {name: round(value, 4) for name, value in facts.items() if isinstance(value, float) and math.isfinite(value)}
