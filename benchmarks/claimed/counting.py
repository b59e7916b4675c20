"""What the books say of counted models and of windows: sparse counts, moved mass, and nothing beyond the window."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

import thereafter
from claimed.learning import remembered
from thereafter.text.agreement import Part, sentences


def sentence_text(count: int, part: Part = "train", seed: int = 1) -> str:
    """Sentences of `agreement` with up to 10 words between subject and verb, one a line."""
    return "".join(f"{one.text}\n" for one in sentences(count, seed=seed, part=part, max_distance=10))


@dataclass(frozen=True)
class Sparse:
    """By order: different n-grams of a text, their share of all that could be, and the share of new ones it lacks."""

    orders: list[int]
    counted: list[int]
    of_possible: list[float]
    unseen: list[float]


def sparsity(lines: int, new_lines: int, most: int = 5) -> Sparse:
    """Counted by hand, line by line, with the end of a line as a word."""

    def grams(text: str, n: int) -> list[tuple[str, ...]]:
        rows = [("<s>",) * (n - 1) + tuple(line.split()) + ("</s>",) for line in text.splitlines()]
        return [row[at : at + n] for row in rows for at in range(len(row) - n + 1)]

    text, new = sentence_text(lines), sentence_text(new_lines, "test", seed=2)
    words = len(set(grams(text, 1)))
    orders = list(range(1, most + 1))
    known = {n: set(grams(text, n)) for n in orders}
    unseen = [float(np.mean([gram not in known[n] for gram in grams(new, n)])) for n in orders]
    counted = [len(known[n]) for n in orders]
    return Sparse(orders, counted, [count / words**n for count, n in zip(counted, orders, strict=True)], unseen)


@dataclass(frozen=True)
class Mass:
    """Of one smoothing: the mass of words never seen after a context, that of seen ones, and the worst sum of all."""

    smoothing: str
    unseen: float
    seen: float
    worst_sum: float


def moved_mass(smoothing: str, lines: int, contexts: int = 200) -> Mass:
    """The mean over contexts of one word: where a bigram model puts its probability."""
    text = sentence_text(lines)
    lm = thereafter.train(text=text, tokens="word", order=2, smoothing=smoothing)
    ids = lm.tokenizer.encode(text)
    pairs = Counter(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))
    end = int(lm.tokenizer.encode("\n")[0])
    chosen = [word for word, _ in Counter(ids.tolist()).most_common(contexts + 1) if word != end][:contexts]
    state = lm.model.step(np.array(chosen), lm.model.start(len(chosen)))[1]
    p_CV = np.exp(np.asarray(lm.model.predict(state), dtype=np.float64))
    seen_CV = np.zeros_like(p_CV, dtype=bool)
    row = {word: at for at, word in enumerate(chosen)}
    for first, second in pairs:
        if first in row:
            seen_CV[row[first], second] = True
    total = p_CV.sum(1)
    unseen = float((p_CV * ~seen_CV).sum(1).mean())
    return Mass(smoothing, unseen, float((p_CV * seen_CV).sum(1).mean()), float(np.abs(total - 1).max()))


def window_by_distance(window: int, *, longest: int, lines: int, epochs: int, seed: int) -> dict[int, float]:
    """Accuracy of a window model in `remember-first`, by n; the symbol is in sight up to n = window - 1."""
    spans = range(1, longest + 1)
    size = {"window": window, "hidden": 32, "rate": 0.01}
    return remembered(
        "window", "remember-first", spans, lines=lines, shortest=1, longest=longest, seed=seed, epochs=epochs, **size
    )


def change_beyond(window: int, *, hidden: int = 16, seed: int = 0) -> tuple[float, float]:
    """The largest change of a prediction when all words beyond the window change, and when the first within it does."""
    lm = thereafter.train(
        text=sentence_text(60), model="window", tokens="word", window=window, hidden=hidden, epochs=1, seed=seed
    )
    size = lm.model.vocabulary_size
    draw = np.random.default_rng(seed)
    near = draw.integers(1, size, (8, window))

    def prediction(before: Any, last: Any) -> Any:
        tokens = np.concatenate([before, last], axis=1)
        return np.asarray(lm.model.predict(lm.model.log_probs(tokens, lm.model.start(len(tokens)))[1]))

    one = prediction(draw.integers(1, size, (8, 20)), near)
    far = prediction(draw.integers(1, size, (8, 20)), near)
    changed = near.copy()
    changed[:, 0] = (changed[:, 0] + 1) % size
    within = prediction(draw.integers(1, size, (8, 20)), changed)
    return float(np.abs(one - far).max()), float(np.abs(one - within).max())
