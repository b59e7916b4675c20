"""Makes the weights that ship with the package: trains every ready model, rounds it to float16, scores it, packs it.

    python examples/ready_models.py                       # all, one after the other
    python examples/ready_models.py --only lstm letters --processes 2 --device cpu

Everything is made from the built-in corpora and by the recipes in `thereafter.ready`. What was trained is kept in
`--work` and gone on with after a stop. `cards.json` gets for each model its recipe, the sha256 of its files, its scores
on text that no training has seen, and on what machine it was made. The n-gram model does not ship: counting takes less
time than reading it would.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from thereafter.folders import cache_folder
from thereafter.ready import models, scores, shipped, tasks
from thereafter.storage import write_text

MODELS = [one for one in models.READY if one.kind != "ngram"]
NAMES = [one.name for one in (*MODELS, *tasks.READY_TASKS)]


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
    one = next(one for one in (*MODELS, *tasks.READY_TASKS) if one.name == name)
    inside = tasks.TASKS if isinstance(one, tasks.ReadyTask) else "."
    run = work / inside / name
    sha256 = shipped.pack(run, out / name, work / "texts")
    card = {"recipe": one.recipe, "sha256": sha256, "made": json.loads(_made(work, name).read_text(encoding="utf-8"))}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "texts").symlink_to(work / "texts")
        shipped.restore(out / name, sha256, folder / inside / name, work / "texts")
        card["scores"] = (
            scores.measure_task(one, folder) if isinstance(one, tasks.ReadyTask) else scores.measure(one, folder)
        )
    return card


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--processes", type=int, default=1, help="trainings at the same time, one thread each")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--work", type=Path, default=cache_folder() / "ready-models")
    parser.add_argument("--out", type=Path, default=shipped.weights_folder())
    given = parser.parse_args()
    work = given.work.absolute()
    models.sentences(work)
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        for sentence in pool.starmap(make, [(name, work, given.device) for name in given.only], chunksize=1):
            print(sentence, flush=True)
        cards = pool.starmap(pack, [(name, work, given.out) for name in given.only], chunksize=1)
    path = given.out / shipped.CARDS
    every = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    every |= dict(zip(given.only, cards, strict=True))
    ordered = {name: every[name] for name in NAMES if name in every}
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, card in ordered.items():
        size = (given.out / name / shipped.WEIGHTS).stat().st_size
        print(f"{name:14} {size / 1000:7.0f} kB  {json.dumps(card['scores'])}")


if __name__ == "__main__":
    main()
