"""The captions of gradient flows. Every sentence is read off the measured curves, whether or not it fits a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.inspection.decay import in_words
from thereafter.inspection.measurement import Measurement

SAME = 0.02
"""Curves that differ by less than this share of the higher one are described as equal."""


@dataclass(frozen=True)
class FlowCurve:
    """One layer's field of one flow: the label in the legend, and its norm by distance over that at distance 1."""

    label: str
    flow: Measurement
    layer: int
    field: int

    @property
    def norm_D(self) -> NDArray[np.float64]:
        norm_D: NDArray[np.float64] = self.flow["norm"][self.layer, :, self.field]
        return norm_D

    @property
    def first(self) -> float:
        """The norm at distance 1."""
        return float(self.norm_D[self.flow["distance"] == 1][0])

    @property
    def share_D(self) -> NDArray[np.float64]:
        return self.norm_D / self.first if self.first > 0 else np.zeros_like(self.norm_D)

    def direct_D(self) -> NDArray[np.float64] | None:
        """What comes along the direct path alone, on the same scale; None where this field has no direct path."""
        fields = self.flow["field"].tolist()
        memory = "c" if "c" in fields else "h"
        if "direct" not in self.flow.arrays or fields[self.field] != memory or not self.first > 0:
            return None
        direct_D: NDArray[np.float64] = self.flow["direct"][self.layer] / self.first
        return None if np.isnan(direct_D).any() else direct_D


def what_was_measured(flows: Sequence[Measurement], what: str) -> str:
    """Which loss, which states or word vectors, how many of them."""
    counts = " or ".join(map(str, sorted({int(flow.about["losses"]) for flow in flows})))
    if not all(at_verb(flow) for flow in flows):
        return f"Norm of the gradient of the loss at one step in the {what} before it, mean over {counts} losses"
    between = " or ".join(map(str, sorted({int(flow.about["distance"]) for flow in flows})))
    return (
        f"Norm of the gradient of the loss at a verb in the {what} back to its subject, with {between} words between, "
        f"mean over {counts} sentences"
    )


def at_verb(flow: Measurement) -> bool:
    """Whether the losses are those of verbs, each back to its own subject."""
    return flow.about.get("at") == "verb"


def accuracy_at_verbs(flows: Sequence[Measurement]) -> str:
    """How often the verb had the right number, for flows that were measured at verbs."""
    known = [f"{flow.about['model']} {in_words(flow.about['right'])}" for flow in flows if "right" in flow.about]
    return f" Verbs with the right number: {', '.join(known)}." if known else ""


def first_norms(curves: Sequence[FlowCurve]) -> str:
    """The absolute norms one step back, and what can be compared between models."""
    norms = ", ".join(f"{curve.label} {curve.first:.2g}" for curve in curves)
    sizes = " States differ in size and scale between models, so that only shares are compared." * (len(curves) > 1)
    return f" The norm one step back, of which shares are taken: {norms}.{sizes}"


def direct_path_share(curves: Sequence[FlowCurve]) -> str:
    """How much of the gradient in a memory at the farthest distance came along its gates alone."""
    shares = []
    for curve in curves:
        if curve.direct_D() is None:
            continue
        gates, share = (float(curve.flow[key][curve.layer, -1]) for key in ("gates", "additive"))
        shares.append(f"{in_words(share)} in {curve.label} (product of gates {gates:.2g}, mean over units)")
    return (
        f" Of the gradient at the farthest step the direct path (dotted) carries {'; '.join(shares)}." if shares else ""
    )


def comparison_with_first(curves: Sequence[FlowCurve]) -> str:
    """Where the curves of the other models lie above and below the first one, where it is one model's only curve."""
    first = curves[0]
    others = [curve for curve in curves if curve.flow is not first.flow]
    if not others or any(curve.flow is first.flow for curve in curves[1:]):
        return ""
    return f" Against {first.label}: {'; '.join(f'{one.label} {_comparison(one, first)}' for one in others)}."


def _comparison(one: FlowCurve, other: FlowCurve) -> str:
    """Where one curve lies above another and where below, in words, for the distances both have from 2 on."""
    both = range(2, min(len(one.share_D), len(other.share_D)))
    margin = {d: one.share_D[d] - other.share_D[d] for d in both}
    near = {d: SAME * max(one.share_D[d], other.share_D[d]) for d in both}
    above = [d for d in both if margin[d] > near[d]]
    below = [d for d in both if margin[d] < -near[d]]
    if not both:
        return "has no step in common with it"
    if len(above) == len(both):
        return "is larger at every step from 2 on"
    if len(below) == len(both):
        return "is smaller at every step from 2 on"
    parts = [f"{word} at {_ranges(steps)}" for word, steps in (("larger", above), ("smaller", below)) if steps]
    return f"is {' and '.join(parts)} steps" if parts else "lies with it"


def _ranges(steps: list[int]) -> str:
    """
    >>> _ranges([2, 3, 4, 7])
    '2 to 4, 7'
    """
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][-1] + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
