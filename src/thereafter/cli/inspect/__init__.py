"""`thereafter inspect ...`: one file an instrument."""

from thereafter.cli.inspect import dynamics, gradients, jacobians, memory, pairs, probe, trace, units

__all__ = ["dynamics", "gradients", "jacobians", "memory", "pairs", "probe", "trace", "units"]
