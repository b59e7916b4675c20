"""`thereafter inspect ...`: one file an instrument."""

from thereafter.cli.app import inspect_app
from thereafter.cli.inspect import (
    agreement,
    ahead,
    describe,
    dynamics,
    gradients,
    jacobians,
    memory,
    pairs,
    probe,
    trace,
    units,
)

__all__ = [
    "agreement",
    "ahead",
    "describe",
    "dynamics",
    "gradients",
    "inspect_app",
    "jacobians",
    "memory",
    "pairs",
    "probe",
    "trace",
    "units",
]
