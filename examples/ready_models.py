"""Makes the weights that ship with the package: trains every ready model, rounds it, scores it, packs it.

    python examples/ready_models.py                       # all, one after the other
    python examples/ready_models.py --only lstm letters --processes 2 --device cpu
    python examples/ready_models.py --measure             # no training: what ships is scored again

Everything is made from the built-in corpora and by the recipes in `thereafter.ready`. What was trained is kept in
`--work` and gone on with after a stop. `cards.json` gets for each model its recipe, the sha256 of its files, its scores
on text that no training has seen, and on what machine it was made. The n-gram model does not ship: counting takes less
time than reading it would. Beside each language model lies `compared.json`, what the studio's panel Compare shows of it
at once.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import platform
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from thereafter import load
from thereafter.base.config import Table
from thereafter.base.storage import cache_folder, map_arrays, write_arrays, write_text
from thereafter.evaluation.agreement import measure_agreement
from thereafter.language_model import LanguageModel, load_language_model
from thereafter.ready import models, shipped, tasks
from thereafter.runs.narrow import narrowed
from thereafter.studio.panels import comparison
from thereafter.task_model import load_task
from thereafter.text.agreement import read_sentences
from thereafter.text.sources import Source, resolve

MODELS = [one for one in models.READY if one.kind != "ngram"]
BY_NAME: dict[str, models.Ready | tasks.ReadyTask] = {one.name: one for one in (*MODELS, *tasks.READY_TASKS)}
NAMES = list(BY_NAME)
LOG = "log.jsonl"
FILES = ("config.toml", "tokenizer.json", LOG, shipped.WEIGHTS, "units.json")
STEPS = 150
"""The most training steps that a shipped log lists."""


def make(name: str, work: Path, device: str) -> str:
    """Train one, or go on with it."""
    import torch

    torch.set_num_threads(1)
    began = time.monotonic()
    for one in MODELS:
        if one.name == name:
            models.make(one, work, device=device)
    for task in tasks.READY_TASKS:
        if task.name == name:
            tasks.make(task, work)
    seconds = time.monotonic() - began
    if not (path := _made(work, name)).is_file():
        facts = {"date": date.today().isoformat(), "python": platform.python_version(), "torch": torch.__version__}
        facts |= {"processor": platform.machine(), "device": device}
        write_text(path, json.dumps(facts))
    return f"{name} trained in {seconds:.0f} s"


def _made(work: Path, name: str) -> Path:
    """Where it is noted on what machine a model was trained."""
    return work / "made" / f"{name}.json"


def pack(name: str, work: Path, out: Path) -> dict[str, Any]:
    """Round and write one, and score what was written."""
    one = BY_NAME[name]
    sha256 = pack_run(work / _inside(name) / name, out / name, work / "texts", one.stored)
    card = {"recipe": one.recipe, "sha256": sha256}
    card["made"] = json.loads(_made(work, name).read_text(encoding="utf-8"))
    return measure(name, work, out, card)


def measure(name: str, work: Path, out: Path, card: dict[str, Any]) -> dict[str, Any]:
    """The card of a packed model with its scores; what is compared of it is written beside it."""
    one = BY_NAME[name]
    sha256 = {file: figure for file, figure in card["sha256"].items() if file != comparison.SHIPPED}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "texts").symlink_to(work / "texts")
        shipped.restore(out / name, sha256, folder / _inside(name) / name, work / "texts")
        if isinstance(one, tasks.ReadyTask):
            return card | {"sha256": sha256, "scores": task_scores_of(one, folder)}
        measured = comparison.measure(load(folder / name), name, folder / name, models.compared_sentences(folder))
        write_text(out / name / comparison.SHIPPED, json.dumps(measured.as_dict()))
        sha256 |= {comparison.SHIPPED: shipped.hash_of(out / name / comparison.SHIPPED)}
        return card | {"sha256": sha256, "scores": scores_of(one, folder)}


def pack_run(run: Path, target: Path, texts: Path, dtype: str = "float16") -> dict[str, str]:
    """Write a run for shipping: weights as `dtype`, and no folder of the machine it was made on, where its `texts` lie.

    Returns the sha256 of each file.
    """
    target.mkdir(parents=True, exist_ok=True)
    arrays, facts = map_arrays(run / shipped.WEIGHTS)
    write_arrays(target / shipped.WEIGHTS, narrowed(arrays, dtype), facts)
    names = [name for name in FILES if (run / name).is_file()]
    for name in names:
        if name != shipped.WEIGHTS:
            content = (run / name).read_text(encoding="utf-8")
            content = thin(content) if name == LOG else content
            write_text(target / name, content.replace(f"{texts.absolute().as_posix()}/", shipped.TEXTS))
    return {name: shipped.hash_of(target / name) for name in names}


def thin(log: str) -> str:
    """A log with at most `STEPS` of its steps, evenly spread: enough for a curve, a tenth of the bytes."""
    lines = log.splitlines(keepends=True)
    steps = [at for at, line in enumerate(lines) if json.loads(line).get("event") == "step"]
    kept = {steps[round(at)] for at in np.linspace(0, len(steps) - 1, min(STEPS, len(steps)))} if steps else set()
    return "".join(line for at, line in enumerate(lines) if at in kept or at not in set(steps))


UnitScore = list[str | float]
"""A unit, its AUC or correlation on text it was not chosen on, and that of the control."""
_CHARACTERS = 100_000
"""Of the held-out Python code."""


def scores_of(one: models.Ready, folder: Path) -> Table:
    """The scores of a ready language model, and for each property the AUC or correlation of its best unit."""
    lm = load_language_model(folder / one.name)
    scores: Table = {}
    if one.source == models.SENTENCES_NAME:
        scores = _sentence_scores(lm, folder)
    else:
        text = resolve(models.LETTERS_TEXT).parts["text"].text()[:_CHARACTERS]
        scores["bits_per_character"] = round(lm.score(Source.of_text(text)).bits_per_char, 4)
    if one.kind in models.HAVE_UNITS:
        scores["units"] = _unit_scores(one, lm, folder)
    return scores


def _sentence_scores(lm: LanguageModel, folder: Path) -> dict[str, float]:
    test = models.sentences(folder)["test"]
    known = list(read_sentences(test.with_suffix(".jsonl")))
    agreement = measure_agreement(lm.model, lm.tokenizer, known, context=lm.config["text"]["context"])
    return {
        "perplexity": round(lm.score(test).perplexity, 3),
        "agreement": round(100 * agreement.overall.accuracy, 2),
        "agreement_far": round(100 * agreement.between(*shipped.FAR).accuracy, 2),
    }


def _unit_scores(one: models.Ready, lm: LanguageModel, folder: Path) -> dict[str, UnitScore]:
    """For each property: the unit, its figure on the half it was not chosen on, and the control's."""
    if one.source == models.SENTENCES_NAME:
        units = models.search_number(lm, folder)
        rows = {"number": (units["unit"][0], units["held_out"][0], units["control"].max())}
    else:
        units = models.search_letters(lm)
        columns = (units["unit"][:, 0], units["held_out"][:, 0], units["control"])
        rows = dict(zip(units["property"].tolist(), zip(*columns, strict=True), strict=True))
    return {
        name: [str(unit), round(float(figure), 3), round(float(luck), 3)] for name, (unit, figure, luck) in rows.items()
    }


