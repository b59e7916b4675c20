"""The one place where packages other than numpy and torch are imported."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from thereafter.errors import MissingPackageError


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
        return import_module(package)
    except ModuleNotFoundError as missing:
        top = package.partition(".")[0]
        if missing.name is None or missing.name.partition(".")[0] != top:
            raise  # the package is installed; something it imports is not
        raise MissingPackageError(
            f"{purpose} needs the package {top!r}, which is not installed; try: pip install {install or top}"
        ) from None
