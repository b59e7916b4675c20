"""Programs for the GPU are compiled once, kept on disk, and never taken from a damaged file."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import gpu_driver_check
import pytest
from gpu_carry import noted

from refusals import assert_refused
from thereafter.base import progress
from thereafter.errors import FormatError, OptionError
from thereafter.kernels.gpu import compiling
from thereafter.kernels.gpu.compiling import (
    TRIED,
    TRITON_OF_TORCH,
    Binary,
    Carried,
    CompiledPrograms,
    Constant,
    CubinFacts,
    Parameter,
    Triton,
    Wanted,
    binary,
    lacks_triton,
    lacks_version,
    note_wanted,
    read_facts,
    scratch_pointers,
    source_digest,
)

HERE = Path(__file__).parent
WANTED = Wanted(
    "gpu_driver_check", "scale", (("x", "*bf16"), ("steps", "i32"), ("width", "i32")), (("BLOCK", 1), ("FORM", "lstm")),
    4, 90, (("width", 8),),
)  # fmt: skip
needs_triton = pytest.mark.skipif(lacks_triton() is not None, reason=f"{lacks_triton()}")


class StandIn:
    """Compiles into what it was asked for, written out, and counts."""

    def __init__(self, version: str = "3.6.0", seconds: float = 0.0) -> None:
        self._version, self._seconds, self.compiled = version, seconds, 0

    def version(self) -> str:
        return self._version

    def compile(self, wanted: Wanted) -> Binary:
        time.sleep(self._seconds)
        self.compiled += 1
        return Binary(repr(wanted).encode(), wanted.function, 70_000, wanted.warps, wanted.arguments, wanted.divisors)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[], Path]:
    return lambda: tmp_path / "cache" / "gpu"


def test_a_program_is_compiled_once_and_kept_for_the_next_process(folder: Callable[[], Path]):
    first, second = StandIn(), StandIn()
    programs = CompiledPrograms(first, folder)
    made = programs.get(WANTED)
    assert programs.get(replace(WANTED)) is made
    assert CompiledPrograms(second, folder).get(WANTED) == made
    assert (first.compiled, second.compiled) == (1, 0)
    assert made.divisors == (16, 1, 8)
    assert [path.name for path in folder().iterdir()] == [programs.path(WANTED).name]


def test_whatever_changes_the_machine_code_changes_the_key(folder: Callable[[], Path]):
    programs = CompiledPrograms(StandIn(), folder)

    def block(value: Constant) -> Wanted:
        return replace(WANTED, constants=(("BLOCK", value), ("FORM", "lstm")))

    wanted = [
        WANTED,
        block(True),
        block(1.0),
        block("1"),
        block(2),
        replace(WANTED, constants=(("BLOCK", 1), ("FORM", "gru"))),
        replace(WANTED, constants=(("FORM", "lstm"), ("BLOCK", 1))),
        replace(WANTED, function="meet"),
        replace(WANTED, module="thereafter.kernels.gpu.compiling"),
        replace(WANTED, arguments=(("x", "*fp16"), *WANTED.arguments[1:])),
        replace(WANTED, arguments=(("y", "*bf16"), *WANTED.arguments[1:])),
        replace(WANTED, warps=8),
        replace(WANTED, capability=80),
        replace(WANTED, aligned=(("width", 16),)),
        replace(WANTED, aligned=()),
    ]
    keys = [programs.key(one) for one in wanted] + [CompiledPrograms(StandIn("3.7.0"), folder).key(WANTED)]
    assert len(set(keys)) == len(keys)
    assert programs.key(replace(WANTED)) == keys[0]
    texts = [programs.get(one).cubin for one in wanted]
    assert texts == [repr(one).encode() for one in wanted]


def test_another_text_of_the_programs_is_another_key(tmp_path: Path):
    digests = [source_digest(tmp_path)]
    (tmp_path / "wide.py").write_text("a = 1")
    digests.append(source_digest(tmp_path))
    (tmp_path / "wide.py").write_text("a = 2")
    digests.append(source_digest(tmp_path))
    (tmp_path / "wide.py").rename(tmp_path / "narrow.py")
    digests.append(source_digest(tmp_path))
    assert len(set(digests)) == 4


def test_a_damaged_file_is_compiled_anew_and_mended(folder: Callable[[], Path]):
    path = CompiledPrograms(StandIn(), folder).path(WANTED)
    made = CompiledPrograms(StandIn(), folder).get(WANTED)
    whole = path.read_bytes()
    other = CompiledPrograms(StandIn(), folder)
    other.get(replace(WANTED, warps=8))
    damaged = [whole[:length] for length in (0, 7, 8, 31, 32, 40, 41, 100, len(whole) - 1)]
    damaged += [whole + b"\0", other.path(replace(WANTED, warps=8)).read_bytes()]
    damaged += [
        whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]
        for place, bit in ((place, place % 8) for place in range(0, len(whole), 7))
    ]
    for content in damaged:
        path.write_bytes(content)
        toolchain = StandIn()
        assert CompiledPrograms(toolchain, folder).get(WANTED) == made
        assert toolchain.compiled == 1
        assert path.read_bytes() == whole


def test_a_folder_in_the_place_of_a_file_is_no_program(folder: Callable[[], Path]):
    toolchain = StandIn()
    CompiledPrograms(toolchain, folder).path(WANTED).mkdir(parents=True)
    assert CompiledPrograms(toolchain, folder).get(WANTED).entry == "scale"
    assert toolchain.compiled == 1


def test_what_a_killed_process_left_behind_is_passed_over(folder: Callable[[], Path]):
    programs = CompiledPrograms(StandIn(), folder)
    folder().mkdir(parents=True)
    (folder() / f".{programs.path(WANTED).name}.abc.tmp").write_bytes(b"half")
    made = programs.get(WANTED)
    again = StandIn()
    assert CompiledPrograms(again, folder).get(WANTED) == made
    assert again.compiled == 0


def test_where_nothing_can_be_written_it_compiles_for_this_process(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    toolchain = StandIn()
    programs = CompiledPrograms(toolchain, lambda: tmp_path / "file" / "gpu")
    assert programs.get(WANTED) is programs.get(WANTED)
    assert toolchain.compiled == 1


def test_a_user_without_a_home_compiles_for_this_process():
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    toolchain = StandIn()
    programs = CompiledPrograms(toolchain, homeless)
    assert programs.get(WANTED) is programs.get(WANTED)
    assert toolchain.compiled == 1


def test_threads_that_ask_at_once_compile_once(folder: Callable[[], Path]):
    toolchain = StandIn(seconds=0.05)
    programs = CompiledPrograms(toolchain, folder)
    together = threading.Barrier(8)
    got: list[Binary] = []

    def ask() -> None:
        together.wait()
        got.append(programs.get(WANTED))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert toolchain.compiled == 1
    assert len(got) == 8
    assert all(one is got[0] for one in got)


def test_a_compile_that_fails_is_tried_again(folder: Callable[[], Path]):
    class FailsOnce(StandIn):
        def compile(self, wanted: Wanted) -> Binary:
            if self.compiled == 0:
                self.compiled = 1
                raise ValueError("no")
            return super().compile(wanted)

    programs = CompiledPrograms(FailsOnce(), folder)
    with pytest.raises(ValueError, match="no"):
        programs.get(WANTED)
    assert programs.get(WANTED).entry == "scale"


def processes(code: str, number: int, environment: dict[str, str]) -> list[str]:
    """What so many new Pythons print that run at the same time."""
    paths = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": paths} | environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(number)
    ]  # fmt: skip
    ended = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * number, ended
    return [printed for printed, _ in ended]


@pytest.mark.wide
def test_two_processes_at_once_read_whole_files_or_none(tmp_path: Path):
    code = (
        "from pathlib import Path\nfrom test_gpu_compiling import WANTED, CompiledPrograms, StandIn\n"
        f"folder = lambda: Path({str(tmp_path)!r})\n"
        "path = CompiledPrograms(StandIn(), folder).path(WANTED)\n"
        "for _ in range(100):\n"
        "    path.unlink(missing_ok=True)\n"
        "    assert CompiledPrograms(StandIn(), folder).get(WANTED).cubin == repr(WANTED).encode()\n"
        "print('done')"
    )
    assert processes(code, 2, {}) == ["done\n"] * 2
    assert [path.suffix for path in tmp_path.iterdir()] in ([".program"], [])


def test_the_user_hears_of_a_first_compile(folder: Callable[[], Path]):
    class Notes(progress.Silent):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def note(self, message: str) -> None:
            self.notes.append(message)

    reporter = Notes()
    with progress.reporting(reporter):
        CompiledPrograms(StandIn(), folder).get(WANTED)
        CompiledPrograms(StandIn(), folder).get(WANTED)
    assert reporter.notes == ["compiling scale for this GPU (once)"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: replace(WANTED, arguments=(("x", "*bf17"),)), "bf17"),
        (lambda: replace(WANTED, aligned=(("x", 3),)), "2, 4, 8 or 16"),
        (lambda: replace(WANTED, aligned=(("steps", 32),)), "2, 4, 8 or 16"),
        (lambda: replace(WANTED, aligned=(("nothing", 16),)), "an integer or a pointer"),
        (lambda: replace(WANTED, warps=3), "power of two"),
    ],
)
def test_what_cannot_be_wanted_is_refused(wrong: Callable[[], Wanted], words: str):
    with pytest.raises(OptionError, match=words):
        wrong()


def test_a_module_without_a_file_is_refused(folder: Callable[[], Path]):
    with assert_refused(OptionError, "thereafter.nowhere"):
        CompiledPrograms(StandIn(), folder).get(replace(WANTED, module="thereafter.nowhere"))


def test_where_triton_is_missing_one_sentence_says_so():
    lacks = lacks_triton()
    assert lacks is None or (lacks.startswith("Triton ") and "try: pip install" in lacks) or "not tried" in lacks


@pytest.mark.parametrize("version", ["3.4.0", "3.5.1", "3.10.0", "4.0", "2.1", "unknown"])
def test_other_releases_of_triton_are_refused_in_words(version: str):
    assert lacks_version("3.6.0") is None
    assert lacks_version("3.6.1+cu130") is None
    assert lacks_version("3.7.1") is None
    words = f"not tried with Triton {version}; expected 3.6 or 3.7"
    assert words in str(lacks_version(version))
    assert "(that of torch 2.11 or 2.12 or 2.13" in str(lacks_version(version))


def test_the_triton_of_the_pinned_torch_was_tried():
    """Whoever follows constraints.txt gets a Triton with which the programs run."""
    constraints = (HERE.parents[1] / "constraints.txt").read_text(encoding="utf-8")
    pinned = re.search(r"^torch==(\d+\.\d+)", constraints, re.MULTILINE)
    assert pinned is not None
    torch_release = pinned[1]
    assert torch_release in TRITON_OF_TORCH, f"which Triton does torch {torch_release} bring?"
    brought = TRITON_OF_TORCH[torch_release]
    assert brought in TRIED, f"torch {torch_release} brings Triton {brought}: try it as docs/gpu.md says, then name it"
    required = [line for line in metadata.requires("torch") or [] if re.match(r"triton\b", line)]
    if required and metadata.version("torch").startswith(f"{torch_release}."):
        assert re.search(rf"[=~]={re.escape(brought)}\b", required[0]), required


ATTRIBUTES = (
    "043704008000000004170c00000000000500200000f4210004170c00000000000400180000f42100"
    "04170c00000000000300140000f0110004170c00000000000200100000f0110004170c00000000000100080000f42100"
    "04170c00000000000000000000f4210003500000031bff00041c08007001000090010000"
    "04100c0080000000010000000100000003192800040a08000a000000100228000436040008000000"
)  # fmt: skip
"""`.nv.info.scale` of `gpu_driver_check.scale` as Triton 3.7.1 compiles it for capability 9.0."""
SHARED_ATTRIBUTES = "042f0800010000000c000000041108000100000018000000041208000100000000000000"  # fmt: skip
"""`.nv.info`: of symbol 1, 12 registers and (changed from 0) 24 bytes of local memory."""


def elf(own: bytes, shared: bytes, entry: str = "scale") -> bytes:
    """An ELF file of 64 bits with the sections that a cubin has, and two symbols."""
    names = b"\0" + entry.encode() + b"\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, 0)
    parts = {"": b"", ".strtab": names, ".symtab": symbols, ".nv.info": shared, f".nv.info.{entry}": own}
    labels = b"".join(name.encode() + b"\0" for name in (*parts, ".shstrtab"))
    body, headers, at, label = b"", b"", 64, 0
    for name, content in (*parts.items(), (".shstrtab", labels)):
        headers += struct.pack("<IIQQQQIIQQ", label, 1, 0, 0, at, len(content), 0, 0, 1, 0)
        body, at, label = body + content, at + len(content), label + len(name) + 1
    begin = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack(
        "<QIHHHHHH", at, 0, 64, 0, 0, 64, len(parts) + 1, len(parts)
    )
    return begin.ljust(64, b"\0")[:40] + begin[40:] + body + headers


SCALE_FACTS = CubinFacts(
    (Parameter(0, 8), Parameter(8, 8), Parameter(16, 4), Parameter(20, 4), Parameter(24, 8), Parameter(32, 8)),
    128,
    12,
    24,
)


def test_a_compiled_file_says_what_it_takes():
    cubin = elf(bytes.fromhex(ATTRIBUTES), bytes.fromhex(SHARED_ATTRIBUTES))
    assert read_facts(cubin, "scale") == SCALE_FACTS
    assert scratch_pointers(gpu_driver_check.SCALE, SCALE_FACTS) == 2
    for damaged in (b"", b"\x7fELF", cubin[:100], cubin[:-70], elf(b"", b""), b"no" + cubin[2:]):
        with assert_refused(FormatError, "scale"):
            read_facts(damaged, "scale")
    with pytest.raises(FormatError, match="meet"):
        read_facts(cubin, "meet")


@pytest.mark.parametrize(
    "facts",
    [
        SCALE_FACTS._replace(parameters=SCALE_FACTS.parameters[1:]),
        SCALE_FACTS._replace(parameters=SCALE_FACTS.parameters[:3]),
        SCALE_FACTS._replace(parameters=(*SCALE_FACTS.parameters, Parameter(40, 4))),
        SCALE_FACTS._replace(threads=256),
    ],
    ids=["one less", "an argument is gone", "a number more", "more threads"],
)
def test_another_layout_of_arguments_is_refused(facts: CubinFacts):
    with assert_refused(OptionError, 128, "0:8, 8:16, 16:20, 20:24"):
        scratch_pointers(gpu_driver_check.SCALE, facts)


@pytest.fixture
def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of programs that were compiled elsewhere, by Triton 3.7.1; this process takes them from there."""
    folder = tmp_path / "carried"
    CompiledPrograms(StandIn("3.7.1"), lambda: folder).get(WANTED)
    (folder / "triton").write_text("3.7.1\n")
    monkeypatch.setenv("THEREAFTER_GPU_PROGRAMS", str(folder))
    for cached in (compiling._programs, lacks_triton):
        cached.cache_clear()
    yield folder
    for cached in (compiling._programs, lacks_triton):
        cached.cache_clear()


