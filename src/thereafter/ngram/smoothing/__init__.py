"""Eight methods to turn counts into probabilities, by name in `SMOOTHINGS`.

Each is a function `(counts, cutoffs, **options) -> Weights`.

weights        `Weights`, what all of them return, and the sums they share
relative       maximum likelihood, add-alpha, stupid back-off
katz           Katz's back-off
interpolated   Witten-Bell, absolute discounting, Kneser-Ney and its modified form
"""

from thereafter.base.registry import Registry
from thereafter.ngram.smoothing.weights import Weights

_HERE = "thereafter.ngram.smoothing"

SMOOTHINGS = Registry(
    "smoothing",
    {
        "mle": f"{_HERE}.relative:mle",
        "add-alpha": f"{_HERE}.relative:add_alpha",
        "stupid-backoff": f"{_HERE}.relative:stupid_backoff",
        "katz": f"{_HERE}.katz:katz",
        "witten-bell": f"{_HERE}.interpolated:witten_bell",
        "absolute": f"{_HERE}.interpolated:absolute",
        "kneser-ney": f"{_HERE}.interpolated:kneser_ney",
        "modified-kneser-ney": f"{_HERE}.interpolated:modified_kneser_ney",
    },
)

__all__ = ["SMOOTHINGS", "Weights"]
