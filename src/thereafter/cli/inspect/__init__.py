"""`thereafter inspect ...`: one file an instrument."""

from thereafter.cli.inspect import (
    agreement,
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

__all__ = ["agreement", "describe", "dynamics", "gradients", "jacobians", "memory", "pairs", "probe", "trace", "units"]
