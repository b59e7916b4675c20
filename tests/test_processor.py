"""What is read of a processor, from the texts that systems show: x86 and ARM, Linux and macOS, and nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusals import assert_refused
from thereafter.base import compiled, processor
from thereafter.base.processor import USUAL_LEVEL_1, USUAL_LEVEL_2, Processor, read, with_caches
from thereafter.errors import OptionError

XEON = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz
flags\t\t: fpu sse sse2 fma avx avx2 avx512f avx512dq avx512bw avx512vl avx512_vnni

processor\t: 1
model name\t: another
flags\t\t: fpu
"""
SAPPHIRE = "model name : a later one\nflags : sse2 fma avx2 avx512f avx512_vnni avx512_bf16 amx_bf16 amx_tile\n"
OLD = "model name : an older one\nflags : fpu sse sse2 avx\n"
NEOVERSE = """\
processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
GRAVITON = "Features : fp asimd asimdhp asimddp sve bf16 i8mm\nCPU implementer : 0x41\nCPU part : 0xd40\n"
UNKNOWN_ARM = "Features : fp asimd\nCPU implementer : 0x41\nCPU part : 0xfff\n"
APPLE = """\
hw.ncpu: 8
hw.l2cachesize: 4194304
hw.perflevel0.l2cachesize: 12582912
hw.l1dcachesize: 65536
hw.optional.neon: 1
hw.optional.arm.FEAT_BF16: 0
hw.optional.arm.FEAT_DotProd: 1
machdep.cpu.brand_string: Apple M1
"""
INTEL_MAC = """\
hw.l2cachesize: 262144
machdep.cpu.brand_string: Intel(R) Core(TM) i7
machdep.cpu.features: FPU SSE SSE2 FMA AVX1.0
machdep.cpu.leaf7_features: AVX2 BMI2
"""


def linux(root: Path, cpuinfo: str | None, caches: dict[str, tuple[str, str, str]]) -> Path:
    """The files that Linux shows, below a folder."""
    if cpuinfo is not None:
        (root / "proc").mkdir()
        (root / "proc/cpuinfo").write_text(cpuinfo)
    for index, parts in caches.items():
        folder = root / "sys/devices/system/cpu/cpu0/cache" / index
        folder.mkdir(parents=True)
        for name, text in zip(("level", "type", "size"), parts, strict=True):
            if text:
                (folder / name).write_text(f"{text}\n")
    return root


def has(found: Processor) -> set[str]:
    assert found.features is not None
    return {name for name, there in found.features.items() if there}


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "name", "features"),
    [
        ("x86_64", XEON, "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", {"FMA", "AVX2", "AVX-512", "VNNI"}),
        ("x86_64", SAPPHIRE, "a later one", {"FMA", "AVX2", "AVX-512", "VNNI", "bf16", "AMX"}),
        ("x86_64", OLD, "an older one", set()),
        ("aarch64", NEOVERSE, "Neoverse-N1", {"NEON", "float16", "dot product"}),
        ("aarch64", GRAVITON, "Neoverse-V1", {"NEON", "float16", "dot product", "SVE", "bf16"}),
        ("aarch64", UNKNOWN_ARM, "ARM part 0xfff", {"NEON"}),
    ],
    ids=["xeon", "sapphire", "old", "neoverse", "graviton", "unknown"],
)
def test_linux(machine: str, cpuinfo: str, name: str, features: set[str], tmp_path: Path) -> None:
    found = read(linux(tmp_path, cpuinfo, {}), machine, "", None)
    assert (found.architecture, found.name, has(found)) == (machine, name, features)
    line = found.lines()["processor"]
    assert line.startswith(f"{name} ({machine}): ")
    assert line.endswith("(from /proc/cpuinfo)")
    assert ("no bf16" in line) == ("bf16" not in features)


def test_caches_go_by_their_level_not_by_their_place(tmp_path: Path) -> None:
    parts = {
        "index0": ("1", "Data", "32K"), "index1": ("1", "Instruction", "48K"), "index2": ("3", "Unified", "32M"),
        "index3": ("2", "Unified", "1280K"),
    }  # fmt: skip
    found = read(linux(tmp_path, XEON, parts), "x86_64", "", None)
    assert found.caches == {"L1d": 32 << 10, "L1i": 48 << 10, "L2": 1280 << 10, "L3": 32 << 20}
    assert found.level_2 == 1280 << 10
    assert found.lines()["caches"] == (
        "L1d 32 KB, L1i 48 KB, L2 1.25 MB, L3 32 MB (from /sys/devices/system/cpu/cpu0/cache)"
    )


def test_a_container_may_hide_the_sizes(tmp_path: Path) -> None:
    parts = {"index0": ("1", "Data", "64K"), "index2": ("2", "Unified", ""), "index3": ("", "", "nonsense")}
    found = read(linux(tmp_path, NEOVERSE, parts), "aarch64", "", None)
    assert found.caches == {"L1d": 64 << 10}
    assert found.level_2 == USUAL_LEVEL_2
    assert found.lines()["caches"].endswith("; an L2 of 1 MB is assumed")


def test_sizes_by_name_take_the_place_of_what_was_read(tmp_path: Path) -> None:
    parts = {"index0": ("1", "Data", "32K"), "index2": ("2", "Unified", "1M")}
    read_here = read(linux(tmp_path, XEON, parts), "x86_64", "", None)
    assert with_caches(read_here, " ") is read_here
    other = with_caches(read_here, "L2=512K, L3=8M")
    assert other.caches == {"L1d": 32 << 10, "L2": 512 << 10, "L3": 8 << 20}
    assert (other.level_1, other.level_2, other.name) == (32 << 10, 512 << 10, read_here.name)
    assert other.lines()["caches"].endswith("(from /sys/devices/system/cpu/cpu0/cache; L2, L3 from THEREAFTER_CACHES)")
    whole = with_caches(Processor("an architecture", "a name"), "L1d=64K,L2=1M")
    assert whole.lines()["caches"] == "L1d 64 KB, L2 1 MB (from THEREAFTER_CACHES)"
    assert Processor("an architecture", "a name").level_1 == USUAL_LEVEL_1
    for wrong in ("L2", "L2=", "L2=large", "L9=1M", "512K", "L2=0"):
        with assert_refused(OptionError, "L1d", "L1i", "L2", "L3"):
            with_caches(read_here, wrong)


def test_macos(tmp_path: Path) -> None:
    apple = read(tmp_path, "arm64", "arm", lambda: APPLE)
    assert (apple.name, has(apple)) == ("Apple M1", {"NEON", "dot product"})
    assert apple.caches == {"L1d": 64 << 10, "L2": 12 << 20}  # of the faster cores
    assert "(from sysctl)" in apple.lines()["caches"]
    intel = read(tmp_path, "x86_64", "i386", lambda: INTEL_MAC)
    assert (intel.name, has(intel), intel.level_2) == ("Intel(R) Core(TM) i7", {"FMA", "AVX2"}, 256 << 10)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "AMD64", "riscv64", ""])
@pytest.mark.parametrize("sysctl", [None, lambda: ""], ids=["no files", "no answer"])
def test_where_nothing_can_be_read(machine: str, sysctl: object, tmp_path: Path) -> None:
    found = read(tmp_path, machine, "", sysctl)  # type: ignore[arg-type]
    assert found.features is None
    assert found.level_2 == USUAL_LEVEL_2
    lines = found.lines()
    assert "its instructions could not be read" in lines["processor"]
    assert lines["caches"] == "could not be read; an L2 of 1 MB is assumed"
    assert found.name


def test_this_machine_says_something() -> None:
    found = processor.processor()
    assert found.level_2 > 0
    assert all(found.lines().values())
    assert processor.usable() >= 1


def test_a_system_without_sysctl_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert processor._sysctl() == ""


def test_the_command_says_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from typer.testing import CliRunner

    from thereafter.cli import app
    from thereafter.cli.figure import kernels

    assert kernels in [command.callback for command in app.registered_commands]
    unread = Processor("an architecture", "a name")
    monkeypatch.setattr(processor, "processor", lambda: unread)
    done = CliRunner().invoke(app, ["kernels"])
    assert done.exit_code == 0, done.output
    said = dict(line.split(maxsplit=1) for line in done.output.splitlines())
    assert {"reference", "cpu", "processor", "caches", "vectors", "tiles", "threads", "bfloat16"} <= said.keys()
    assert compiled.missing() or {"sharing", "parts"} <= said.keys()
    assert said["processor"] == "a name (an architecture): its instructions could not be read"
    assert said["caches"] == "could not be read; an L2 of 1 MB is assumed"
    assert said["threads"] == f"torch uses {torch.get_num_threads()} of {processor.usable()} processors"
