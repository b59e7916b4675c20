"""Whether a claim of a source shows in a picture: each function reads it off the figure's own numbers.

Claims about states, gates and attention are in `state_claims`.

Nothing here knows how a verdict comes out. Where a claim does not show, the caption says so, with the figures.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.figures.figure import Figure

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
    layers = figure.words("layer")
    gain = column(figure, "selectivity")
    evidence = ", ".join(f"{layer} {value:.0%}" for layer, value in zip(layers, gain, strict=True))
    ordered = [value for layer, value in zip(layers, gain, strict=True) if layer != "word vectors"]
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
    means = {model: float(np.mean(list(rows.values()))) for model, rows in per_model(figure, "n", "accuracy").items()}
    ordered = list(means.values())
    evidence = ", ".join(f"{model} {value:.0%}" for model, value in means.items())
    figures = f"right on average: {evidence}"
    return verdict(ordered[0] < ordered[-1], "cutting gradients early misses what is further back", figures)


def clipping_saves_relu(figure: Figure) -> str:
    means = {model: float(np.mean(list(rows.values()))) for model, rows in per_model(figure, "n", "accuracy").items()}
    evidence = ", ".join(f"{model} {value:.0%}" for model, value in means.items())
    light = {model.split()[0]: value for model, value in means.items() if model.endswith("at 5")}
    heavy = {model.split()[0]: value for model, value in means.items() if not model.endswith("at 5")}
    holds = light["relu"] < light["tanh"] and heavy["relu"] > light["relu"]
    figures = f"right on average: {evidence}"
    return verdict(holds, "ReLU needs heavier clipping than tanh in a simple RNN", figures, "the lecture")


def units_follow_text(figure: Figure) -> str:
    """AUC of at least 0.9 against a control below 0.6, for properties that hold or do not hold."""
    yes = column(figure, "measure") == "AUC"
    units, control = column(figure, "held out")[yes].astype(float), column(figure, "control")[yes].astype(float)
    good = (units > HIGH) & (control < _NEAR_CHANCE)
    named = [str(name) for name, one in zip(column(figure, "property")[yes], good, strict=True) if one]
    evidence = f"AUC above {HIGH} with a control below {_NEAR_CHANCE} for {', '.join(named) or 'none'} of {len(good)}"
    return verdict(bool(good.any()), "single units follow properties of the text", evidence, "the paper")
