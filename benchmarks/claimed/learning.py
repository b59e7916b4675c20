"""What the books say of training: teacher forcing, depth and width, cuts in the gradient, attention and length."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import thereafter
from thereafter.inspection.memory import memory
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.memory import task, text_of

LINES: dict[str, Any] = {"context": "line", "batching": "lines"}
_NEURAL: dict[str, Any] = {"embed": 16, "dropout": 0.0, "init": 1.0, "batch": 16}


def trained(kind: str, text: str, *, seed: int, **options: Any) -> thereafter.LanguageModel:
    """A small model of words; word vectors that start large are told apart from the first step on."""
    if kind == "ngram":
        return thereafter.train(text=text, tokens="word", **options)
    shape = {} if kind == "window" else {"layers": 1, "tied": False}
    return thereafter.train(text=text, model=kind, tokens="word", seed=seed, **(_NEURAL | shape | options))


def remembered(
    kind: str, name: str, spans: Iterable[int], *, lines: int, shortest: int, longest: int, seed: int, **options: Any
) -> dict[int, float]:
    """Accuracy by n of a small model in a memory task, trained on lines with n from `shortest` to `longest`."""
    text = text_of(task(name), count=lines, shortest=shortest, longest=longest)
    lm = trained(kind, text, seed=seed, **options)
    asked = memory(SentenceReader.of(lm.model, lm.tokenizer, lm.config), task(name), list(spans), count=100, seed=seed)
    return dict(zip(asked["n"].tolist(), asked["accuracy"].tolist(), strict=True))


def after_cut(cut: int, *, n: int, lines: int, epochs: int, seed: int, hidden: int = 24) -> float:
    """Accuracy of a GRU at remembering over n words, its state carried on and its gradient cut after so many words."""
    carried: dict[str, Any] = {"steps": cut, "context": "stream", "batching": "stream", "rate": 0.02, "hidden": hidden}
    return remembered(
        "gru", "remember-first", [n], lines=lines, shortest=n, longest=n, seed=seed, epochs=epochs, **carried
    )[n]


def _successors(draw: random.Random, length: int, modulus: int = 11) -> str:
    """A sequence in which each number follows from the two before it: x_t = x_{t-1} + x_{t-2} + 1, modulo `modulus`."""
    row = [draw.randrange(modulus), draw.randrange(modulus)]
    while len(row) < length:
        row.append((row[-1] + row[-2] + 1) % modulus)
    return " ".join(f"w{number}" for number in row)


TRUE_WORDS = 6


def own_words(*, lines: int, epochs: int, length: int, seed: int, hidden: int = 24, asked: int = 200) -> dict[str, Any]:
    """A GRU that learned x_t from x_{t-1} and x_{t-2}: what it makes of the true words and of its own.

    After `TRUE_WORDS` true words it reads on either way. `forced` and `free`: the share of right words by place, after
    true words and after those it chose itself; `forced_nats` and `free_nats`: the nats of the true words either way.
    """
    draw = random.Random(seed)
    rows = [_successors(draw, length) for _ in range(lines + asked)]
    text = "".join(f"{row}\n" for row in rows[:lines])
    lm = trained("gru", text, seed=seed, epochs=epochs, rate=0.01, hidden=hidden, **LINES)
    ids_BT = np.stack([lm.tokenizer.encode(row) for row in rows[lines:]])
    result: dict[str, Any] = {}
    for way in ("forced", "free"):
        state = lm.model.start(len(ids_BT))
        right, nats = [], []
        for at in range(length):
            logp_BV = np.asarray(lm.model.predict(state), dtype=np.float64)
            chosen_B = logp_BV.argmax(1)
            if at >= TRUE_WORDS:
                right.append(float((chosen_B == ids_BT[:, at]).mean()))
                nats.append(float(-logp_BV[np.arange(len(ids_BT)), ids_BT[:, at]].mean()))
            read_B = ids_BT[:, at] if way == "forced" or at < TRUE_WORDS else chosen_B
            state = lm.model.step(read_B, state)[1]
        result[way], result[f"{way}_nats"] = right, nats
    return result


def sized_alike(kind: str, depths: Sequence[int], *, hidden: int, embed: int) -> dict[int, tuple[int, int]]:
    """For each depth the width whose recurrent layers have the number of weights of one layer of `hidden` units.

    Gives (width, weights); found by counting the tensors of every width.
    """
    from thereafter import nn

    cell = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind]

    def weights(width: int, layers: int) -> int:
        return sum(weight.numel() for weight in cell(embed, width, layers).parameters())

    wanted = weights(hidden, 1)
    widths = {layers: min(range(2, hidden + 1), key=lambda w: abs(weights(w, layers) - wanted)) for layers in depths}
    return {layers: (width, weights(width, layers)) for layers, width in widths.items()}


def by_depth(
    text: str, valid: str, layers: int, width: int, *, budget: int, rate: float, seed: int, embed: int
) -> float:
    """Validation nats a token of an LSTM of so many layers over lines that stand alone."""
    shape = {"layers": layers, "hidden": width, "embed": embed}
    lm = trained("lstm", text, seed=seed, tokens_budget=budget, rate=rate, **shape, **LINES)
    score = lm.score(text=valid)
    return float(np.log(score.perplexity))


def memorised(hidden: int, *, rows: int, length: int, epochs: int, seed: int, words: int = 16) -> float:
    """The share of words of random sequences that an LSTM of this width says by heart after so many epochs.

    Each sequence begins with a name of its own; nothing else in it can be foreseen but by having learned it.
    """
    draw = random.Random(seed)
    text = [[f"n{row}", *(f"w{draw.randrange(words)}" for _ in range(length))] for row in range(rows)]
    # the last lines are held out for validation: the first ones once more, so that there is nothing new in them
    whole = "".join(" ".join(row) + "\n" for row in (*text, *text[: 1 + rows // 15]))
    options = {"min_count": 1, "rate": 0.02, "batch": rows // 2}
    lm = trained("lstm", whole, seed=seed, hidden=hidden, epochs=epochs, **options, **LINES)
    ids_BT = np.stack([lm.tokenizer.encode(" ".join(row)) for row in text])
    state: Any = lm.model.start(rows)
    right: list[NDArray[np.bool_]] = []
    for at in range(length):
        state = lm.model.step(ids_BT[:, at], state)[1]
        right.append(np.asarray(lm.model.predict(state)).argmax(1) == ids_BT[:, at + 1])
    return float(np.mean(right))


def translated(
    attention: str, lengths: Sequence[int], *, pairs: int, epochs: int, seed: int, hidden: int = 24
) -> dict[int, float]:
    """The share of right words by source length of a translator that learned to turn sequences round."""
    letters = "abcdefgh"

    def file(folder: Path, name: str, count: int, sizes: Sequence[int], seed: int) -> Path:
        draw = random.Random(seed)
        rows = [[draw.choice(letters) for _ in range(draw.choice(sizes))] for _ in range(count)]
        path = folder / name
        path.write_text("".join(f"{' '.join(row)}\t{' '.join(reversed(row))}\n" for row in rows), encoding="utf-8")
        return path

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train = file(folder, "train.tsv", pairs, range(min(lengths), max(lengths) + 1), seed)
        model = thereafter.train(
            train, task="translate", tokens="word", min_count=1, attention=attention, embed=16, hidden=hidden, layers=1,
            dropout=0.0, label_smoothing=0.0, batch=32, rate=0.01, epochs=epochs, seed=seed,
        )  # fmt: skip
        return {
            length: float(model.score(file(folder, f"{length}.tsv", 60, [length], seed + 1)).words)
            for length in lengths
        }


def forget_bias_learned(bias: float, *, seed: int, n: int = 12, lines: int = 600, epochs: int = 8) -> float:
    """Accuracy of an LSTM that has seen few lines of `remember-first`, the symbol n words before it is asked for."""
    size: dict[str, Any] = {"hidden": 24, "rate": 0.01, "forget_bias": bias}
    return remembered(
        "lstm", "remember-first", [n], lines=lines, shortest=n, longest=n, seed=seed, epochs=epochs, **size, **LINES
    )[n]
