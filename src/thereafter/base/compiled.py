"""The only access to numba: a loop is compiled when it is first called, and cached for the next process.

numba is optional. A caller checks `available()` and falls back to its readable numpy twin.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import cache, update_wrapper, wraps
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from thereafter.base import progress
from thereafter.base.packages import installed, require
from thereafter.base.processor import tiling
from thereafter.base.storage import cache_folder, take_lock

_LOCATOR = "thereafter.base.loop_cache.ModuleLocator"
_compiling = threading.RLock()
_requested = 0  # items that plain twins were requested for, see `pays`
_CALL, _WORTH = 800, 500_000  # items: the overhead of a call, and from where on numba pays

P = ParamSpec("P")
R = TypeVar("R")


def missing() -> str | None:
    """Why loops cannot be compiled here; None where they can."""
    if os.environ.get("THEREAFTER_NUMBA") == "0":
        return "numba is switched off (THEREAFTER_NUMBA=0)"
    return None if installed("numba") else "numba is not installed (try: pip install numba)"


@cache
def available() -> bool:
    """Whether loops can be compiled here. Says so once, as a note, when they cannot."""
    reason = missing()
    if reason is not None:
        progress.note(f"{reason}: compiled loops are left to their slower twins")
    return reason is None


def pays(items: int) -> bool:
    """Whether a compiled loop is worth the import of numba, if it runs over this many more items.

    Counts what was requested so far: yes once the plain twins have cost about as much as that import (0.8 s), and
    always yes where numba is imported already. An estimate: two threads may overwrite each other's count.
    """
    global _requested
    if "numba" in sys.modules:
        return True
    _requested += _CALL + items
    return _requested > _WORTH


def kernel_folder() -> Path:
    """Where machine code is cached: below `$NUMBA_CACHE_DIR`, else in the user's cache; other loops, another folder.

    numba looks at the file of a function, not at those of the loops it calls: after an update it would run a new loop
    inside an old one.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(named) if named else cache_folder() / "numba") / _loops_digest()


@cache
def _loops_digest() -> str:
    """The key of a set of compiled loops: all files that have any, and the figures they are compiled for."""
    digest = hashlib.sha256(tiling().key.encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        source = path.read_bytes()
        if b"thereafter.base.compiled" in source:
            digest.update(source)
    return digest.hexdigest()[:16]


class CFunction(Protocol):
    """A compiled function as C calls it: by its address, or from Python through `ctypes`."""

    address: int

    @property
    def ctypes(self) -> Callable[..., None]: ...


class Compiled(Generic[P, R]):
    """A plain function that becomes machine code at its first call (it runs without the Python lock)."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self._fast: Callable[P, R] | None = None
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._fast is None:
            _note_compiling(self.function)
            self._fast = jit()(self.function)
        return self._fast(*args, **kwargs)


def jit(**options: object) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """numba's own decorator, its machine code kept in `kernel_folder`.

    For modules of loops that call each other: numba is imported there and then, so import such a module only where
    `available()` says yes.
    """
    numba = require("numba", "a compiled loop")

    def compile_when_called(function: Callable[P, R]) -> Callable[P, R]:
        loop: Callable[P, R] = _with_cache(lambda cache: numba.njit(cache=cache, nogil=True, **options)(function))
        return loop

    return compile_when_called


def intrinsic(function: Callable[..., Any]) -> Any:
    """numba's decorator for a function whose machine code is written out: it returns a signature and its generator."""
    return require("numba.extending", "a compiled loop").intrinsic(function)


def c_function(signature: object, function: Callable[..., None]) -> CFunction:
    """The function as C calls it, by its `address`; compiled at once, by one process, and cached like that of `jit`."""
    numba, lock = require("numba", "a compiled loop"), None
    with suppress(OSError):  # without a cache each process compiles for itself
        lock = take_lock(kernel_folder() / f"{function.__name__}.lock", patience=120.0)
    with lock or nullcontext():
        _note_compiling(function)
        compiled: CFunction = _with_cache(lambda cache: numba.cfunc(signature, cache=cache)(function))
    return compiled


def _note_compiling(function: Callable[..., object]) -> None:
    """Tell the user, unless its machine code is cached by an earlier process."""
    if not any(kernel_folder().glob(f"**/*.{function.__name__}-*.nbi")):
        progress.note(f"compiling {function.__name__} for this machine (once)")


def _with_cache(compile_it: Callable[[bool], Any]) -> Any:
    """Compile with a cache in `kernel_folder`, or for this process alone where that folder cannot be written."""
    config = require("numba", "a compiled loop").config
    with _compiling:  # folder and locators are numba's settings for all threads; older ones ignore the second
        before = config.CACHE_DIR, getattr(config, "CACHE_LOCATOR_CLASSES", "")
        config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = str(kernel_folder()), _LOCATOR
        try:
            return compile_it(True)
        except (OSError, RuntimeError):
            return compile_it(False)
        finally:
            config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = before


def compiled_once(make: Callable[P, R]) -> Callable[P, R]:
    """Decorator: compile once for each set of arguments and keep the result for good, also with several threads.

    `functools.cache` alone lets two threads compile at once and drops what one of them got: its machine code may be
    called by address, and must not go away.
    """
    cached = cache(make)

    @wraps(make)
    def compiled_or_cached(*args: P.args, **kwargs: P.kwargs) -> R:
        with _compiling:
            return cached(*args, **kwargs)  # type: ignore[arg-type]

    return compiled_or_cached


def compiled(function: Callable[P, R]) -> Compiled[P, R]:
    """Decorator: compile this loop over arrays on its first call."""
    return Compiled(function)
