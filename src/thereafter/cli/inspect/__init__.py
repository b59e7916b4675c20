"""`thereafter inspect ...`: one file an instrument."""

from thereafter.cli.inspect import agreement, dynamics, gradients, jacobians, memory, pairs, probe, trace, units

__all__ = ["agreement", "dynamics", "gradients", "jacobians", "memory", "pairs", "probe", "trace", "units"]
