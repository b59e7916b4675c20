"""The threads that torch's own products run on, as C functions of the OpenMP library that torch has loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from thereafter.base.compiled import compiled_once


class Pool:
    """What the threads of torch are called with; `parallel` is None where they cannot be, and one core does it all."""

    def __init__(self) -> None:
        self._functions: list[object] = []
        self.parallel: Callable[[int, int, int, int], None] | None = None
        self.member = self.members = self.give_way = self.sleep = 0
        library = self._library()
        if library is not None:
            parallel = library.GOMP_parallel
            parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            parallel.restype = None
            self.parallel = parallel
            self.member = self._address(library.omp_get_thread_num)
            self.members = self._address(library.omp_get_num_threads)
            system = ctypes.CDLL(None)
            self.give_way, self.sleep = self._address(system.sched_yield), self._address(system.usleep)

    def _address(self, function: Any) -> int:
        self._functions.append(function)  # an address is good as long as its function is there
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)

    @staticmethod
    def _library() -> ctypes.CDLL | None:
        """The OpenMP library that torch itself has loaded; a second copy of it would be a second pool."""
        for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*")):
            try:
                library = ctypes.CDLL(str(path))
                if all(hasattr(library, name) for name in ("GOMP_parallel", "omp_get_thread_num")):
                    return library
            except OSError:
                continue
        return None


@compiled_once
def pool() -> Pool:
    return Pool()
