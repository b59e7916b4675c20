"""Whether a claim about forecasts shows in a picture; see `claims`."""

from __future__ import annotations

from collections.abc import Callable

from thereafter.figures.figure import Figure
from thereafter.gallery.claims import per_model, verdict

_WORSE = 1.5  # times the error of one step


def far_is_worse(figure: Figure) -> str:
    """Whether every model errs much more 64 steps ahead than one step ahead."""
    errors = per_model(figure, "steps", "rmse")
    errors.pop("last value", None)
    growth = {model: rows["64"] / rows["1"] for model, rows in errors.items()}
    evidence = ", ".join(f"{model} {factor:.1f}" for model, factor in growth.items())
    figures = f"the error 64 steps ahead over that of one step: {evidence}"
    return verdict(min(growth.values()) > _WORSE, "forecasts lose their quality many steps ahead", figures)


def faults_are_marked(planted: tuple[str, ...]) -> Callable[[Figure], str]:
    """A claim over the faults that were planted at these times."""

    def claim(figure: Figure) -> str:
        marks = dict(zip(figure.words("time"), figure.table["unusual"], strict=True))
        times = [time for time in planted if marks.get(time)]
        others = sum(bool(mark) for mark in marks.values()) - len(times)
        return (
            f"Planted were {len(planted)} faults, {len(times)} of which are marked; {others} other "
            f"{'point is' if others == 1 else 'points are'} marked."
        )

    return claim
