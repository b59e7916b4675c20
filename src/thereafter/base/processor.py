"""The processor: its name, the instruction sets that matter here, its caches, and where that was read.

Linux has it in `/proc` and `/sys` (a container may hide either), macOS in `sysctl`, other systems say little. What
could not be read is reported, never guessed, but for the sizes of caches that are needed: those are assumed.

`THEREAFTER_CACHES=L1d=64K,L2=1M` takes the place of the sizes it names, so that what follows from another machine's can
be tried on this one.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from thereafter.errors import OptionError

USUAL_LEVEL_1, USUAL_LEVEL_2 = 1 << 15, 1 << 20
VARIABLE = "THEREAFTER_CACHES"
_CACHES = Path("sys/devices/system/cpu/cpu0/cache")
_SYSCTL = ("sysctl", "hw", "machdep.cpu")
_UNITS = {"K": 10, "M": 20, "G": 30}
_NAMES = ("L1d", "L1i", "L2", "L3")

# Features by their name here, with their names in the list of Linux and in that of sysctl.
_X86 = {
    "FMA": ("fma", "fma3"),
    "AVX2": ("avx2",),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni", "avx512vnni", "avxvnni"),
    "bf16": ("avx512_bf16", "avx512bf16"),
    "AMX": ("amx_tile", "amx-tile"),
}
_ARM = {
    "NEON": ("asimd", "neon", "advsimd"),
    "dot product": ("asimddp", "feat_dotprod"),
    "float16": ("asimdhp", "feat_fp16"),
    "bf16": ("bf16", "feat_bf16"),
    "SVE": ("sve", "feat_sve"),
    "SVE2": ("sve2", "feat_sve2"),
    "SME": ("sme", "feat_sme"),
}
_PARTS = {
    "0xd08": "Cortex-A72", "0xd0b": "Cortex-A76", "0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1",
    "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2",
}  # fmt: skip


@dataclass(frozen=True)
class Processor:
    """What was read. `features`: which of those that matter it has, None if unknown; `caches`: bytes by name ("L1d",
    "L1i", "L2", "L3"), as one core sees them; `sources`: where features and caches were read."""

    architecture: str
    name: str
    features: Mapping[str, bool] | None = None
    caches: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def level_1(self) -> int:
        """Bytes of the L1 cache for data; a usual size if it is unknown."""
        return self.caches.get("L1d", USUAL_LEVEL_1)

    @property
    def level_2(self) -> int:
        """Bytes of the L2 cache; a usual size if it is unknown."""
        return self.caches.get("L2", USUAL_LEVEL_2)

    def lines(self) -> dict[str, str]:
        """All of it in words."""
        return {"processor": f"{self.name} ({self.architecture}): {self._features()}", "caches": self._caches()}

    def _features(self) -> str:
        if self.features is None:
            return "its instructions could not be read"
        there = [name for name, has in self.features.items() if has]
        missing = [f"no {name}" for name, has in self.features.items() if not has]
        return f"{', '.join(there + missing)} (from {self.sources['features']})"

    def _caches(self) -> str:
        listed = ", ".join(f"{name} {_size(count)}" for name, count in sorted(self.caches.items()))
        read = f"{listed} (from {self.sources['caches']})" if listed else "could not be read"
        return read if "L2" in self.caches else f"{read}; an L2 of {_size(self.level_2)} is assumed"


@cache
def processor() -> Processor:
    """This machine's, read once; the sizes that `THEREAFTER_CACHES` names are taken from there."""
    sysctl = _sysctl if platform.system() == "Darwin" else None
    return with_caches(read(Path("/"), platform.machine(), platform.processor(), sysctl), os.environ.get(VARIABLE, ""))


def with_caches(base: Processor, text: str) -> Processor:
    """The same processor with the caches of a text such as "L1d=64K,L2=1M"."""
    if not text.strip():
        return base
    named = {name.strip(): _bytes(size.strip()) for name, _, size in (part.partition("=") for part in text.split(","))}
    if not all(name in _NAMES and size for name, size in named.items()):
        raise OptionError(
            f"{VARIABLE} is {text!r}; expected sizes of {', '.join(_NAMES)}; try {VARIABLE}=L1d=64K,L2=1M,L3=32M"
        )
    read_from = base.sources.get("caches", "")
    source = f"{read_from}; {', '.join(named)} from {VARIABLE}" if base.caches.keys() - named.keys() else VARIABLE
    return replace(base, caches={**base.caches, **named}, sources={**base.sources, "caches": source})


