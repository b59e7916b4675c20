"""The processor: its name, the instruction sets that matter here, its caches, and where that was read.

Linux has it in `/proc` and `/sys` (a container may hide either), macOS in `sysctl`, other systems say little. What
could not be read is reported, never guessed, but for the sizes of caches that are needed: those are assumed.

`THEREAFTER_CACHES=L1d=64K,L2=1M` takes the place of the sizes it names, so that what follows from another machine's can
be tried on this one.

The tile of a matrix product that the processor's registers and its first cache have room for.

A tile of R rows and V vectors keeps R V sums in registers, beside V vectors of the matrix and one number of a row,
spread out: R V + V + 1 of them at most. Each of its R V products takes (R + V) / (R V) loads:

| registers | a panel of 4 vectors as | rows | sums | loads a product |
|---|---|---|---|---|
| 32 (AVX-512, ARM) | 4 | 6 | 24 | 0.42 |
| 16 (AVX2, SSE) | 2 and 2 | 6 | 12 | 0.67 |
| 16 (AVX2, SSE) | 4 | 2 | 8 | 0.75 |

Eight sums are too few to hide how long a product takes: code for AVX2 made 66 billion operations a second with two
tiles of two vectors, 57 with one of four (one core of an Intel Xeon, 2026-11-17).

A panel of a matrix, up to four vectors wide, is gone through in parts of `depth` rows, which stay in the first cache
while all rows of the batch are multiplied by them. A part fills that cache: with half of it products are 5 % slower
where vectors are 64 bytes long (sums are read and written twice as often), with twice as much no faster.

`THEREAFTER_VECTORS=16x32` (bytes of a vector x registers) takes the place of what was found: other machines' code can
be run, and timed, on this one. Machine code of different figures is kept apart.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from thereafter.base.packages import installed, require
from thereafter.errors import OptionError

USUAL_LEVEL_1, USUAL_LEVEL_2 = 1 << 15, 1 << 20
_CACHES_NAME = "THEREAFTER_CACHES"
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
        """A description for the user."""
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
    return with_caches(
        read(Path("/"), platform.machine(), platform.processor(), sysctl), os.environ.get(_CACHES_NAME, "")
    )


def with_caches(base: Processor, text: str) -> Processor:
    """The same processor with the caches of a text such as "L1d=64K,L2=1M"."""
    if not text.strip():
        return base
    named = {name.strip(): _bytes(size.strip()) for name, _, size in (part.partition("=") for part in text.split(","))}
    if not all(name in _NAMES and size for name, size in named.items()):
        raise OptionError(
            f"{_CACHES_NAME} is {text!r}; expected sizes of {', '.join(_NAMES)}; "
            f"try {_CACHES_NAME}=L1d=64K,L2=1M,L3=32M"
        )
    read_from = base.sources.get("caches", "")
    source = (
        f"{read_from}; {', '.join(named)} from {_CACHES_NAME}" if base.caches.keys() - named.keys() else _CACHES_NAME
    )
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
    keys = {name: f"{name.lower()}cachesize" for name in _NAMES}
    sizes = {name: _bytes(about.get(f"hw.perflevel0.{key}", about.get(f"hw.{key}", ""))) for name, key in keys.items()}
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


PANEL = 4  # vectors of a panel at most: an LSTM's gates
_VECTORS_NAME = "THEREAFTER_VECTORS"
_MOST_ROWS = 6  # each height is code of its own
_DEPTHS = 64, 512  # rows of a part of a panel, fewest and most
_TRY = f"try {_VECTORS_NAME}=16x32 (ARM), 32x16 (AVX2) or 64x32 (AVX-512)"


@dataclass(frozen=True)
class Vectors:
    """The bytes of a vector register and how many there are; `source`: where that was read."""

    bytes: int
    registers: int
    source: str = ""

    @classmethod
    def from_text(cls, text: str) -> Vectors:
        """From "16x32"."""
        parts = re.fullmatch(r"(\d{1,3})x(\d{1,3})", text.strip())
        size, registers = (int(part) for part in parts.groups()) if parts else (0, 0)
        if size not in (16, 32, 64) or not 8 <= registers <= 64:
            raise OptionError(
                f"{_VECTORS_NAME} is {text!r}; expected bytes of a vector (16, 32 or 64) x registers (8 to 64); {_TRY}"
            )
        return cls(size, registers, _VECTORS_NAME)


@dataclass(frozen=True)
class Tiling:
    """What is settled when the loops are compiled: vectors, and `depth`, rows of a panel at a time."""

    vectors: Vectors
    depth: int

    def width(self, panel: int) -> int:
        """Vectors of a tile in a panel of `panel` vectors: all of them, or half if they would leave too few rows."""
        return panel if self.most_rows(panel) >= _MOST_ROWS // 2 or panel % 2 else panel // 2

    def rows(self, panel: int) -> int:
        """Rows of a tile in a panel of `panel` vectors."""
        return self.most_rows(self.width(panel))

    def most_rows(self, vectors: int) -> int:
        """Rows of a tile of `vectors` vectors."""
        return max(1, min(_MOST_ROWS, (self.vectors.registers - vectors - 1) // vectors))

    @property
    def key(self) -> str:
        """The key that distinguishes machine code of these figures from that of others."""
        tiles = [f"{self.rows(panel)}x{self.width(panel)}" for panel in range(1, PANEL + 1)]
        return f"{self.vectors.bytes} {self.depth} {' '.join(tiles)}"

    def lines(self) -> dict[str, str]:
        """A description for the user."""
        own = self.vectors
        tiles = f"{self.rows(PANEL)} rows x {self.width(PANEL)} vectors"
        part = self.depth * PANEL * own.bytes >> 10
        return {
            "vectors": f"{own.bytes} bytes, {own.registers} registers (from {own.source})",
            "tiles": f"{tiles}, {self.depth} rows of a panel at a time ({part} KB)",
        }


def tiling_for(vectors: Vectors, level_1: int) -> Tiling:
    """The tiling for these vectors and a first cache of `level_1` bytes."""
    depth = level_1 // (PANEL * vectors.bytes)
    fewest, most = _DEPTHS
    return Tiling(vectors, max(fewest, min(most, depth // _DEPTHS[0] * _DEPTHS[0])))


@cache
def tiling() -> Tiling:
    """This machine's, read once."""
    return tiling_for(vectors(), processor().level_1)


def vectors() -> Vectors:
    """This machine's, or what `THEREAFTER_VECTORS` says."""
    named = os.environ.get(_VECTORS_NAME)
    return Vectors.from_text(named) if named else read_vectors(platform.machine(), _features())


def read_vectors(machine: str, features: dict[str, bool]) -> Vectors:
    """By the architecture, and by what LLVM says of an x86 processor: code is compiled for that."""
    if machine.lower() in ("aarch64", "arm64"):
        return Vectors(16, 32, machine)
    if features.get("avx512f"):
        return Vectors(64, 32, "LLVM: AVX-512")
    if features.get("avx"):
        return Vectors(32, 16, "LLVM: AVX")
    return Vectors(16, 16, "LLVM: SSE" if features else "nowhere: the fewest are assumed")


def _features() -> dict[str, bool]:
    if not installed("llvmlite"):
        return {}
    try:
        features: dict[str, bool] = require("llvmlite.binding", "a compiled loop").get_host_cpu_features()
    except RuntimeError:  # a processor that LLVM cannot ask
        return {}
    return features
