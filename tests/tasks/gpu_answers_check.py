"""Answers on a GPU equal those on a CPU: every task, every kind of language model. Needs torch, numpy and a GPU.

    PYTHONPATH=src:tests/kernels python -W ignore tests/tasks/gpu_answers_check.py [DEVICE]

1. Every task and every kind of model is trained for a few steps on the CPU and loaded on both devices. Answers must be
   equal, numbers to 1e-4: predict, explain, score; next, score, surprisal, greedy and beam search, rank; with a cache,
   with dynamic evaluation, in a mixture with an n-gram.
2. Every task is trained for a few steps on the GPU: it answers there, and after being saved the same on the CPU.

DEVICE is cuda unless another is named. One line a check, with the largest difference of a number; exit status 1 where
something is wrong.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import math
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import thereafter
from thereafter.base.kinds import KINDS
from thereafter.language_model import LanguageModel
from thereafter.task_model import TaskModel
from thereafter.tasks import TASKS, answering
from thereafter.vision.acting.game import CatchRule
from thereafter.vision.clips.moving import MovingRule
from thereafter.vision.pictures.glyphs import ClutterRule

CLOSE = 1e-4
SMALL: dict[str, Any] = {"hidden": 16, "epochs": 2, "batch": 8, "rate": 0.01, "seed": 1}
_PICTURES = ClutterRule(count=48, size=29, pieces=1)


class Different(Exception):
    """Two answers that are not the same; says where."""


def difference(one: object, other: object, where: str = "") -> float:
    """The largest relative difference of two numbers in two answers; `Different` where anything else differs."""
    if dataclasses.is_dataclass(one) and not isinstance(one, type) and type(one) is type(other):
        return difference(vars(one) if hasattr(one, "__dict__") else dataclasses.asdict(one), _fields(other), where)
    if isinstance(one, np.ndarray | torch.Tensor):
        a, b = (np.asarray(each.cpu() if isinstance(each, torch.Tensor) else each) for each in (one, other))
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            raise Different(f"{where}: {a.shape} of {a.dtype} and {b.shape} of {b.dtype}")
        if a.dtype.kind not in "fc":
            if a.dtype.kind == "u" and a.size and np.abs(a.astype(int) - b.astype(int)).max() <= 1:
                return 0.0  # pixels that are rounded
            if not np.array_equal(a, b):
                raise Different(f"{where}: {int((a != b).sum())} of {a.size} entries differ")
            return 0.0
        worst = np.nan_to_num(np.abs(a - b) / np.maximum(1.0, np.abs(a)), nan=0.0)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            raise Different(f"{where}: not finite in one of them")
        return _near(float(worst[np.isfinite(a)].max(initial=0.0)), where)
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isinf(one):
            return 0.0 if repr(one) == repr(other) else _differ(one, other, where)
        return _near(abs(one - other) / max(1.0, abs(one)), where)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if one.keys() != other.keys():
            _differ(sorted(map(str, one)), sorted(map(str, other)), where)
        return max((difference(one[key], other[key], f"{where}.{key}") for key in one), default=0.0)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            _differ(len(one), len(other), f"{where} length")
        pairs = enumerate(zip(one, other, strict=True))
        return max((difference(a, b, f"{where}[{at}]") for at, (a, b) in pairs), default=0.0)
    if (
        type(one) is type(other)
        and hasattr(one, "__dict__")
        and not callable(one)
        and type(one).__eq__ is object.__eq__
    ):
        return difference(vars(one), vars(other), where)
    return 0.0 if one == other else _differ(one, other, where)


def _fields(value: object) -> Mapping[str, object]:
    return vars(value) if hasattr(value, "__dict__") else dataclasses.asdict(value)  # type: ignore[call-overload]


def _near(worst: float, where: str) -> float:
    if worst > CLOSE:
        raise Different(f"{where}: numbers differ by {worst:.2g}")
    return worst


def _differ(one: object, other: object, where: str) -> float:
    raise Different(f"{where}: {str(one)[:120]} and {str(other)[:120]}")


# ---- examples, made here: no package but numpy is needed


def _words(path: Path, draw: random.Random) -> Path:
    animals = {"cat": "purred", "dog": "barked", "horse": "neighed", "cow": "mooed"}
    lines = (" and ".join(f"the {one} {animals[one]}" for one in draw.sample(list(animals), 2)) for _ in range(120))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _tagged(path: Path, draw: random.Random) -> Path:
    stems = ["".join(draw.choice("abdeklmostu") for _ in range(draw.randint(2, 4))) for _ in range(90)]
    rows = ([draw.choice(stems) + draw.choice(("", "ing", "7")) for _ in range(draw.randint(1, 9))] for _ in range(60))
    tag = {"g": "ING", "7": "NUM"}
    text = "\n\n".join("\n".join(f"{word}\t{tag.get(word[-1], 'LOW')}" for word in row) for row in rows)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _labelled(path: Path, draw: random.Random) -> Path:
    words = ("the", "film", "was", "one", "we", "saw", "gripping", "dull")
    rows = ([draw.choice(words) for _ in range(draw.randint(2, 9))] for _ in range(60))
    text = "".join(f"{' '.join(row)}\t{'good' if 'gripping' in row else 'bad'}\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def _labelled_series(path: Path, draw: random.Random) -> Path:
    rows = []
    for number in range(60):
        slope = 1 if number % 2 else -1
        values = (f"{slope * step / 9 + draw.uniform(-0.2, 0.2):.3f}" for step in range(8 + number % 5))
        rows.append("\t".join(["up" if slope > 0 else "down", *values]))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _pairs(path: Path, draw: random.Random) -> Path:
    rows = ([draw.choice("abdeklm") for _ in range(draw.randint(1, 7))] for _ in range(80))
    path.write_text("".join(f"{' '.join(row)}\t{' '.join(row[::-1])}\n" for row in rows), encoding="utf-8")
    return path


def _season(path: Path, draw: random.Random) -> Path:
    path = path.with_suffix(".csv")
    rows = (
        f"2024-{1 + day // 28:02}-{1 + day % 28:02},{math.sin(day / 3) + draw.gauss(0, 0.1):.4f}" for day in range(200)
    )
    path.write_text("day,value\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def _pictures(path: Path, draw: random.Random) -> Path:
    path = path.with_suffix(".json")
    path.write_text(_PICTURES.to_json(), encoding="utf-8")
    return path


def _captioned(path: Path, draw: random.Random) -> Path:
    folder = path.with_suffix("")
    folder.mkdir()
    pixels, lines = np.zeros((40, 24, 24, 3), np.uint8), []
    for number in range(40):
        colour, side = draw.randrange(3), draw.choice(("left", "right"))
        begin = 2 if side == "left" else 14
        pixels[number, 6:18, begin : begin + 8, colour] = draw.randint(150, 255)
        lines.append(f"p{number:02}.png\ta {('red', 'green', 'blue')[colour]} square on the {side}")
    np.savez(folder / "pictures.npz", pixels=pixels, names=np.array([f"p{number:02}.png" for number in range(40)]))
    (folder / "captions.tsv").write_text("image\tcaption\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _clips(path: Path, draw: random.Random, *, labels: bool = True) -> Path:
    path, frames, ways = path.with_suffix(".npz"), np.zeros((40, 6, 12, 12), np.uint8), []
    for number in range(40):
        way = draw.choice("EN")
        first = np.zeros((12, 12), np.uint8)
        first[3:6, 3:6] = 220
        for step in range(6):
            frames[number, step] = np.roll(first, (0, step) if way == "E" else (-step, 0), (0, 1))
        ways.append(way)
    np.savez(path, frames=frames, **({"way": np.array(ways)} if labels else {}))
    return path


def _moving(path: Path, draw: random.Random) -> Path:
    path = path.with_suffix(".json")
    path.write_text(MovingRule(count=24, frames=6, size=40, digits=1).to_json(), encoding="utf-8")
    return path


def _games(path: Path, draw: random.Random) -> Path:
    path = path.with_suffix(".json")
    path.write_text(CatchRule(size=8, count=60).to_json(), encoding="utf-8")
    return path


Write = Callable[[Path, random.Random], Path]
CASES: dict[str, list[tuple[str, Write, dict[str, Any]]]] = {
    "tag": [
        ("softmax", _tagged, {"crf": False}),
        ("crf", _tagged, {"crf": True}),
    ],
    "classify": [
        ("last", _labelled, {"embed": 8}),
        ("attention", _labelled, {"embed": 8, "pooling": "attention"}),
    ],
    "classify-series": [("", _labelled_series, {})],
    "classify-pictures": [("", _pictures, {"encoder": "lstm", "steps": 900})],
    "fill": [("", _words, {"embed": 8})],
    "translate": [
        ("recurrent", _pairs, {"embed": 8, "tokens": "word", "min_count": 1}),
        ("transformer", _pairs, {"model": "transformer", "tokens": "word", "min_count": 1, "heads": 2}),
    ],
    "caption": [("", _captioned, {"embed": 8, "width": 4, "stages": 2, "min_count": 1, "flip": False})],
    "forecast": [
        ("gru", _season, {"model": "gru", "lookback": 8, "horizon": 2, "season": 1, "split": "80/10/10"}),
        ("linear", _season, {"model": "linear", "lookback": 8, "horizon": 2, "season": 1, "split": "80/10/10"}),
        ("ar", _season, {"model": "ar", "lookback": 8, "horizon": 2, "season": 1, "split": "80/10/10"}),
    ],
    "glimpse": [("", _pictures, {"glimpses": 3, "patch": 4, "scales": 2, "read": 8, "samples": 2})],
    "video": [("", _clips, {"width": 4, "stages": 2})],
    "next-frames": [("", _moving, {"hidden": 4, "layers": 1, "kernel": 3})],
    "draw": [("", _pictures, {"latent": 4, "strokes": 3})],
    "act": [("", _games, {"patch": 3, "scales": 2, "read": 8})],
}


def examples_of(model: TaskModel, source: Path) -> list[object]:
    """A few examples of a source."""
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    return list(model.task.read(files)[:8])


def answers_of(model: TaskModel, source: Path) -> dict[str, object]:
    """What a trained task says of a few examples."""
    examples = examples_of(model, source)
    answers: dict[str, object] = {"predict": answering.answers(model, examples)}
    try:
        answers["explain"] = answering.explanations(model, examples)
    except (thereafter.errors.OptionError, NotImplementedError):
        answers["explain"] = None
    answers["score"] = model.score(source).as_dict()
    return answers


def check_task(task: str, name: str, write: Write, options: dict[str, Any], folder: Path, device: str) -> float:
    """Both parts of one task: the largest difference."""
    folder = folder / f"{task}-{name}"
    folder.mkdir()
    source = write(folder / "examples.tsv", random.Random(1))
    options = {**SMALL, **options}
    thereafter.train(source, task=task, device="cpu", out=folder / "run", **options)
    near, far = (thereafter.load(folder / "run", device=one) for one in ("cpu", device))
    assert isinstance(near, TaskModel)
    assert isinstance(far, TaskModel)
    if far.net.device.type != device:
        raise Different(f"loaded on {far.net.device}")
    worst = difference(answers_of(near, source), answers_of(far, source), task)
    trained = thereafter.train(source, task=task, device=device, out=folder / "there", **options)
    if trained.net.device.type != device:
        raise Different(f"trained on {device}, returned on {trained.net.device}")
    again = thereafter.load(folder / "there", device="cpu")
    assert isinstance(again, TaskModel)
    return max(worst, difference(answers_of(trained, source), answers_of(again, source), f"{task}, trained there"))


MODELS: dict[str, dict[str, Any]] = {
    "average": {"window": 4, "embed": 16},
    "window": {"window": 4, "hidden": 16, "embed": 16},
    "rnn": {"hidden": 16, "embed": 16},
    "gru": {"hidden": 16, "embed": 16},
    "lstm": {"hidden": 16, "embed": 16, "layers": 2},
    "awd-lstm": {"sizes": (16, 12), "embed": 12},
    "mingru": {"hidden": 16, "embed": 16},
    "minlstm": {"hidden": 16, "embed": 16},
    "transformer": {"hidden": 16, "layers": 2, "heads": 2, "context": 16},
}


def readings_of(lm: LanguageModel, text: str) -> dict[str, object]:
    """What a language model says of a text."""
    prompt = "the cat purred and the"
    return {
        "score": lm.score(text=text).nats,
        "next": lm.next(prompt, k=5),
        "surprisal": lm.surprisal(text=text[:400]).bits(0),
        "greedy": lm.generate(prompt, 20, temperature=0.0),
        "greedy in bfloat16": isinstance(lm.generate(prompt, 5, temperature=0.0, weights=None), str),
        "beams": lm.generate(prompt, 8, num_beams=3),
        "samples": len(lm.generate(prompt, 8, num_return_sequences=4, seed=1)),
        "stream": "".join(lm.stream_text(prompt, 12, temperature=0.0)),
        "rank": lm.rank(["the cat purred", "the cat mooed", "dog the"]),
        "cache": lm.score(text=text[:400], cache=True).nats,
    }


def check_model(kind: str, folder: Path, device: str) -> float:
    """A kind of language model on both devices: the largest difference."""
    folder = folder / f"model-{kind}"
    folder.mkdir()
    source = _words(folder / "text.txt", random.Random(1))
    text = source.read_text(encoding="utf-8")[:1500]
    options = {"tokens": "word", "epochs": 2, "batch": 8, "steps": 8, "seed": 1, "split": "95/5", **MODELS[kind]}
    thereafter.train(source, model=kind, device="cpu", out=folder / "run", **options)
    near, far = (thereafter.load(folder / "run", device=one) for one in ("cpu", device))
    assert isinstance(near, LanguageModel)
    assert isinstance(far, LanguageModel)
    if far.model.device.type != device:
        raise Different(f"loaded on {far.model.device}")
    worst = difference(readings_of(near, text), readings_of(far, text), kind)
    if kind in ("lstm", "transformer"):
        scores = [lm.score(text=text, dynamic={"rate": 0.01}).nats for lm in (near, far)]
        worst = max(worst, difference(*scores, "dynamic"))
        ngram = thereafter.train(source, tokens="word", split="95/5")
        mixed = [thereafter.mixture([lm, ngram]).score(text=text).nats for lm in (near, far)]
        worst = max(worst, difference(*mixed, "mixture"))
    trained = thereafter.train(source, model=kind, device=device, out=folder / "there", **options)
    again = thereafter.load(folder / "there", device="cpu")
    assert isinstance(again, LanguageModel)
    return max(worst, difference(trained.score(text=text).nats, again.score(text=text).nats, f"{kind}, trained there"))


def main() -> None:
    faulthandler.dump_traceback_later(170, exit=True)
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    checks: list[tuple[str, Callable[[Path], float]]] = []
    for task in TASKS:
        for name, write, options in CASES.get(task, []):
            title = f"{task} {name}".strip()
            checks.append((title, lambda f, t=task, n=name, w=write, o=options: check_task(t, n, w, o, f, device)))
    for kind in KINDS:
        if kind != "ngram":
            checks.append((f"language model {kind}", lambda f, k=kind: check_model(k, f, device)))
    failed = [f"{name}: no case here" for name in (set(TASKS) - set(CASES)) | (set(KINDS) - set(MODELS) - {"ngram"})]
    with tempfile.TemporaryDirectory() as folder:
        for title, check in checks:
            began = time.perf_counter()
            try:
                result = f"largest difference {check(Path(folder)):.1e}"
            except Exception as error:
                failed.append(title)
                place = traceback.extract_tb(error.__traceback__)[-1]
                result = f"FAILED {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            print(f"{title:28} {time.perf_counter() - began:6.1f} s  {result}", flush=True)  # noqa: T201
    print(json.dumps({"failed": failed}) if failed else "all passed")  # noqa: T201
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
