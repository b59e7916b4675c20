"""A comparison as plain text, for a terminal of 120 columns.

Which model to use when, in plain sentences, every word of which follows from the figures of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from thereafter.base.tabular import aligned
from thereafter.comparing.differences import MeanSpread, ModelDifference
from thereafter.comparing.rows import Compared, PairMean, PairTable, ProbeRows, Row
from thereafter.figures.lines import join_words

COLUMNS = ("model", "tokens", "bits/byte", "perplexity", "parameters", "train tok/s", "next ms", "size MB", "train s")
PAIRS = "pairs %"
SEEN = "tokens seen"
"""The column beside the others where the budget is minutes: what a model could read in them."""
DIFFERENCES = (
    "The interval says what another test part could change, the spread over seeds what another training could.",
    "reversed: the share of resamples in which the order of the two is the other one.",
)
WIDTH = 120
_NAME = 20


def table(comparison: Compared) -> str:
    """All tables of a comparison, and what is to be known about them."""
    parts = [lay_out(*score_table(comparison)), *legend(comparison)]
    if comparison.differences:
        title, heads, lines = difference_table(comparison.differences)
        parts += ["", title, lay_out(heads, lines), *DIFFERENCES]
    for probed in comparison.probes():
        for title, heads, lines in probe_tables(probed):
            parts += ["", title, lay_out(heads, lines)]
    return "\n".join(parts)


def score_table(comparison: Compared) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the first table."""
    heads, lines = list(COLUMNS), [cells(row) for row in comparison.rows]
    if is_timed(comparison):
        heads.append(SEEN)
        lines = [[*line, amount(row.seen)] for line, row in zip(lines, comparison.rows, strict=True)]
    if comparison.pairs is not None:
        heads.append(PAIRS)
        pairs = comparison.pairs
        shares = [_with_interval(pairs.mean(row.name)) if row.name in pairs.models else "-" for row in comparison.rows]
        lines = [[*line, share] for line, share in zip(lines, shares, strict=True)]
    return heads, lines


def pairs_table(pairs: PairTable) -> tuple[str, list[str], list[list[str]]]:
    """Title, heads and lines of the table of minimal pairs: a line a group, a column a model."""
    title = f"Minimal pairs of {pairs.name}: % in which the good sentence is likelier (95 % interval), of those judged"
    lines = [
        [group, f"{pairs.mean(next(iter(pairs.models)), (by, group)).total:,}"]
        + [_with_interval(pairs.mean(name, (by, group))) for name in pairs.models]
        for by, group in pairs.group_names()
    ]
    return title, ["group", "pairs", *map(_short, pairs.models)], lines


def _with_interval(mean: PairMean) -> str:
    """ "67.1 (64.2 to 69.9)"; a dash where no pair could be judged."""
    if not mean.judged:
        return "-"
    return f"{percent(mean.accuracy)} ({100 * mean.low:.1f} to {100 * mean.high:.1f})"


def is_timed(comparison: Compared) -> bool:
    """Whether the budget was a time, so that the machine decides what each model could read. The studio puts models
    side by side that were trained apart, with no budget in common."""
    return "minutes" in comparison.about.get("budget", {})


def cells(row: Row) -> list[str]:
    """One row of the first table, in the order of `COLUMNS`."""
    trial = row.first
    return [
        _short(row.name),
        trial.tokens,
        figure(row.bits_per_byte, 4),
        figure(row.perplexity, 2),
        amount(trial.parameters),
        amount(row.tokens_per_second),
        f"{1e3 * row.latency:.3f}",
        f"{trial.size / 1e6:.2f}",
        f"{row.seconds:.1f}",
    ]


def legend(comparison: Compared) -> list[str]:
    """What the columns mean, a sentence a line."""
    rows = comparison.rows
    seeds = max((len(row.trials) for row in rows), default=0)
    kinds = {row.first.tokens for row in rows}
    better = "Fewer bits per byte and a lower perplexity are better."
    if len(kinds) > 1:
        tokens = "Bits per byte can be compared between all rows, perplexity only between rows with the same tokens."
    else:
        tokens = "All rows have the same tokens; against models with other tokens only bits per byte can be compared."
    lines = [*_tested(comparison), better, *comparison.left_out(), tokens]
    if seeds > 1:
        lines.append(f"± is the standard deviation over {seeds} seeds; models without randomness are trained once.")
    if any(row.first.model == "ngram" for row in rows):
        lines.append("The parameters of an n-gram model are the n-grams it stores.")
    if is_timed(comparison):
        lines.append("tokens seen: what a model was trained on in its minutes; a busy machine makes them fewer.")
    lines.append("next ms: the median time to read a token and predict the next. size MB: the files needed to use it.")
    return lines + ([] if comparison.pairs is None else _pairs_legend(comparison.pairs))


