"""Whether a claim of a source shows in a picture: each function reads it off the figure's own numbers.

Nothing here knows how a verdict comes out. Where a claim does not show, the caption says so, with the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.figures.figure import Figure
from thereafter.inspection.properties import word_classes

HIGH = 0.9
"""A gate that is open: nine tenths of what it guards passes."""
_NEAR_CHANCE = 0.6
_MISLED = 0.01  # of the verbs


def verdict(holds: bool, claim: str, evidence: str, who: str = "the book") -> str:
    """The sentence of a caption.

    >>> verdict(False, "the gate stays open", "it averages 0.40")
    'The book says that the gate stays open; here it does not show: it averages 0.40.'
    """
    if holds:
        return f"As {who} says, {claim}: {evidence}."
    return f"{who[0].upper()}{who[1:]} says that {claim}; here it does not show: {evidence}."


def column(figure: Figure, name: str) -> NDArray[Any]:
    """A column of the figure's table as an array, of numbers or of words."""
    return np.array(figure.table[name])


def gru_is_smaller(figure: Figure) -> str:
    counted = dict(zip(figure.words("cell"), figure.numbers("counted"), strict=True))
    share = counted["gru"] / counted["lstm"]
    sentence = verdict(share == 0.75, "a GRU has three quarters of an LSTM's weights", f"{share:.0%}")
    drawn = 787_000 / counted["lstm"]
    return f"{sentence} (The book draws 787K for the LSTM, {drawn:.1f} times what is counted here.)"


def fast_then_slow(figure: Figure) -> str:
    """How much of the fall of the loss comes in the first quarter of the training, over all models."""
    models, parts = column(figure, "model"), column(figure, "part")
    shares, gaps = [], []
    for model in dict.fromkeys(models.tolist()):
        seen, loss = (
            [column(figure, name)[(models == model) & (parts == part)] for part in ("validation", "training")]
            for name in ("tokens seen", "perplexity")
        )
        falling = np.log(loss[0])
        early = np.interp(0.25 * seen[0][-1], seen[0], falling)
        start = np.log(loss[1][0])
        shares.append(float((start - early) / (start - falling[-1])))
        gaps.append(float(loss[0][-1] / loss[1][-1]))
    sentence = verdict(
        min(shares) > 0.5,
        "perplexity falls fast at first and slowly later",
        f"{min(shares):.0%} or more of the fall of the loss comes in the first quarter",
    )
    over = f"at the end it is {min(gaps):.2f} to {max(gaps):.2f} times that of the last batches"
    return f"{sentence} {verdict(min(gaps) > 1, 'perplexity on validation text is slightly higher', over)}"


def low_temperature_sharpens(figure: Figure) -> str:
    heights = [(float(name[2:]), figure.numbers(name)[0]) for name in figure.table if name.startswith("T=")]
    ordered = [height for _, height in sorted(heights)]
    evidence = ", ".join(f"{height:.2f} at T = {warmth:g}" for warmth, height in sorted(heights))
    falls = all(one >= other for one, other in pairwise(ordered))
    return verdict(falls, "low temperature sharpens and high flattens", f"the likeliest has {evidence}", "the article")


def longer_is_sparser(figure: Figure) -> str:
    seen = column(figure, "seen in new text")
    evidence = f"seen before were {seen[0]:.0%} of single tokens and {seen[-1]:.1%} of {len(seen)}-grams"
    falls = bool((np.diff(seen) < 0).all())
    return verdict(falls, "the longer the n-gram, the fewer of new text were ever seen", evidence, "the article")


def per_model(figure: Figure, key: str, value: str) -> dict[str, dict[str, float]]:
    """{model: {key: value}} of a long table; keys as they are printed."""
    rows: dict[str, dict[str, float]] = {}
    for model, place, number in zip(figure.words("model"), figure.words(key), figure.numbers(value), strict=True):
        rows.setdefault(model, {})[place] = number
    return rows


def rnn_forgets(figure: Figure) -> str:
    """Under a tenth of the bit 8 words on in an RNN (position 10 of the book's sentence), more in an LSTM."""
    bits = per_model(figure, "distance", "bits")
    rnn, lstm = bits["rnn"]["8"], bits["lstm"]["8"]
    evidence = f"a probe reads {rnn:.2f} bits from the RNN and {lstm:.2f} from the LSTM"
    return verdict(
        rnn < 0.1 < lstm, "8 words on a simple RNN has lost the subject's number and an LSTM has not", evidence
    )


def distance_hurts_rnn(figure: Figure) -> str:
    share = per_model(figure, "words between", "mean")
    labels = [label for label in share["rnn"] if int(label.partition("-")[0]) <= 10]
    at = labels[-1]
    rnn, lstm = share["rnn"][at], share["lstm"][at]
    evidence = f"at {at} words between the RNN is right in {rnn:.0%} and the LSTM in {lstm:.0%}"
    return verdict(
        rnn < _NEAR_CHANCE < lstm, "a simple RNN falls below 60 % at 10 words and an LSTM stays above", evidence
    )


