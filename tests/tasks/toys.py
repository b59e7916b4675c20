"""Small tasks that can be learned in seconds, as files."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import thereafter
from stops import stopping_at
from tasks import toy_captions, toy_clips, toy_pictures
from thereafter.runs.writer import read_snapshot
from thereafter.training.control import COUNTED
from thereafter.vision.acting.game import CatchRule

LETTERS = "abdeklmostu"
Shell = Callable[..., tuple[list[str], int]]
"""Runs a command: the lines it printed, and its exit code (the fixture `shell`)."""


def tag_of(word: str) -> str:
    """A tag that only the letters of a word can tell."""
    if word.endswith("ing"):
        return "ING"
    return "CAP" if word[0].isupper() else "NUM" if word[-1].isdigit() else "LOW"


def word_of(draw: random.Random) -> str:
    """A word that is met once or twice: its letters are all there is to go by."""
    stem = "".join(draw.choice(LETTERS) for _ in range(draw.randint(2, 4)))
    return draw.choice((stem, stem.title(), f"{stem}ing", f"{stem}{draw.randint(0, 9)}"))


def tagged(path: Path, sentences: int = 200, seed: int = 1) -> Path:
    """Sentences of words and the tags of `tag_of`, a word a line."""
    draw = random.Random(seed)
    rows = ([word_of(draw) for _ in range(draw.randint(1, 8))] for _ in range(sentences))
    text = "\n\n".join("\n".join(f"{word}\t{tag_of(word)}" for word in row) for row in rows)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def reversed_pairs(path: Path, pairs: int = 300, seed: int = 1, letters: str = LETTERS, longest: int = 7) -> Path:
    """Sequences of letters, and the same from the last to the first, with a tab between."""
    draw = random.Random(seed)
    rows = ([draw.choice(letters) for _ in range(draw.randint(1, longest))] for _ in range(pairs))
    path.write_text("".join(f"{' '.join(row)}\t{' '.join(row[::-1])}\n" for row in rows), encoding="utf-8")
    return path


FILLERS = ("the", "film", "was", "one", "we", "saw", "at", "noon")
KEYWORDS = ("gripping", "dull")


def parity_of(text: str) -> str:
    """Whether "not" is said an even or an odd number of times: no bag of words can tell, a state that turns can."""
    return ("even", "odd")[text.split().count("not") % 2]


def keyword_of(text: str) -> str:
    """Which of two words is there."""
    return "good" if KEYWORDS[0] in text.split() else "bad"


def labelled(path: Path, texts: int = 300, seed: int = 1, *, rule: str = "keyword", longest: int = 7) -> Path:
    """Texts with a label each, by `parity_of` or by `keyword_of`, as a tsv file."""
    draw = random.Random(seed)
    rows = []
    for _ in range(texts):
        if rule == "parity":
            words = [draw.choice(("not", "so")) for _ in range(draw.randint(1, longest))]
            rows.append(f"{' '.join(words)}\t{parity_of(' '.join(words))}")
        else:
            words = [draw.choice(FILLERS) for _ in range(draw.randint(0, longest - 1))]
            words.insert(draw.randint(0, len(words)), draw.choice(KEYWORDS))
            rows.append(f"{' '.join(words)}\t{keyword_of(' '.join(words))}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def labelled_series(path: Path, count: int = 60, seed: int = 1, *, shortest: int = 6, longest: int = 14) -> Path:
    """Noisy series that rise or fall, a row each: the label first, then the values, of several lengths."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        slope, length = draw.choice((-1, 1)), draw.randint(shortest, longest)
        values = [slope * step / length + draw.gauss(0, 0.2) for step in range(length)]
        rows.append("\t".join(["up" if slope > 0 else "down", *(f"{value:.4f}" for value in values)]))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def season(path: Path, windows: int = 40, seed: int = 1, *, lookback: int = 8, horizon: int = 2) -> Path:
    """A noisy wave, a row a day, as long as gives so many windows."""
    draw = random.Random(seed)
    first = datetime.date(2024, 1, 1)
    rows = [
        f"{first + datetime.timedelta(row)}\t{math.sin(row * math.pi / 4) + draw.gauss(0, 0.2):.4f}"
        for row in range(windows + lookback + horizon - 1)
    ]
    path.write_text("\n".join(["day\tvalue", *rows]) + "\n", encoding="utf-8")
    return path


