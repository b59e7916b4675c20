"""Where numba keeps the machine code of our loops: by the module they stand in, not by the path of its file.

So every copy of the same version (a second clone, another virtual environment) finds what the first one compiled. The
folder above it (`compiled.kernel_folder`) already depends on the content of all loops. Imported by numba alone.
"""

from __future__ import annotations

from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator

PACKAGE = Path(__file__).parents[1]


class ModuleLocator(UserProvidedCacheLocator):
    """numba's locator for a folder that the user names, below which a path of ours is relative to the package."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        path = Path(py_file).with_suffix("")
        return "_".join(path.relative_to(PACKAGE).parts if path.is_relative_to(PACKAGE) else path.parts[1:])
