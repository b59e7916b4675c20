"""Which model to use when: three sentences, every word of which follows from the figures of comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from thereafter.comparing.tables import percent

if TYPE_CHECKING:
    from thereafter.comparing.rows import Compared, MeanSpread, ProbeRows, Row

_NEAR = 1.15
"""A model whose bits per byte are at most this many times the best one's still counts as good."""
_HASTE = 0.1
"""A model that trains in at most this share of the best one's time takes no time."""
_SOON = 5.0
"""Seconds of training that nobody minds."""
_FAR = 0.5
"""Distances beyond this share of the longest are far."""
_ERRORS = 5.0
"""So many standard errors above chance a share of sentences is no luck: several models are looked at."""


def advice(comparisons: Sequence[Compared]) -> list[str]:
    """The best predictor, the best for the least time, and the best over a distance where the corpus asks about one.

    Models whose scores are no probabilities are not among them, and a sentence says so.
    """
    from thereafter.comparing.rows import left_out

    without = list(dict.fromkeys(line for compared in comparisons for line in left_out(compared.rows)))
    ranked = [replace(one, rows=tuple(row for row in one.rows if row.normalised)) for one in comparisons]
    ranked = [compared for compared in ranked if compared.rows]
    if not ranked:
        return without
    running = [one for one in ranked if not one.probes()] or ranked
    sentences = [_best(one) for one in running] + [_quick(one) for one in running]
    probed = next((probes for one in ranked if (probes := one.probes())), [])
    return sentences + [_far(one) for one in probed] + without


def _best(comparison: Compared) -> str:
    """Who predicts best, by how much, and whether seeds leave that in doubt."""
    ranked = sorted(comparison.rows, key=lambda row: row.bits_per_byte.mean)
    best, name = ranked[0], comparison.about["source"]
    score = best.bits_per_byte
    if len(ranked) == 1:
        return f"{name}: {best.name} was the only model, with {score.mean:.3f} bits per byte."
    level = [row for row in ranked[1:] if row.bits_per_byte.mean - score.mean <= _doubt(score, row.bits_per_byte)]
    text = f"For the best predictions of {name} use {best.name}: {score.mean:.3f} bits per byte"
    if level:
        return f"{text}, level with {_listed(level)} within what seeds change."
    other = ranked[1].bits_per_byte.mean
    return f"{text}, {100 * (1 - score.mean / other):.1f} % fewer than {ranked[1].name}, the next best."


def _doubt(one: MeanSpread, other: MeanSpread) -> float:
    return 2 * math.hypot(one.spread or 0.0, other.spread or 0.0)


def _quick(comparison: Compared) -> str:
    """The best that takes a small part of the best one's training, and the quickest answers among the good ones."""
    rows, name = comparison.rows, comparison.about["source"]
    best = min(rows, key=lambda row: row.bits_per_byte.mean)
    hasty = [row for row in rows if row.seconds <= _HASTE * best.seconds]
    good = [row for row in rows if row.bits_per_byte.mean <= _NEAR * best.bits_per_byte.mean]
    swift = min(good, key=lambda row: row.latency)
    answers = f"answers soonest of the good ones, in {_time(swift.latency)} a token"
    if best.seconds < _SOON:
        text = f"The same {best.name} takes no time on {name}: {_time(best.seconds)} of training"
        return text + (f", and {answers}." if swift is best else f"; {swift.name} {answers}.")
    if hasty:
        quick = min(hasty, key=lambda row: row.bits_per_byte.mean)
        text = (
            f"Where there is no time to train on {name}, use {quick.name}: {_time(quick.seconds)} instead of "
            f"{_time(best.seconds)} of training, {_time(quick.latency)} a token, for {_more(quick, best)} more bits"
        )
        return text + ("." if swift in (quick, best) else f"; {swift.name} {answers}.")
    if swift is best:
        return f"The same {best.name} {answers}; nothing trains on {name} in much less than its {_time(best.seconds)}."
    return f"Where answers must come at once, use {swift.name}: it {answers}, for {_more(swift, best)} more bits."


def _more(row: Row, best: Row) -> str:
    return f"{100 * (row.bits_per_byte.mean / best.bits_per_byte.mean - 1):.1f} %"


def _far(probed: ProbeRows) -> str:
    """Who still has the right answer when what decides it lies far back."""
    probe, rows, longest = probed.probe, probed.rows, probed.longest
    begin = math.ceil(_FAR * longest)
    shares = {row.name: probed.accuracy(row, lambda verdicts: verdicts.between(begin, longest)) for row in rows}
    total = probed.results[0].between(begin, longest).total
    guessed = _guessed(probe.chance, total)
    ranked = sorted(rows, key=lambda row: -shares[row.name].mean)
    best, share = ranked[0], shares[ranked[0].name]
    where = f"with {begin} to {longest} {probe.words.span} ({total:,} {probe.words.items})"
    if share.mean < guessed:
        chance = "" if probe.chance is None else f", chance is {100 * probe.chance:g}"
        return (
            f"No model has learned {probe.words.lesson} {where}: the best, {best.name}, is right in "
            f"{percent(share)} %{chance}; try more time."
        )
    lost = [row for row in ranked if shares[row.name].mean < guessed]
    text = f"{probe.words.purpose}, use {best.name}: {where} {probe.words.answer} is right in {percent(share)} %"
    return text + (f", while {_listed(lost)} can only guess." if lost else f", {_last(ranked, shares)}.")


def _guessed(chance: float | None, total: int) -> float:
    """The share below which a model may as well have guessed; a half where guessing is next to never right."""
    if chance is None:
        return 0.5
    error = math.sqrt(chance * (1 - chance)) / math.sqrt(max(1, total))
    return chance + _ERRORS * error


def _last(ranked: Sequence[Row], shares: dict[str, MeanSpread]) -> str:
    last = ranked[-1]
    return f"{last.name}, the last, in {percent(shares[last.name])} %"


def _listed(rows: Sequence[Row]) -> str:
    names = [row.name for row in rows]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def _time(seconds: float) -> str:
    """A time in words, three digits at most."""
    if seconds >= 120:
        return f"{seconds / 60:.1f} minutes"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