ANIMALS = {"purred": "cat", "barked": "dog", "neighed": "horse", "mooed": "cow"}


def sentences(path: Path, lines: int = 300, seed: int = 1) -> Path:
    """Sentences in which a word is told by the word after it, and by nothing before it: the cat purred."""
    draw = random.Random(seed)
    rows = []
    for _ in range(lines):
        verbs = [draw.choice(list(ANIMALS)) for _ in range(draw.randint(1, 3))]
        rows.append(" and ".join(f"the {ANIMALS[verb]} {verb}" for verb in verbs))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def catch_rule(path: Path, count: int = 60, seed: int = 1) -> Path:
    """Games of catch on a screen of 6 x 6."""
    path = path.with_suffix(".json")
    path.write_text(CatchRule(size=6, count=count, seed=seed).to_json(), encoding="utf-8")
    return path


def assert_resumed_to_the_bit(
    run: Path, task: str, source: Any, step: int = 17, whole: thereafter.TaskModel | None = None, **options: Any
) -> None:
    """A training interrupted at a step and resumed has the weights of `whole`, which never was (else trained here)."""
    whole = whole or thereafter.train(source, task=task, **options)
    with stopping_at(step), pytest.raises(KeyboardInterrupt):
        thereafter.train(source, task=task, out=run, **options)
    assert read_snapshot(run / "state.safetensors", COUNTED).facts["at"]["step"] == step
    resumed = thereafter.resume(run)
    for name, weight in whole.net.state_dict().items():
        assert torch.equal(weight, resumed.net.state_dict()[name]), name
    assert thereafter.resume(run).log[-1]["event"] == "trained"


@dataclass(frozen=True)
class Toy:
    """A small case of a task. `write(path, count)` makes examples, `options` a small network. `questions` are of
    several lengths, `long` is longer than all of them. `damaged`: a file that the task refuses. `figure`: what a score
    says."""

    write: Callable[[Path, int], Path]
    options: Mapping[str, Any]
    questions: tuple[str, ...]
    long: str
    damaged: bytes
    figure: str


