"""Whether a claim about states, gates and attention shows in a picture: read off the figure's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.figures.figure import Figure
from thereafter.gallery.claims import HIGH, column, verdict
from thereafter.inspection.word_classes import word_classes

CONTENT = ("noun", "verb", "adjective", "adverb")
_LONG = 10  # steps


def senses_apart(figure: Figure) -> str:
    own, others = column(figure, "mean cosine with its own sense"), column(figure, "mean cosine with the others")
    evidence = f"{int((own > others).sum())} of {len(own)} states are nearer to their own sense than to the other"
    return verdict(bool((own > others).all()), "a state tells the senses apart where a static vector cannot", evidence)


def cell_state_is_smoother(cell_TU: NDArray[np.number], hidden_TU: NDArray[np.number]) -> str:
    """Whether a cell state moves by smaller steps, as shares of how far its states lie from their mean."""
    cell, hidden = step_share(cell_TU), step_share(hidden_TU)
    evidence = f"a step is {cell:.2f} of the mean distance from the centre, that of the RNN's hidden state {hidden:.2f}"
    return verdict(cell < hidden, "the cell state moves more smoothly than the hidden state of a simple RNN", evidence)


def step_share(states_TU: NDArray[np.number]) -> float:
    """The mean step of a path, as a share of the mean distance of its points from their centre."""
    states = np.asarray(states_TU, dtype=np.float64)
    steps = np.linalg.norm(np.diff(states, axis=0), axis=1).mean()
    return float(steps / np.linalg.norm(states - states.mean(axis=0), axis=1).mean())


def mean_gates(figure: Figure) -> str:
    """The forget gate's mean, the input gate by kind of word, and the growth of the cell state."""
    forget, size = column(figure, "forget gate"), column(figure, "mean |c|")
    parts = [
        verdict(
            bool(forget.min() >= HIGH),
            f"the forget gate stays high ({HIGH} or more)",
            f"its mean over units lies between {forget.min():.2f} and {forget.max():.2f}",
        ),
        _content_words(column(figure, "input gate"), [word_classes().get(word) for word in figure.words("word")]),
        verdict(
            bool(size[-1] > size[0]), "the cell state grows along the sentence", f"from {size[0]:.2f} to {size[-1]:.2f}"
        ),
    ]
    return " ".join(parts)


def gates_of_classes(figure: Figure) -> str:
    classes = figure.words("class")
    forget = dict(zip(classes, column(figure, "forget gate").tolist(), strict=True))
    parts = [_content_words(column(figure, "input gate"), classes, column(figure, "words"))]
    end = forget.pop("sentence end", None)
    if end is not None:
        others = float(np.mean(list(forget.values())))
        evidence = f"{end:.2f} against {others:.2f} in the mean of the other classes"
        parts.append(verdict(end > others, "the forget gate is high at the end of a sentence", evidence))
    return " ".join(parts)


def _content_words(
    gate: NDArray[np.float64], classes: Sequence[str | None], counts: NDArray[np.float64] | None = None
) -> str:
    weights = np.ones(len(gate)) if counts is None else counts
    inside = np.array([one in CONTENT for one in classes])
    content, function = (float(np.average(gate[which], weights=weights[which])) for which in (inside, ~inside))
    evidence = f"{content:.2f} against {function:.2f}"
    return verdict(content > function, "the input gate opens wider at content words than at others", evidence)


def number_kept(figure: Figure) -> str:
    """Whether the unit's forget gate stays open between subject and verb, and both numbers stay apart."""
    between = column(figure, "between subject and verb").astype(bool)
    state = next(name.partition(",")[0] for name in figure.table if name.endswith(", singular"))
    apart = column(figure, f"{state}, plural")[between] - column(figure, f"{state}, singular")[between]
    kept = bool((apart > 0).all() or (apart < 0).all())
    evidence = f"the two stay apart at {_most_of_one_sign(apart)} of {len(apart)} words between"
    gates = [f"forget gate, {number}" for number in ("singular", "plural")]
    if gates[0] in figure.table:
        forget = np.stack([column(figure, gate)[between] for gate in gates])
        mean = column(figure, "forget gate, mean of all units")[between].mean()
        evidence += f", and its forget gate averages {forget.mean():.2f} there against {mean:.2f} over all units"
        kept = kept and bool(forget.mean() >= HIGH)
    return verdict(kept, "a gate near 1 keeps the subject's number up to the verb", evidence)


def _most_of_one_sign(values: NDArray[np.float64]) -> int:
    return int(max((values > 0).sum(), (values < 0).sum()))


def heads_look_back(verb: int, subject: int) -> Callable[[Figure], str]:
    """Whether a head looks from the word before the verb, which predicts it, at the subject."""

    def claim(figure: Figure) -> str:
        layer, head = column(figure, "layer"), column(figure, "head")
        heads = sorted(set(zip(layer.tolist(), head.tolist(), strict=True)))
        # rows of one head run reader by reader, each over all it may read
        place = (verb - 1) * verb // 2 + subject
        rows = [int(np.flatnonzero((layer == one) & (head == two))[place]) for one, two in heads]
        weights = column(figure, "weight")[rows]
        at, most, even = rows[int(weights.argmax())], float(weights.max()), 1 / (verb + 1)
        evidence = (
            f"from “{figure.table['reading token'][at]}” at most {most:.2f} goes to “{figure.table['token read'][at]}” "
            f"(layer {layer[at]}, head {head[at]}), where an even spread would give {even:.2f}"
        )
        return verdict(most > 2 * even, "attention reaches straight back to what matters", evidence, "the paper")

    return claim


def more_open_than_shut(figure: Figure) -> str:
    """The forget gates' share above nine tenths against that below one tenth."""
    level = column(figure, "gate value")
    gates = [name for name in figure.table if name.endswith(".forget")]
    share = np.mean([column(figure, name) for name in gates], axis=0)
    wide, shut = float(share[level > HIGH].sum()), float(share[level < 1 - HIGH].sum())
    evidence = f"{wide:.0%} of their values lie above {HIGH} and {shut:.0%} below {1 - HIGH:.1f}"
    return verdict(wide > shut, "forget gates are more often wide open than shut", evidence, "the paper")


def some_remember_long(figure: Figure) -> str:
    steps = column(figure, "steps").astype(float)
    long = int((steps >= _LONG).sum())
    evidence = f"{long} of {len(steps)} keep it for {_LONG} steps or more, the longest for {steps.max():.0f}"
    return verdict(long > 0, "some units keep their memory for many steps", evidence, "the lecture")


def near_positions_alike(figure: Figure) -> str:
    places = int(column(figure, "position").max()) + 1
    table = column(figure, "value").reshape(places, -1)
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    near, far = (float(np.mean(np.sum(table[k:] * table[:-k], axis=1))) for k in (1, places // 2))
    evidence = f"the cosine averages {near:.2f} one apart and {far:.2f} {places // 2} apart"
    return verdict(near > far, "positions that are near have vectors that are alike", evidence, "the paper")
