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
        return isinstance(name, str) and self.path_of(name) is not None

    def path_of(self, name: str) -> str | None:
        """What a name stands for; None if it is unknown."""
        return self.paths.get(name)

    def add(self, name: str, path: str) -> None:
        """Register `"package.module:attribute"` under a new name; an existing name is not replaced."""
        if self.paths.get(name, path) != path:
            raise ValueError(f"the {self.kind} {name!r} is already registered as {self.paths[name]}")
        self._paths[name] = path

    def load(self, name: str) -> Any:
        """The object registered under `name`; UnknownNameError names the nearest ones."""
        path = self.path_of(name)
        if path is None:
            raise UnknownNameError(self.kind, name, self.paths)
        module, _, attribute = path.partition(":")
        return getattr(import_module(module), attribute)
