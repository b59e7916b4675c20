"""One model trained once with one seed: what a comparison keeps of it, in files as well."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Self

from thereafter.base.config import Table
from thereafter.base.tabular import finite
from thereafter.errors import FormatError
from thereafter.evaluation.offered import ALWAYS_STORED, PROBES
from thereafter.evaluation.verdicts import Stored

_PROBES = "probes"
_NO_NUMBER_IN_JSON = ("bits_per_byte", "perplexity", "validation")


@dataclass(frozen=True)
class Trial:
    """What came of one model with one seed (None where nothing is random), as plain values.

    `validation` is the bits per byte that chose the weights, `latency` the seconds from token to token, `size` the
    bytes of the files that using the model takes. `curve` has a point for each validation: seconds of training, tokens
    trained on, bits per byte. `probes` are the answers to what the corpus asks, by the name of the probe; in a file
    each stands under that name beside the other values.
    """

    name: str
    model: str
    tokens: str
    seed: int | None
    bits_per_byte: float
    perplexity: float
    validation: float
    parameters: int
    tokens_per_second: float | None
    latency: float
    size: int
    seconds: float
    seen: int
    score: Table
    settings: Table
    training: Table
    run: str
    prompt: str = ""
    sample: str = ""
    curve: list[list[float]] = field(default_factory=list)
    probes: dict[str, Stored] = field(default_factory=dict)

    def as_dict(self) -> Table:
        """For JSON: numbers that are none or infinite become null."""
        values = asdict(self)
        probes = dict.fromkeys(ALWAYS_STORED) | values.pop(_PROBES)
        return {name: finite(value) for name, value in (values | probes).items()}

    @classmethod
    def from_dict(cls, stored: Table) -> Self:
        """What `as_dict` gave; FormatError for anything else."""
        try:
            values = {one.name: stored[one.name] for one in fields(cls) if one.name != _PROBES}
            probes = {name: stored[name] for name in ALWAYS_STORED} | {name: stored.get(name) for name in PROBES}
            no_number = math.inf if values["score"].get("normalised", True) else math.nan
            values |= {name: no_number for name in _NO_NUMBER_IN_JSON if values[name] is None}
            return cls(**values, probes={name: result for name, result in probes.items() if result is not None})
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"the result of a comparison is incomplete or damaged ({error!r}); remove it") from error
