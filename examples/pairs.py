"""Summaries, answers and replies are translations with other pairs: one toy of each, learned in seconds on a CPU.

    python examples/pairs.py

Sentences are drawn from a few words by rule, and every tenth pair is kept from training. What is asked at the end was
not in it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import thereafter

NAMES = ("anna", "ben", "carla", "dan", "eva", "finn")
PLACES = ("garden", "kitchen", "office", "cellar", "attic")
THINGS = ("tea", "chess", "rain", "jazz", "soup", "trains")
COLOURS, DAYS = ("red", "old", "small", "cheap"), ("monday", "friday", "sunday")


def summary(draw: random.Random) -> tuple[str, str]:
    """A text, and what happened in it."""
    name, verb, thing = (
        draw.choice(NAMES),
        draw.choice(("sold", "bought", "lost")),
        draw.choice(("car", "house", "hat")),
    )
    start = f"on {draw.choice(DAYS)} " if draw.random() < 0.5 else ""
    text = f"{start}{name} {verb} a {draw.choice(COLOURS)} {thing} near the {draw.choice(PLACES)} ."
    return text, f"{name} {verb} a {thing} ."


def answer(draw: random.Random) -> tuple[str, str]:
    """A sentence with a question about it, and the answer."""
    name, place, day, thing = (
        draw.choice(NAMES),
        draw.choice(PLACES),
        draw.choice(DAYS),
        draw.choice(("hat", "book", "key")),
    )
    told = f"{name} found a {thing} in the {place} on {day} ."
    asked, said = draw.choice(
        (
            (f"where did {name} find it ?", f"in the {place} ."),
            (f"when did {name} find it ?", f"on {day} ."),
            (f"what did {name} find ?", f"a {thing} ."),
        )
    )
    return f"{told} {asked}", said


def reply(draw: random.Random) -> tuple[str, str]:
    """What one says, and what the other replies."""
    name, thing = draw.choice(NAMES), draw.choice(THINGS)
    return draw.choice(
        (
            (f"hello , i am {name} and i like {thing} .", f"hello {name} , why do you like {thing} ?"),
            (f"{name} does not like {thing} .", f"did {name} say why ? i like {thing} ."),
            (f"do you like {thing} , {name} ?", f"yes , {thing} and you ?"),
            (f"what does {name} think of {thing} ?", f"ask {name} , i know nothing of {thing} ."),
        )
    )


TOYS: dict[str, tuple[Callable[[random.Random], tuple[str, str]], int, int]] = {
    "summary": (summary, 400, 12),
    "answer": (answer, 400, 15),
    "reply": (reply, 300, 25),
}
"""The rule of each, how many pairs are drawn by it, and how often they are read."""


def main() -> dict[str, float]:
    """The share of pairs kept from training whose target is said word for word, of each toy."""
    exact = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (rule, many, epochs) in TOYS.items():
            draw = random.Random(1)
            pairs = list(dict.fromkeys(rule(draw) for _ in range(many)))
            kept, train = pairs[::10], [pair for place, pair in enumerate(pairs) if place % 10]
            files = {part: Path(folder) / f"{name}-{part}.tsv" for part in ("train", "test")}
            for part, rows in (("train", train), ("test", kept)):
                files[part].write_text("".join(f"{text}\t{said}\n" for text, said in rows), encoding="utf-8")
            model = thereafter.train(
                files["train"], task="translate", tokens="word", min_count=1, hidden=64, embed=32, dropout=0.1,
                label_smoothing=0.0, batch=16, rate=0.01, epochs=epochs, seed=1, device="cpu",
            )  # fmt: skip
            found = model.score(files["test"])
            exact[name] = found.exact
            print(f"{name}: {found.exact:.0%} of {found.sentences} new pairs to the letter")
            print(f"  {kept[0][0]}\n  -> {model.predict(kept[0][0])}")
    return exact


if __name__ == "__main__":
    main()
