"""Differences between the models of a comparison: how large, how sure, and what other seeds would change.

Each model is compared with the best. The interval is that of a paired bootstrap over the lines of the test part, or
over the examples of a task; where a model has several seeds its figures are the mean over them, and the spread between
seeds stands beside: the one says what another test part could change, the other what another training could.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from thereafter.comparing.line_sums import LineSums
from thereafter.comparing.model_difference import BITS, ModelDifference, Ratio, SeedSpread
from thereafter.comparing.rows import Row
from thereafter.evaluation.bootstrap import (
    LEAST,
    Floats,
    block_length,
    interval,
    paired_difference,
    resample_sums,
)

NO_INTERVALS = f"no intervals of differences: they take at least {LEAST} lines in the test part and two finite scores"


def model_differences(rows: Sequence[Row], lines: Mapping[str, Sequence[LineSums]]) -> tuple[ModelDifference, ...]:
    """Every model against the best, in bits per byte; `lines` has the sums of each seed by the name of the model.

    Left out: models without probabilities, without sums, or with an infinite score; all of them where there are too few
    lines.
    """
    means = {row.name: LineSums.mean(lines[row.name]) for row in rows if row.normalised and lines.get(row.name)}
    able = [row for row in rows if row.name in means and math.isfinite(row.bits_per_byte.mean)]
    if len(able) < 2:
        return ()
    best = min(able, key=lambda row: row.bits_per_byte.mean)
    bytes_L = means[best.name].bytes_L
    others = [row for row in able if row is not best and np.array_equal(means[row.name].bytes_L, bytes_L)]
    if len(bytes_L) < LEAST or not others:
        return ()
    ranked = [best, *sorted(others, key=lambda row: row.bits_per_byte.mean)]
    running = any(row.first.score.get("context") == "stream" for row in ranked)
    block = block_length(len(bytes_L)) if running else 1
    columns = [bytes_L]
    for row in ranked:
        columns += [means[row.name].bits_L, means[row.name].nats_L, means[row.name].tokens_L]
    statistics_LS = np.stack(columns, axis=1)
    sums_RS = np.vstack([statistics_LS.sum(axis=0), resample_sums(statistics_LS, block=block)])  # first the whole
    bytes_R, per_model = sums_RS[:, 0], {row.name: sums_RS[:, 1 + 3 * at : 4 + 3 * at] for at, row in enumerate(ranked)}

    def against_best(row: Row) -> ModelDifference:
        own, other = (per_model[name] for name in (best.name, row.name))
        better_R, worse_R = own[:, 0] / bytes_R, other[:, 0] / bytes_R
        difference = paired_difference(
            worse_R[0], better_R[0], worse_R[1:], better_R[1:], examples=len(bytes_L), block=block
        )
        alike = _tokens(row) == _tokens(best) and np.array_equal(own[0, 2], other[0, 2])
        ratio = _ratio((other[:, 1] - own[:, 1]) / own[:, 2]) if alike else None
        return ModelDifference(best.name, row.name, BITS, "lines", difference, (_seeds(best), _seeds(row)), ratio)

    return tuple(against_best(row) for row in ranked[1:])


def _seeds(row: Row) -> SeedSpread:
    seeds = sum(trial.seed is not None for trial in row.trials)
    return SeedSpread(seeds, row.bits_per_byte.spread)


def _tokens(row: Row) -> tuple[str, object]:
    """What must be the same for two perplexities to compare."""
    return row.first.tokens, row.first.score.get("vocabulary")


def _ratio(nats_R: Floats) -> Ratio:
    """From nats a token that one model needs more than the other: on the whole first, then over resamples."""
    low, high = interval(nats_R[1:])
    return Ratio(*(float(value) for value in np.exp([nats_R[0], low, high])))
