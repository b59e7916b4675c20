"""Writes the run folders of this directory. Made once, by the code of run folders of format 1 as it was before those of
language models and of tasks were joined in one room; not to be run again: what lies here is what users have.

    cd tests && python -m old_runs.make

The texts are drawn from seeds. Each kind of model and each task is trained twice with the same settings: once to its
end (`finished`), once stopped at a step of its own (`halfway`); `minlstm` and `classify` where no checkpoint was due,
so that theirs remembers an earlier one; `window`, `tag` and `translate-transformer` before their first validation, so
that there are no weights yet. `expected.json` says what each of them says. What is near a tie is refused: answers, and
scores that count answers, must stay what they are when every weight is changed by a ten-thousandth.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STEPS: dict[str, Any] = {"log_every": 30, "checkpoint_every": 10, "validate_every": 40, "device": "cpu"}
WORDS: dict[str, Any] = {**STEPS, "tokens": "word", "min_count": 1, "batch": 4, "steps": 8, "epochs": 2, "rate": 0.05}
SMALL = {"hidden": 4, "layers": 1}
TASK: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.03, "dropout": 0.1}
PAIRS: dict[str, Any] = {**TASK, "epochs": 16, "layers": 1, "tokens": "word", "min_count": 1}
SGD: dict[str, Any] = {"optimizer": "sgd", "rate": 2.0}
NOISE = 1e-4
COUNTED = {"tag": "accuracy", "classify": "accuracy", "classify-series": "accuracy", "translate": "words"}
COUNTED |= {"video": "size", "act": "caught"}
"""Figures of scores that count answers, by task."""


@dataclass(frozen=True)
class Made:
    """A run: what it learns from and how, and the step at which it is stopped; None where it has no steps."""

    source: str
    options: dict[str, Any]
    stop: int | None
    model: str | None = None
    task: str | None = None


RUNS = {
    "ngram": Made("book.txt", {"tokens": "word", "order": 2, "min_count": 1}, None, "ngram"),
    "average": Made("book.txt", {**WORDS, "embed": 4, "window": 4, **SGD}, 40, "average"),
    "window": Made("book.txt", {**WORDS, **SGD, "embed": 4, "hidden": 6, "window": 3}, 10, "window"),
    "rnn": Made("book.txt", {**WORDS, **SMALL, "batching": "lines", "steps": 12}, 40, "rnn"),
    "gru": Made("book.txt", {**WORDS, **SMALL, **SGD, "batching": "partition"}, 40, "gru"),
    "lstm": Made("book.txt", {**WORDS, **SMALL, "weight_drop": 0.2}, 40, "lstm"),
    "awd-lstm": Made("book.txt", {**WORDS, "sizes": (4, 4), "embed": 4, "rate": 8.0, "nonmono": 1}, 40, "awd-lstm"),
    "mingru": Made("book.txt", {**WORDS, **SMALL, **SGD, "tokens": "char", "batch": 8, "steps": 16}, 40, "mingru"),
    "minlstm": Made("book.txt", {**WORDS, **SMALL, **SGD}, 47, "minlstm"),
    "transformer": Made("book.txt", {**WORDS, **SMALL, **SGD, "rate": 1.0, "heads": 2, "inner": 2}, 40, "transformer"),
    "tag": Made(
        "tags.tsv",
        {**TASK, "embed": 4, "hidden": 3, "layers": 1, "letters": "cnn", "letter_embed": 3, "letter_hidden": 2},
        10,
        task="tag",
    ),
    "classify": Made("labels.tsv", {**TASK, **SGD, "embed": 4, "hidden": 4, "epochs": 8}, 47, task="classify"),
    "fill": Made("sounds.txt", {**TASK, "embed": 4, "hidden": 4, "epochs": 20}, 80, task="fill"),
    "translate-recurrent": Made("pairs.tsv", {**PAIRS, **SGD, "hidden": 4, "embed": 4}, 180, task="translate"),
    "translate-transformer": Made(
        "pairs.tsv",
        {**PAIRS, **SGD, "rate": 0.3, "epochs": 6, "model": "transformer", "hidden": 4, "heads": 2, "feedforward": 4},
        30,
        task="translate",
    ),
}


def write_texts(folder: Path) -> None:
    """What all of them learn from, and a text to score."""
    folder.mkdir()
    draw = random.Random(18)

    def sentence() -> str:
        who, other = (
            f"{draw.choice(('the', 'a'))} {draw.choice(('old', 'small', 'wise'))} {animal}" for animal in two()
        )
        return f"{who} {draw.choice(('saw', 'heard', 'met'))} {other} {draw.choice(('', 'and slept ', 'at noon '))}."

    def two() -> list[str]:
        return [draw.choice(("cat", "dog", "horse", "cow", "bird")) for _ in range(2)]

    def rows(name: str, count: int, row: Callable[[], str], between: str = "\n") -> None:
        (folder / name).write_text(between.join(row() for _ in range(count)) + "\n", encoding="utf-8")

    tags = {"the": "DET", "a": "DET", "walks": "VERB", "Walks": "NAME", "sings": "VERB", "dog7": "CODE", "cat4": "CODE"}
    tags |= {"Ann": "NAME", "Bo": "NAME", "singing": "NOUN", "walking": "NOUN"}

    def labelled() -> str:
        words = [draw.choice(("the", "film", "was", "we", "saw", "at", "noon")) for _ in range(draw.randint(1, 5))]
        words.insert(draw.randint(0, len(words)), word := draw.choice(("gripping", "dull")))
        return f"{' '.join(words)}\t{'good' if word == 'gripping' else 'bad'}"

    def sounds() -> str:
        made = {"purred": "cat", "barked": "dog", "neighed": "horse", "mooed": "cow"}
        return " and ".join(f"the {made[verb]} {verb}" for verb in draw.choices(list(made), k=draw.randint(1, 3)))

    def pair() -> str:
        letters = draw.choices("abcd", k=draw.randint(1, 3))
        return f"{' '.join(letters)}\t{' '.join(letters[::-1])}"

    rows("book.txt", 110, sentence)
    rows("other.txt", 20, sentence)
    words = lambda: "\n".join(f"{w}\t{tags[w]}" for w in draw.choices(list(tags), k=draw.randint(2, 6)))  # noqa: E731
    rows("tags.tsv", 60, words, "\n\n")
    rows("labels.tsv", 70, labelled)
    rows("sounds.txt", 50, sounds)
    rows("pairs.tsv", 120, pair)


def train(made: Made, run: Path) -> Any:
    """By the door of those days."""
    import thereafter

    if made.task is None:
        return thereafter.train(made.source, model=made.model or "", out=run, **made.options)
    return thereafter.train(made.source, task=made.task, out=run, **made.options)


@contextmanager
def stopping(step: int | None) -> Iterator[None]:
    """Inside the block Ctrl-C is hit when a training has taken so many steps."""
    from stops import stopping_at

    try:
        with stopping_at(step or 0):
            yield
    except KeyboardInterrupt:
        pass
    else:
        raise RuntimeError(f"it was over before step {step}")


def steady(model: Any, task: str | None, said: Callable[[], object]) -> None:
    """RuntimeError where what a model says is near a tie."""
    import torch

    net = model.model if task is None else model.net
    if not isinstance(net, torch.nn.Module):
        return
    before, given = {name: tensor.clone() for name, tensor in net.state_dict().items()}, said()
    for seed in range(8):
        torch.manual_seed(seed)
        net.load_state_dict({name: tensor * (1 + NOISE * torch.randn_like(tensor)) for name, tensor in before.items()})
        if (other := said()) != given:
            raise RuntimeError(f"near a tie: {given} or {other}")
    net.load_state_dict(before)


def store(run: Path, folder: Path, texts: Path, place: str) -> None:
    """Keep a run, without the paths of the machine it was trained on."""
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns(".lock"))
    config = folder / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace(str(texts), place), encoding="utf-8")
    for path in folder.iterdir():
        if str(texts.parent).encode() in path.read_bytes():
            raise RuntimeError(f"{path} names a path of this machine")


def make(name: str, made: Made, work: Path) -> dict[str, Any]:
    """Train and store both runs; what they are expected to say."""
    from test_old_runs import PLACE, answers, figures, opened, resumed

    whole, broken, texts = work / name / "whole", work / name / "broken", Path.cwd()
    model = train(made, whole)
    store(whole, HERE / name / "finished", texts, PLACE)
    expected: dict[str, Any] = {"task": made.task, "model": made.model or made.options.get("model")}
    expected["finished"] = {"figures": figures(model, made.task), "answers": answers(model, made.task)}

    def said() -> tuple[list[str], float | None]:
        counted = figures(model, made.task).get(COUNTED.get(made.task or "", ""))
        return answers(model, made.task), counted

    steady(model, made.task, said)
    if made.stop is None:
        return expected
    end = model.log[-1]
    expected |= {"steps": end["steps"], "validation": end["validation"]}
    expected["logged"] = [line["step"] for line in model.log if line["event"] == "step"]
    with stopping(made.stop):
        train(made, broken)
    store(broken, HERE / name / "halfway", texts, PLACE)
    early = opened(broken) if (broken / "weights.safetensors").is_file() else None
    expected["halfway"] = {"step": made.stop, "figures": None if early is None else figures(early, made.task)}
    resumed(broken)
    if (whole / "weights.safetensors").read_bytes() != (broken / "weights.safetensors").read_bytes():
        raise RuntimeError(f"{name} has other weights where it was stopped on its way")
    return expected


def shortened(value: Any) -> Any:
    """Numbers with as many digits as are looked at."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    return {name: shortened(one) for name, one in value.items()} if isinstance(value, dict) else value


def add_runs(runs: Mapping[str, Made]) -> None:
    """Makes these beside those that are there, and notes what they answer; their texts are written before."""
    import tempfile

    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        os.environ["THEREAFTER_CACHE"] = f"{work}/cache"
        os.chdir(HERE / "texts")
        made = {name: make(name, one, Path(work)) for name, one in runs.items()}
    path = HERE / "expected.json"
    expected = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(expected | shortened(made), indent=1) + "\n", encoding="utf-8")


def main() -> None:
    import tempfile

    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        os.environ["THEREAFTER_CACHE"] = f"{work}/cache"
        write_texts(HERE / "texts")
        os.chdir(HERE / "texts")
        (HERE / "expected.json").write_text("{}", encoding="utf-8")  # what the test reads when it is imported
        expected = {name: make(name, made, Path(work)) for name, made in RUNS.items()}
    (HERE / "expected.json").write_text(json.dumps(shortened(expected), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