TOYS: dict[str, Toy] = {
    "tag": Toy(
        tagged,
        {"embed": 8, "letter_embed": 4, "letter_hidden": 4},
        ("abd Ko7 testing", "Mue", "late9 dok Tel soming abd"),
        " ".join(["Tale", "eating", "mud7"] * 12),
        b"cat\tN\ndog\n",
        r"accuracy [\d.]+ % \(\d+ of \d+ words\)",
    ),
    "classify": Toy(
        labelled,
        {"embed": 8},
        ("the film was gripping", "dull", "we saw one dull film at noon"),
        "the film was one we saw " * 10,
        b"a fine film\tgood\na film\n",
        r"accuracy [\d.]+ % \(\d+ of \d+\)",
    ),
    "classify-series": Toy(
        labelled_series,
        {},
        ("0.1 0.2 0.3 0.6", "0.5", "0.9, 0.7, 0.8, NaN, 0.4, 0.1, -0.2"),
        "0.3 0.1 0.2 " * 10,
        b"up\t1\t2\t3\t4\ndown\t1\tx\t3\t4\n",
        r"accuracy [\d.]+ % \(\d+ of \d+\)",
    ),
    "classify-pictures": Toy(
        toy_pictures.labelled_pictures,
        {},
        tuple(str(toy_pictures.SAVED / f"{name}.png") for name in toy_pictures.QUESTIONS[:3]),
        str(toy_pictures.SAVED / f"{toy_pictures.QUESTIONS[3]}.png"),
        b"image\tlabel\n1.png\n",
        r"accuracy [\d.]+ % \(\d+ of \d+\)",
    ),
    "glimpse": Toy(
        toy_pictures.labelled_pictures,
        {"glimpses": 3, "patch": 2, "scales": 2, "read": 8, "samples": 2, "size": 6},
        tuple(str(toy_pictures.SAVED / f"{name}.png") for name in toy_pictures.QUESTIONS[:3]),
        str(toy_pictures.SAVED / f"{toy_pictures.QUESTIONS[3]}.png"),
        b"image\tlabel\n1.png\n",
        r"accuracy [\d.]+ % \(\d+ of \d+\)",
    ),
    "fill": Toy(
        sentences,
        {"embed": 8},
        ("the ___ barked", "___", "the cat purred and the ___ mooed and the dog barked"),
        "the cat purred and " * 10 + "the ___ barked",
        b"the cat \xff purred\n",
        r"perplexity [\d.]+ over \d+ words",
    ),
    "caption": Toy(
        toy_captions.captioned,
        {"embed": 8, "width": 4, "stages": 2, "min_count": 1, "flip": False},
        tuple(str(toy_captions.SAVED / f"{name}.png") for name in toy_captions.QUESTIONS[:3]),
        str(toy_captions.SAVED / f"{toy_captions.QUESTIONS[3]}.png"),
        b"image\tcaption\n1.png\n",
        r"BLEU-4 [\d.]+, CIDEr-D [\d.]+ over \d+ pictures",
    ),
    "forecast": Toy(
        season,
        {"lookback": 8, "horizon": 2, "season": 1, "split": "80/10/10"},
        ("0.1 0.7 1 0.7 0 -0.7 -1 -0.7", "0.5", "0.9, 0.7, 0.8, 0.4, 0.1, -0.2, -0.5, -0.6, -0.4, 0.2"),
        "0.3 0.1 0.2 " * 10,
        b"day\tvalue\n2024-01-01\t1\n2024-01-02\tx\n2024-01-03\t2\n",
        r"\d+ windows of 2 steps, \d+ values",
    ),
    "video": Toy(
        toy_clips.labelled_clips,
        {"width": 4, "stages": 2},
        toy_clips.question_files()[:3],
        toy_clips.question_files()[3],
        b"PK\x03\x04 no archive",
        r"size [\d.]+ % \([\d.]+ to [\d.]+\), way [\d.]+ % .*, together [\d.]+ % .* of \d+ right",
    ),
    "next-frames": Toy(
        toy_clips.bare_clips,
        {"layers": 1, "kernel": 3, "patch": 2, "read": 4},
        toy_clips.question_files()[:3],
        toy_clips.question_files()[3],
        b"PK\x03\x04 no archive",
        r"[\d.]+ nats a frame \([\d.]+ to [\d.]+\), squared error [\d.]+; \d+ clips, 2 frames ahead",
    ),
    "draw": Toy(
        toy_pictures.bare_pictures,
        {"latent": 4, "strokes": 3, "write": 3},
        tuple(str(toy_pictures.SAVED / f"{name}.png") for name in toy_pictures.QUESTIONS[:3]),
        str(toy_pictures.SAVED / f"{toy_pictures.QUESTIONS[3]}.png"),
        b"image\tlabel\n1.png\n",
        r"[\d.]+ nats a picture \([\d.]+ to [\d.]+\), a bound: pixels [\d.]+, 3 strokes [\d.]+; \d+ pictures",
    ),
    "act": Toy(
        catch_rule,
        {"patch": 2, "scales": 2, "read": 8},
        ("17", "3:5", "1000"),
        "123:123456789",
        b'{"format": "catch", "size": 2}',
        r"caught [\d.]+ % \([\d.]+ to [\d.]+\) of \d+ games",
    ),
    "translate": Toy(
        reversed_pairs,
        {"embed": 8, "tokens": "word", "min_count": 1},
        ("a b d", "k", "l m o s t u"),
        "a b d e " * 10,
        b"a b\tb a\na\n",
        r"[\d.]+% exact, [\d.]+% of words in their places",
    ),
}
"""One for every task: `test_task_contract.py` holds them against what a task must do."""