def test_carried_programs_are_taken_and_no_others(carried: Path):
    assert lacks_triton() is None
    assert binary(WANTED).cubin == repr(WANTED).encode()
    other = replace(WANTED, constants=(("BLOCK", 2.0), ("FORM", "gru")), aligned=())
    with assert_refused(OptionError, "carried", "scale", 90, "{'BLOCK': 2.0"):
        binary(other)
    assert noted(carried) == [other]
    assert (carried / "triton").read_text() == "3.7.1\n"


def test_programs_of_another_triton_are_not_mistaken_for_carried_ones(carried: Path):
    (carried / "triton").write_text("3.6.0")
    with pytest.raises(OptionError, match="has no program"):
        binary(WANTED)


def test_a_folder_that_names_no_triton_is_refused_in_words(carried: Path):
    (carried / "triton").unlink()
    assert "no file 'triton' says which Triton compiled the programs (No such file" in str(lacks_triton())
    with assert_refused(FormatError, "THEREAFTER_GPU_PROGRAMS"):
        Carried(carried).version()


def test_what_is_noted_is_read_again(tmp_path: Path):
    wanted = [WANTED, replace(WANTED, constants=(("A", True), ("B", 1.5), ("C", 3))), gpu_driver_check.MANY]
    for each in (*wanted, WANTED):
        note_wanted(tmp_path, each)
    again = noted(tmp_path)
    assert sorted(map(repr, again)) == sorted(map(repr, wanted))