def task_scores_of(one: tasks.ReadyTask, folder: Path) -> dict[str, float]:
    """The scores of a ready task model on its test examples: plain numbers alone."""
    model = load_task(folder / tasks.TASKS / one.name)
    facts = model.score(tasks.examples(folder, one, "test")).as_dict()
    return {name: round(value, 4) for name, value in facts.items() if isinstance(value, float) and math.isfinite(value)}


def _inside(name: str) -> str:
    """The folder of a model within that of all."""
    return tasks.TASKS if isinstance(BY_NAME[name], tasks.ReadyTask) else "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--processes", type=int, default=1, help="trainings at the same time, one thread each")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--work", type=Path, default=cache_folder() / "ready-models")
    parser.add_argument("--out", type=Path, default=shipped.weights_folder())
    parser.add_argument("--measure", action="store_true", help="train nothing: score what lies in --out again")
    given = parser.parse_args()
    work = given.work.absolute()
    models.sentences(work)
    path = given.out / shipped.CARDS
    every = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        if given.measure:
            cards = pool.starmap(measure, [(name, work, given.out, every[name]) for name in given.only], chunksize=1)
        else:
            for sentence in pool.starmap(make, [(name, work, given.device) for name in given.only], chunksize=1):
                print(sentence, flush=True)
            cards = pool.starmap(pack, [(name, work, given.out) for name in given.only], chunksize=1)
    every |= dict(zip(given.only, cards, strict=True))
    ordered = {name: every[name] for name in NAMES if name in every}
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, card in ordered.items():
        size = (given.out / name / shipped.WEIGHTS).stat().st_size
        print(f"{name:14} {size / 1000:7.0f} kB  {json.dumps(card['scores'])}")


if __name__ == "__main__":
    main()
