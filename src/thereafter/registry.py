"""Objects by name: nothing is imported before it is used, and an unknown name is an error.

>>> pets = Registry("pet", {"counter": "collections:Counter"})
>>> pets.load("counter").__name__
'Counter'
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from thereafter.errors import UnknownNameError


class Registry:
    """A table of `name -> "module:attribute"`, resolved on demand."""

    def __init__(self, kind: str, paths: dict[str, str]) -> None:
        self.kind = kind
        self._paths = dict(paths)

    @property
    def paths(self) -> dict[str, str]:
        """The table."""
        return self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __contains__(self, name: object) -> bool:
        return name in self.paths

    def add(self, name: str, path: str) -> None:
        """Register `"package.module:attribute"` under a new name; an existing name is not replaced."""
        if self.paths.get(name, path) != path:
            raise ValueError(f"the {self.kind} {name!r} is already registered as {self.paths[name]}")
        self._paths[name] = path

    def load(self, name: str) -> Any:
        """The object registered under `name`; UnknownNameError names the nearest ones."""
        paths = self.paths
        if name not in paths:
            raise UnknownNameError(self.kind, name, paths)
        module, _, attribute = paths[name].partition(":")
        return getattr(import_module(module), attribute)