def attractors_mislead(figure: Figure) -> str:
    """Who loses verbs, and how many, where the last noun before the verb has the other number."""
    share = per_model(figure, "last noun", "mean")
    drops = {model: one["congruent"] - one["incongruent"] for model, one in share.items()}
    evidence = "fewer verbs are right by " + ", ".join(f"{drop:.0%} ({model})" for model, drop in drops.items())
    holds = min(drops.values()) >= _MISLED
    return verdict(holds, "a noun of the other number misleads every model", evidence, "the paper")


def verb_is_expected(figure: Figure) -> str:
    last = dict(zip(figure.words("model"), figure.numbers("share"), strict=True))  # of a model the last row stays
    evidence = ", ".join(f"{model} {value:.0%}" for model, value in last.items())
    holds = abs(last["rnn"] - 0.5) < 0.1 and min(last["gru"], last["lstm"]) > HIGH
    return verdict(holds, "at the verb a simple RNN is undecided, a GRU and an LSTM are sure", evidence)


def lower_layers_know(figure: Figure) -> str:
    gains = list(zip(figure.words("layer"), figure.numbers("selectivity"), strict=True))
    evidence = ", ".join(f"{layer} {value:.0%}" for layer, value in gains)
    ordered = [value for layer, value in gains if layer != "word vectors"]
    figures = f"above the control the probe is right by {evidence}"
    return verdict(ordered[0] > ordered[-1], "lower layers hold word classes and higher ones less", figures)


def gated_remember_longer(figure: Figure) -> str:
    reach = {model: longest_reach(rows) for model, rows in per_model(figure, "n", "accuracy").items()}
    gated = {model: reach[model] for model in ("gru", "lstm") if model in reach}
    evidence = ", ".join(f"{model} {n}" for model, n in reach.items())
    figures = f"the largest n up to which nine in ten answers are right: {evidence}"
    return verdict(min(gated.values()) > reach["rnn"], "gated cells remember longer than a simple RNN", figures)


def longest_reach(rows: dict[str, float]) -> int:
    """The largest n up to which every accuracy is high; 0 where the first is not."""
    last = 0
    for n, accuracy in rows.items():
        if accuracy < HIGH:
            break
        last = int(n)
    return last


def truncation_hurts(figure: Figure) -> str:
    """Whether gradients cut latest leave more right answers than those cut first."""
    means, evidence = _mean_accuracy(figure)
    ordered = list(means.values())
    return verdict(ordered[0] < ordered[-1], "cutting gradients early misses what is further back", evidence)


def _mean_accuracy(figure: Figure) -> tuple[dict[str, float], str]:
    """The accuracy of every model over all n, and in words."""
    means = {model: float(np.mean(list(rows.values()))) for model, rows in per_model(figure, "n", "accuracy").items()}
    return means, "right on average: " + ", ".join(f"{model} {value:.0%}" for model, value in means.items())


def clipping_saves_relu(figure: Figure) -> str:
    means, evidence = _mean_accuracy(figure)
    light = {model.split()[0]: value for model, value in means.items() if model.endswith("at 5")}
    heavy = {model.split()[0]: value for model, value in means.items() if not model.endswith("at 5")}
    holds = light["relu"] < light["tanh"] and heavy["relu"] > light["relu"]
    return verdict(holds, "ReLU needs heavier clipping than tanh in a simple RNN", evidence, "the lecture")


def units_follow_text(figure: Figure) -> str:
    """AUC of at least 0.9 against a control below 0.6, for properties that hold or do not hold."""
    yes = column(figure, "measure") == "AUC"
    units, control = column(figure, "held out")[yes].astype(float), column(figure, "control")[yes].astype(float)
    good = (units > HIGH) & (control < _NEAR_CHANCE)
    named = [str(name) for name, one in zip(column(figure, "property")[yes], good, strict=True) if one]
    evidence = f"AUC above {HIGH} with a control below {_NEAR_CHANCE} for {', '.join(named) or 'none'} of {len(good)}"
    return verdict(bool(good.any()), "single units follow properties of the text", evidence, "the paper")


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
    evidence = f"the two stay apart at {max((apart > 0).sum(), (apart < 0).sum())} of {len(apart)} words between"
    gates = [f"forget gate, {number}" for number in ("singular", "plural")]
    if gates[0] in figure.table:
        forget = np.stack([column(figure, gate)[between] for gate in gates])
        mean = column(figure, "forget gate, mean of all units")[between].mean()
        evidence += f", and its forget gate averages {forget.mean():.2f} there against {mean:.2f} over all units"
        kept = kept and bool(forget.mean() >= HIGH)
    return verdict(kept, "a gate near 1 keeps the subject's number up to the verb", evidence)


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
