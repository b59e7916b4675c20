"""The one place where packages other than numpy and torch are imported.

Threads that ask their first questions at the same time import the same packages. While one of them imports numba,
`import numba.types` in another would not wait for it but run beside it, and each would find modules of the other that
lack half their names. So packages are imported one at a time, each before its parts. None of them imports modules of
ours that import a package in turn, so the owner of the lock never waits for a thread that waits for the lock.

torch needs no lock as long as every module imports `torch` itself before any part of it (`tests/test_house.py`).
"""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from thereafter.errors import MissingPackageError

_importing = threading.RLock()


def installed(package: str) -> bool:
    """Whether a package can be imported; imports only the parents of a dotted name."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a dotted name whose parent is missing
        return False


def require(package: str, purpose: str, *, install: str | None = None) -> ModuleType:
    """Import a package or say what needs it and how to get it; `install` is what pip calls it, if that is another name.

    >>> require("json", "reading a tokenizer").__name__
    'json'
    """
    try:
        return _import_whole(package)
    except ModuleNotFoundError as missing:
        top = package.partition(".")[0]
        if missing.name is None or missing.name.partition(".")[0] != top:
            raise  # the package is installed; something it imports is not
        raise MissingPackageError(
            f"{purpose} needs the package {top!r}, which is not installed; try: pip install {install or top}"
        ) from None


def _import_whole(package: str) -> ModuleType:
    """A package or a part of one, after its parents; other threads wait until it is imported."""
    outer = package.rpartition(".")[0]
    with _importing:
        if outer:
            _import_whole(outer)
        return import_module(package)