def usable() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read(root: Path, machine: str, named: str, sysctl: Callable[[], str] | None) -> Processor:
    """The processor by the files under `root` or by `sysctl`; `named`: its name if neither has one."""
    architecture = machine or "unknown architecture"
    if sysctl is not None:
        return _from_sysctl(sysctl(), architecture, named)
    about = _fields(_text(root / "proc/cpuinfo"))
    caches = _linux_caches(root / _CACHES)
    flags = about.get("flags", about.get("features"))
    sources = {"caches": f"/{_CACHES}", "features": "/proc/cpuinfo"}
    return Processor(
        architecture, _linux_name(about) or named or architecture, _known_features(flags, machine), caches, sources
    )


def _linux_name(about: Mapping[str, str]) -> str:
    part = about.get("cpu part", "")
    model = _PARTS.get(part, f"ARM part {part}") if part and about.get("cpu implementer") == "0x41" else ""
    return about.get("model name") or model or about.get("hardware", "")


def _linux_caches(folder: Path) -> dict[str, int]:
    caches = {}
    for index in sorted(folder.glob("index*")):
        level, kind, size = (_text(index / name).strip() for name in ("level", "type", "size"))
        count = _bytes(size)
        if level.isdigit() and count:
            caches[f"L{level}{'' if kind == 'Unified' else kind[:1].lower()}"] = count
    return caches


def _from_sysctl(text: str, architecture: str, named: str) -> Processor:
    about = _fields(text)
    flags = [about.get(f"machdep.cpu.{name}", "") for name in ("features", "leaf7_features")]
    flags += [key.rpartition(".")[2] for key, value in about.items() if key.startswith("hw.optional.") and value == "1"]
    # processors with two kinds of cores list the faster ones as level 0
    sizes = {
        name: _bytes(about.get(f"hw.perflevel0.{key}", about.get(f"hw.{key}", "")))
        for name, key in (
            ("L1d", "l1dcachesize"),
            ("L1i", "l1icachesize"),
            ("L2", "l2cachesize"),
            ("L3", "l3cachesize"),
        )
    }
    features = _known_features(" ".join(flags), architecture)
    caches = {name: size for name, size in sizes.items() if size}
    name = about.get("machdep.cpu.brand_string", "") or named or architecture
    return Processor(architecture, name, features, caches, {"caches": "sysctl", "features": "sysctl"})


def _known_features(flags: str | None, machine: str) -> dict[str, bool] | None:
    """Which of the features that matter are among the flags; None without flags or for other architectures."""
    present = set((flags or "").lower().split())
    table = _ARM if machine.lower() in ("aarch64", "arm64") else _X86 if machine.lower() in ("x86_64", "amd64") else {}
    return {name: not present.isdisjoint(names) for name, names in table.items()} if present and table else None


def _fields(text: str) -> dict[str, str]:
    """The first value of every key of lines `key : value`, keys in lower case."""
    about: dict[str, str] = {}
    for key, _, value in (line.partition(":") for line in text.splitlines()):
        about.setdefault(key.strip().lower(), value.strip())
    return about


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _bytes(size: str) -> int:
    """The bytes of "48K" or "1048576"; 0 if it is not a size."""
    number, unit = (size[:-1], size[-1:].upper()) if size[-1:].upper() in _UNITS else (size, "")
    return int(number) << _UNITS.get(unit, 0) if number.isdecimal() else 0


def _size(count: int) -> str:
    return f"{count / (1 << 20):.4g} MB" if count >= 1 << 20 else f"{count / (1 << 10):.4g} KB"


def _sysctl() -> str:
    try:
        return subprocess.run(_SYSCTL, capture_output=True, text=True, timeout=5, errors="replace").stdout
    except (OSError, subprocess.SubprocessError):
        return ""