@needs_triton
def test_triton_compiles_plain_and_gluon_programs(folder: Callable[[], Path]):
    programs = CompiledPrograms(Triton(), folder)
    plain, gluon = programs.get(gpu_driver_check.SCALE), programs.get(gpu_driver_check.MEET)
    assert (plain.entry, plain.shared, plain.warps) == ("scale", 0, 4)
    assert (gluon.entry, gluon.shared, gluon.warps) == ("meet", 65536, 4)
    assert (plain.scratch, gluon.scratch) == (2, 2)
    facts = read_facts(plain.cubin, "scale")
    assert (facts.parameters, facts.threads, facts.spilled) == (SCALE_FACTS.parameters, 128, 0)
    kept = CompiledPrograms(StandIn(Triton().version()), folder)
    assert kept.get(gpu_driver_check.MEET) == gluon


@needs_triton
def test_arguments_of_another_name_are_refused(folder: Callable[[], Path]):
    with assert_refused(OptionError, "['x', 'y', 'length', 'factor', 'BLOCK']"):
        CompiledPrograms(Triton(), folder).get(WANTED)


@needs_triton
@pytest.mark.wide
def test_triton_needs_neither_a_c_compiler_nor_a_folder_to_write(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "bin").mkdir()
    code = (
        "import gpu_driver_check\nfrom thereafter.kernels.gpu.compiling import binary\n"
        "print(len(binary(gpu_driver_check.SCALE).cubin) > 1000)"
    )
    nowhere = str(tmp_path / "file" / "cache")
    surroundings = {"PATH": str(tmp_path / "bin"), "TRITON_CACHE_DIR": nowhere, "THEREAFTER_CACHE": nowhere}
    assert processes(code, 1, surroundings | {"CC": "/no/compiler"}) == ["True\n"]