def _tested(comparison: Compared) -> list[str]:
    """On what the scores were measured; nothing where the models were not trained by this comparison."""
    if "bytes" not in comparison.about or not comparison.rows:
        return []
    score = comparison.rows[0].first.score
    sizes = ", ".join(f"{score[name]:,} {name}" for name in ("lines", "bytes") if name in score)
    part = f"the test part ({sizes})" if sizes else "the test part"
    return [f"Tested on {part}, which was not used for training or for choosing weights."]


def _pairs_legend(pairs: PairTable) -> list[str]:
    """What the column of pairs says, and of how many pairs."""
    counts = {name: pairs.mean(name).judged for name in pairs.models}
    about = f"pairs %: minimal pairs of {pairs.name} whose good sentence is likelier, with its 95 % interval (Wilson)."
    if all(count == pairs.total for count in counts.values()):
        return [about, f"All {pairs.total:,} pairs are judged; chance is 50."]
    each = len(set(counts.values())) > 1
    judged = [f"{name} {count:,}" if each else f"{count:,}" for name, count in counts.items()]
    of_all = f"{', '.join(judged) if each else judged[0]} of {pairs.total:,} pairs"
    return [about, f"Judged are {of_all}; the others differ in a word that the model does not know. Chance is 50."]


def difference_table(differences: Sequence[ModelDifference]) -> tuple[str, list[str], list[list[str]]]:
    """Title, heads and lines of the table of differences from the best model."""
    first = differences[0]
    title = f"How much better {first.better} is: {first.method}, {first.difference.resamples:,} resamples"
    heads = ["than", "bits/byte", "95 % interval", "reversed"]
    lines = [
        [_short(one.other), one.number, one.interval, f"{100 * one.difference.reversed:.1f} %"] for one in differences
    ]
    if any(one.ratio for one in differences):
        heads.append("perplexity ratio")
        ratios = [difference.ratio for difference in differences]
        shown = [f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})" if one else "-" for one in ratios]
        lines = [[*line, ratio] for line, ratio in zip(lines, shown, strict=True)]
    return title, heads, lines


def probe_tables(probed: ProbeRows) -> list[tuple[str, list[str], list[list[str]]]]:
    """Titles, heads and lines of the tables of a probe."""
    probe, rows = probed.probe, probed.rows
    about = f"% right of {probed.results[0].overall.total:,} {probe.words.items}"
    about += "" if probe.chance is None else f", chance {100 * probe.chance:g}"
    return [
        (
            f"{table.title}: {about}",
            ["model", *(column.label for column in table.columns)],
            [
                [_short(row.name), *(percent(probed.accuracy(row, column.count)) for column in table.columns)]
                for row in rows
            ],
        )
        for table in probe.tables(probed.results)
    ]


def figure(value: MeanSpread, digits: int) -> str:
    """A mean with its spread, the digits as many as asked, fewer where the number is large."""
    if not math.isfinite(value.mean):
        return "inf" if value.mean > 0 else "-"
    digits = max(0, digits - max(0, int(math.log10(max(abs(value.mean), 1.0))) - 1))
    spread = "" if value.spread is None else f" ±{value.spread:.{digits}f}"
    return f"{value.mean:,.{digits}f}{spread}"


def percent(share: MeanSpread) -> str:
    """A share as per cent, with its spread."""
    if not math.isfinite(share.mean):
        return "-"
    spread = "" if share.spread is None else f" ±{100 * share.spread:.1f}"
    return f"{100 * share.mean:.1f}{spread}"


def amount(number: float) -> str:
    """Three digits of a number: 123, 12.3k, 1.23M."""
    if not math.isfinite(number):
        return "-"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _short(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"


def lay_out(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns side by side: the first to the left, numbers to the right, as far apart as the width allows."""
    columns = [list(column) for column in zip_longest(heads, *lines, fillvalue="")]
    widths = [max(map(len, column)) for column in columns]
    gap = "  " if sum(widths) + 2 * len(widths) <= WIDTH else " "
    numeric = [any(cell[:1].isdigit() or cell in ("-", "inf") for cell in column[1:]) for column in columns]
    to_right = ["" in column or numbers for column, numbers in zip(columns, numeric, strict=True)]
    shown = aligned(columns, to_right, gap)
    rule = "-" * max(map(len, shown))
    return "\n".join([shown[0], rule, *shown[1:]])


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
        others, names = (
            [("another seed", by_seed), ("another test text", by_text)],
            join_words(row.name for row in level),
        )
        return f"{text}; with {' or '.join(what for what, rows in others if rows)}, {names} may be as good."
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
        return f"{text}, while {join_words(row.name for row in lost)} can only guess."
    return f"{text}, {ranked[-1].name}, the last, in {percent(shares[ranked[-1].name])} %."


def guessing_limit(chance: float | None, total: int) -> float:
    """The share below which a model may as well have guessed; a half where guessing is next to never right."""
    if chance is None:
        return 0.5
    error = math.sqrt(chance * (1 - chance)) / math.sqrt(max(1, total))
    return chance + _ERRORS * error


def _time(seconds: float) -> str:
    """A time in words, three digits at most."""
    if seconds >= 120:
        return f"{seconds / 60:.1f} minutes"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
