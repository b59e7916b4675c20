"""Differences between the networks of a task: each against the best, figure by figure, over resampled examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thereafter.comparing.mean_spread import MeanSpread
from thereafter.comparing.model_difference import ModelDifference, SeedSpread
from thereafter.evaluation.bootstrap import LEAST, Floats, paired_difference, resample_sums
from thereafter.evaluation.resampled import Resampled

_UNIT = "examples"


def task_differences(networks: Mapping[str, Sequence[Resampled]]) -> tuple[ModelDifference, ...]:
    """Every network against the best of each figure; `networks` has the answers of each seed by name.

    A figure of a network is the mean over its seeds, in every resample. The draws are the same for all.
    """
    able = {name: several for name, several in networks.items() if several}
    examples = min((len(one.statistics_NS) for several in able.values() for one in several), default=0)
    if len(able) < 2 or examples < LEAST:
        return ()
    figures = {name: [_figures(one) for one in several] for name, several in able.items()}
    first = next(iter(figures.values()))[0]
    return tuple(
        difference
        for figure in first
        if all(figure in one for several in figures.values() for one in several)
        for difference in _against_best(
            figure, {name: np.stack([one[figure] for one in several]) for name, several in figures.items()}, examples
        )
    )


def _figures(one: Resampled) -> dict[str, Floats]:
    """Each figure of one training, [1 + R]: of the whole first, then of the resamples."""
    statistics_NS = one.statistics_NS
    return dict(one.figures(np.vstack([statistics_NS.sum(axis=0), resample_sums(statistics_NS)])))


def _against_best(figure: str, values: Mapping[str, Floats], examples: int) -> list[ModelDifference]:
    """`values` has an array [seeds, 1 + R] for each network; more is better."""
    means = {name: value.mean(axis=0) for name, value in values.items()}
    best, *others = sorted(means, key=lambda name: -float(means[name][0]))
    return [
        ModelDifference(
            best,
            other,
            figure,
            _UNIT,
            paired_difference(means[best][0], means[other][0], means[best][1:], means[other][1:], examples=examples),
            (_spread(values[best]), _spread(values[other])),
        )
        for other in others
    ]


def _spread(values: Floats) -> SeedSpread:
    return SeedSpread(len(values), MeanSpread.of(values[:, 0].tolist()).spread)
