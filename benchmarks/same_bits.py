"""Whether two checkouts train to the same weights, to the last bit: every kind of model and every task, small.

    python benchmarks/same_bits.py [--only NAME ...]
    python benchmarks/same_bits.py --against CHECKOUT [--only NAME ...]

Trains with the package that is importable, one thread, fixed seeds, dropout on, texts drawn from a seed, and prints a
line for each training: its name, and the sha256 of its weights (names, types, shapes and bytes of all arrays that are
saved). Some are trained twice, the second time stopped on the way and resumed: that line must be the one of the first.

--against   Both checkouts, this one and CHECKOUT, each in a process of its own, and a table of what is equal. Exit code
            1 where anything differs. Bits can be compared on one machine only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LM: dict[str, Any] = {"tokens": "word", "min_count": 1, "batch": 4, "steps": 8, "epochs": 2, "hidden": 12}
LM |= {"dropout": 0.2, "log_every": 1, "validate_every": 40, "device": "cpu"}
NO_HIDDEN = {name: value for name, value in LM.items() if name != "hidden"}
SGD: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.9, "rate": 1.0}
LAYERS: dict[str, Any] = {**LM, "dropout_input": 0.1, "dropout_embed": 0.1, "dropout_hidden": 0.1, "layers": 2}
TASK: dict[str, Any] = {"hidden": 8, "embed": 8, "batch": 8, "epochs": 6, "dropout": 0.2, "log_every": 1}
TASK |= {"device": "cpu", "validate_every": 30}
PAIRS: dict[str, Any] = {**TASK, "tokens": "word", "min_count": 1}
RESUMED = " (resumed)"


@dataclass(frozen=True)
class Training:
    """A language model of the kind `model`, or a network of a `task`; `stop`: also stopped and resumed."""

    model: str = ""
    task: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    stop: bool = False


TRAININGS = {
    "ngram": Training("ngram", options={"tokens": "word", "order": 4}),
    "ngram, witten-bell, letters": Training("ngram", options={"tokens": "char", "smoothing": "witten-bell"}),
    "ngram, cutoffs, lines": Training("ngram", options={"tokens": "word", "cutoffs": (0, 0, 1), "context": "line"}),
    "average": Training("average", options={**NO_HIDDEN, "embed": 8, "window": 4}),
    "window": Training("window", options={**LM, "embed": 8, "window": 3, "direct": True}, stop=True),
    "rnn, lines": Training("rnn", options={**LAYERS, "batching": "lines", "steps": 12, "weight_drop": 0.2}),
    "gru, pieces": Training("gru", options={**LAYERS, "batching": "partition"}),
    "gru, bfloat16": Training("gru", options={**LM, "layers": 1, "precision": "bfloat16"}),
    "lstm": Training("lstm", options={**LAYERS, "weight_drop": 0.2}, stop=True),
    "lstm, adaptive, sgd": Training(
        "lstm",
        options={
            **LM,
            "layers": 1,
            "head": "adaptive",
            "cutoffs": (8, 16),
            "optimizer": "sgd",
            "momentum": 0.9,
            "rate": 1.0,
        },
    ),
    "lstm, peephole, norm": Training("lstm", options={**LAYERS, "peephole": True, "layer_norm": True, "jitter": True}),
    "awd-lstm": Training(
        "awd-lstm",
        options={**NO_HIDDEN, "sizes": (10, 10, 8), "nonmono": 1},
        stop=True,
    ),
    "mingru, letters": Training("mingru", options={**LAYERS, "tokens": "char", "batch": 8, "steps": 16}),
    "minlstm, residual": Training("minlstm", options={**LAYERS, "connect": "residual"}),
    "transformer": Training("transformer", options={**LM, "layers": 2, "heads": 2, "context": 16}, stop=True),
    "tag": Training(task="tag", options={**TASK, "letter_embed": 4, "letter_hidden": 4}, stop=True),
    "tag, crf": Training(task="tag", options={**TASK, "crf": True, "letters": "cnn", "letter_hidden": 4}),
    "classify": Training(task="classify", options=TASK, stop=True),
    "classify, attention": Training(task="classify", options={**TASK, "encoder": "gru", "pooling": "attention"}),
    "classify, cnn": Training(task="classify", options={**TASK, "encoder": "cnn"}),
    "fill": Training(task="fill", options=TASK, stop=True),
    "fill, left": Training(task="fill", options={**TASK, "sides": "left", "cell": "gru"}),
    "translate": Training(
        task="translate",
        options={**PAIRS, "drop_words": 0.1, "own_words": 0.3, "own_words_schedule": "linear"},
        stop=True,
    ),
    "translate, no attention": Training(
        task="translate", options={**PAIRS, "attention": "none", "cell": "lstm", "reverse": True, "layers": 2}
    ),
    "translate, transformer": Training(
        task="translate",
        # in full: `model` is also what the kind of a language model is called
        options={**PAIRS, "translate.model": "transformer", "heads": 2, "layers": 2, "shared": True},
        stop=True,
    ),
}
STOP_AFTER = 20  # steps, or some more: it is stopped from outside


def train(training: Training, source: Path, out: Path) -> None:
    """By whichever door the package has."""
    import thereafter

    if not training.task:
        thereafter.train(source, model=training.model, out=out, **training.options)
    elif hasattr(thereafter, "fit"):
        thereafter.fit(training.task, source, out=out, **training.options)
    else:
        thereafter.train(source, task=training.task, out=out, **training.options)


def resume(training: Training, run: Path) -> None:
    """By whichever door the package has."""
    import thereafter

    if training.task and hasattr(thereafter, "fit"):
        thereafter.resume_task(run)
    else:
        thereafter.resume(run)


def write_texts(folder: Path) -> dict[str, Path]:
    """What there is to learn, by task; "" is that of language models."""
    draw = random.Random(18)
    words = [f"{first}{rest}" for first in "bdklmst" for rest in ("a", "emo", "ing", "u7")]
    lines = (" ".join(draw.choices(words, range(len(words), 0, -1), k=draw.randint(4, 12))) for _ in range(200))
    rows = [draw.choices(words, k=draw.randint(1, 7)) for _ in range(120)]
    texts = {
        "": "\n".join(lines),
        "tag": "\n\n".join("\n".join(f"{word}\t{word[1]}" for word in row) for row in rows),
        "classify": "\n".join(f"{' '.join(row)}\t{'odd' if row.count('ba') % 2 else row[0][0]}" for row in rows),
        "fill": "\n".join(" ".join(row) for row in rows),
        "translate": "\n".join(f"{' '.join(row)}\t{' '.join(row[::-1])}" for row in rows),
    }
    paths = {task: folder / f"{task or 'text'}.{'txt' if task in ('', 'fill') else 'tsv'}" for task in texts}
    for task, text in texts.items():
        paths[task].write_text(text + "\n", encoding="utf-8")
    return paths


def weights_hash(run: Path) -> str:
    """sha256 of all that a run's weights are."""
    from safetensors.numpy import load_file

    digest = hashlib.sha256()
    for name, array in sorted(load_file(run / "weights.safetensors").items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()


def train_and_stop(training: Training, source: Path, run: Path) -> None:
    """Train until somebody hits Ctrl-C after some steps."""
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            if (run / "log.jsonl").is_file() and (run / "log.jsonl").read_bytes().count(b"\n") > STOP_AFTER:
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        train(training, source, run)
    except KeyboardInterrupt:
        pass
    finally:
        over.set()
        watcher.join()
    if not (run / "state.safetensors").is_file():
        raise RuntimeError(f"{run.name} could not be stopped on its way: it was over before")


def print_hashes(only: list[str], of: Path | None) -> int:
    """Train all of it with the package that is importable, which must be that of the checkout `of`, where one is."""
    import torch

    import thereafter

    if of is not None and not Path(thereafter.__file__).resolve().is_relative_to(of.resolve()):
        raise RuntimeError(f"{thereafter.__file__} was imported, and not the package of {of}")
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    with tempfile.TemporaryDirectory() as folder:
        sources = write_texts(Path(folder))
        for number, name in enumerate(only):
            training, run = TRAININGS[name], Path(folder) / f"run-{number}"
            train(training, sources[training.task], run)
            print(f"{name}\t{weights_hash(run)}", flush=True)
            if training.stop:
                broken = run.with_name(f"{run.name}-stopped")
                train_and_stop(training, sources[training.task], broken)
                resume(training, broken)
                print(f"{name}{RESUMED}\t{weights_hash(broken)}", flush=True)
    return 0


def compare(here: Path, other: Path, only: list[str]) -> int:
    """Both checkouts at once, each in a process of its own."""
    chosen = [word for name in only for word in ("--only", name)]
    for checkout in (here, other):
        if not (checkout / "src" / "thereafter" / "__init__.py").is_file():
            print(f"{checkout} is no checkout: it has no src/thereafter; try the folder above src", file=sys.stderr)
            return 2
    started = []
    for checkout in (here, other):
        command = [sys.executable, __file__, "--of", str(checkout), *chosen]
        env = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    ours: dict[str, str] = {}
    theirs: dict[str, str] = {}
    for process, hashes in zip(started, (ours, theirs), strict=True):
        out, _ = process.communicate()
        hashes.update(line.rsplit("\t", 1) for line in out.splitlines())
    failed = any(process.returncode for process in started)
    print(f"{'training':<36} {here.name[:16]:<16} {other.name[:16]:<16}")
    for name in dict.fromkeys([*ours, *theirs]):
        pair = [hashes.get(name, "missing") for hashes in (ours, theirs)]
        whole = [hashes.get(name.removesuffix(RESUMED), "missing") for hashes in (ours, theirs)]
        said = "different" if pair[0] != pair[1] else "equal" if pair == whole else "equal, but not as never stopped"
        failed |= said != "equal"
        print(f"{name:<36} {pair[0][:16]:<16} {pair[1][:16]:<16} {said}")
    return int(failed)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", type=Path, metavar="CHECKOUT")
    options.add_argument("--only", action="append", choices=list(TRAININGS), metavar="NAME")
    options.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    only = given.only or list(TRAININGS)
    if given.against is None:
        return print_hashes(only, given.of)
    return compare(Path(__file__).resolve().parents[1], given.against.resolve(), only)


if __name__ == "__main__":
    sys.exit(main())
