"""What figures depend on beside the model: the machine and the versions of what ran on it."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from thereafter.processor import processor
from thereafter.version import __version__

_PACKAGES = ("numpy", "torch", "numba", "tokenizers")


def versions() -> dict[str, str]:
    """Versions of this package, of Python, and of the packages that compute."""
    numbers = {"thereafter": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            numbers[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return numbers


def machine() -> str:
    """The processor, how many threads torch takes of it, the GPU if there is one, the system."""
    parts = [processor().name, f"{os.cpu_count()} cores"]
    try:
        import torch
    except ModuleNotFoundError:
        pass
    else:
        parts.append(f"{torch.get_num_threads()} threads of torch")
        if torch.cuda.is_available():
            parts.append(torch.cuda.get_device_name())
    return ", ".join([*parts, f"{platform.system()} {platform.machine()}"])
