"""`thereafter inspect ...`: instruments, by what they look at.

memory       `memory`, `agreement`, `probe`, `ahead`: what a model still knows, by how far back it was; `gradients` and
             `jacobians`: how far a gradient travels back
trace        `trace`, `describe`, `dynamics`, `units`: what a model did at every token of a text; minimal pairs
"""

from thereafter.cli import inspect_app
from thereafter.cli.inspect import memory, trace

__all__ = ["inspect_app", "memory", "trace"]
