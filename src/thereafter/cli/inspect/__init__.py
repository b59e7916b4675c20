"""`thereafter inspect ...`: instruments, by what they look at.

memory       `memory`, `agreement`, `probe`, `ahead`: what a model still knows, by how far back it was
gradients    `gradients`, `jacobians`
trace        `trace`, `describe`, `dynamics`, `units`: what a model did at every token of a text
pairs        minimal pairs
"""

from thereafter.cli import inspect_app
from thereafter.cli.inspect import gradients, memory, pairs, trace

__all__ = ["gradients", "inspect_app", "memory", "pairs", "trace"]
