"""Which model to use when: plain sentences, every word of which follows from the figures of comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from thereafter.comparing.differences import MeanSpread
from thereafter.comparing.rows import Compared, ProbeRows, Row
from thereafter.comparing.tables import percent

_NEAR = 1.15
"""A model whose bits per byte are at most this many times the best one's still counts as good."""
_HASTE = 0.1
"""A model that trains in at most this share of the best one's time is quick to train."""
_SOON = 5.0
"""Seconds of training that nobody minds."""
_FASTER = 0.8
"""A model that predicts a token in at most this share of the best one's time is faster."""
_FAR = 0.5
"""Distances beyond this share of the longest are far."""
_ERRORS = 5.0
"""So many standard errors above chance a share of sentences is no luck: several models are looked at."""


def advice(comparisons: Sequence[Compared]) -> list[str]:
    """The best predictor, the best for the least time, and the best over a distance where the corpus asks about one.

    Models whose scores are no probabilities are not among them, and a sentence says so.
    """
    without = list(dict.fromkeys(line for compared in comparisons for line in compared.left_out()))
    ranked = [replace(one, rows=tuple(row for row in one.rows if row.normalised)) for one in comparisons]
    ranked = [compared for compared in ranked if compared.rows]
    if not ranked:
        return without
    running = [one for one in ranked if not one.probes()] or ranked
    sentences = [_best(one) for one in running] + [_quick(one) for one in running]
    probed = next((probes for one in ranked if (probes := one.probes())), [])
    return sentences + [_far(one) for one in probed] + without


def _best(comparison: Compared) -> str:
    """Who predicts best, by how much, and whether other seeds or another test text leave that in doubt."""
    ranked = sorted(comparison.rows, key=lambda row: row.bits_per_byte.mean)
    best, name = ranked[0], Path(str(comparison.about["source"])).name  # of a path the file is enough
    score = best.bits_per_byte
    if len(ranked) == 1:
        return f"{best.name} was the only model: {score.mean:.3f} bits per byte of {name}."
    text = f"For the best predictions of {name}, use {best.name}: {score.mean:.3f} bits per byte"

    def doubt(other: MeanSpread) -> float:
        return 2 * math.hypot(score.spread or 0.0, other.spread or 0.0)

    by_seed = [row for row in ranked[1:] if row.bits_per_byte.mean - score.mean <= doubt(row.bits_per_byte)]
    known = {one.other: one for one in comparison.differences if one.better == best.name}
    by_text = [row for row in ranked[1:] if row.name in known and not known[row.name].difference.clear]
    level = [row for row in ranked[1:] if row in by_seed or row in by_text]
    if level:
        others = [("another seed", by_seed), ("another test text", by_text)]
        return f"{text}; with {' or '.join(what for what, rows in others if rows)}, {_listed(level)} may be as good."
    other = ranked[1]
    text += f", {_percent(1 - score.mean / other.bits_per_byte.mean)} fewer than {other.name}, the next best"
    between = known.get(other.name)
    return f"{text}." if between is None else f"{text} (95 % interval {between.interval} bits per byte)."


def _quick(comparison: Compared) -> str:
    """What to use if training time matters, and what if the speed of predictions does."""
    rows = comparison.rows
    best = min(rows, key=lambda row: row.bits_per_byte.mean)
    quick = _quick_to_train(rows, best)
    quickest = all(best.seconds < row.seconds for row in rows if row is not best)
    if len(rows) == 1:
        return f"Training took {_time(best.seconds)}; it predicts a token in {_time(best.latency)}."
    if best.seconds < _SOON or quickest:
        text = f"{best.name} is also {'the quickest' if quickest else 'quick'} to train: {_time(best.seconds)}."
    elif quick is not None:
        text = (
            f"If training time matters, use {quick.name}: {_time(quick.seconds)} instead of {_time(best.seconds)}, "
            f"{_more(quick, best)} more bits."
        )
    else:
        text = f"No other model trains ten times as fast as {best.name} ({_time(best.seconds)})."
    good = [row for row in rows if row.bits_per_byte.mean <= _NEAR * best.bits_per_byte.mean]
    fastest = min(good, key=lambda row: row.latency)
    swift = fastest if fastest.latency <= _FASTER * best.latency else best
    if quick is not None and swift in (quick, best):
        return f"{text} It predicts a token in {_time(quick.latency)} instead of {_time(best.latency)}."
    if swift is best:
        subject = "It" if best.seconds < _SOON or quickest else best.name
        others = (
            ""
            if len(good) == 1 or fastest is not best
            else f", fastest of the {len(good)} models within 15 % of its bits"
        )
        return f"{text} {subject} predicts a token in {_time(swift.latency)}{others}."
    return (
        f"{text} If the speed of predictions matters, use {swift.name}: {_time(swift.latency)} instead of "
        f"{_time(best.latency)} a token, {_more(swift, best)} more bits."
    )


def _quick_to_train(rows: Sequence[Row], best: Row) -> Row | None:
    """The best of those that train in a small part of the time of the best; None where there is none."""
    hasty = [row for row in rows if row.seconds <= _HASTE * best.seconds]
    if best.seconds < _SOON or not hasty:
        return None
    return min(hasty, key=lambda row: row.bits_per_byte.mean)


def _more(row: Row, best: Row) -> str:
    return _percent(row.bits_per_byte.mean / best.bits_per_byte.mean - 1)


def _percent(share: float) -> str:
    return f"{100 * share:.{1 if share < 0.0995 else 0}f} %"


def _far(probed: ProbeRows) -> str:
    """Who still has the right answer when what decides it lies far back."""
    probe, rows, longest = probed.probe, probed.rows, probed.longest
    begin = math.ceil(_FAR * longest)
    shares = {row.name: probed.accuracy(row, lambda verdicts: verdicts.between(begin, longest)) for row in rows}
    total = probed.results[0].between(begin, longest).total
    guessed = guessing_limit(probe.chance, total)
    ranked = sorted(rows, key=lambda row: -shares[row.name].mean)
    best, share = ranked[0], shares[ranked[0].name]
    where = f"with {begin} to {longest} {probe.words.span} ({total:,} {probe.words.items})"
    if share.mean < guessed:
        chance = "" if probe.chance is None else f", chance is {100 * probe.chance:g}"
        return (
            f"No model has learned {probe.words.lesson} {where}: the best, {best.name}, is right in "
            f"{percent(share)} %{chance}; try more training."
        )
    lost = [row for row in ranked if shares[row.name].mean < guessed]
    text = f"{probe.words.purpose}, use {best.name}: {where} {probe.words.answer} is right in {percent(share)} %"
    if lost:
        return f"{text}, while {_listed(lost)} can only guess."
    return f"{text}, {ranked[-1].name}, the last, in {percent(shares[ranked[-1].name])} %."


def guessing_limit(chance: float | None, total: int) -> float:
    """The share below which a model may as well have guessed; a half where guessing is next to never right."""
    if chance is None:
        return 0.5
    error = math.sqrt(chance * (1 - chance)) / math.sqrt(max(1, total))
    return chance + _ERRORS * error


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
