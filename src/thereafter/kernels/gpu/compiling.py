"""A program for the GPU, compiled by Triton for a named GPU and kept on disk for the next process.

Triton is used as a compiler alone: its launcher and its driver stub are C, built at their first use, and a user may
have no C compiler. `driver.py` launches what is compiled here. A program that is on disk needs no import of Triton, and
one from a folder that was carried here (`$THEREAFTER_GPU_PROGRAMS`) no Triton at all.

`read_facts` has what a program says of itself: parameters, threads, registers, local memory. A cubin is an ELF file.
Its sections `.nv.info` and `.nv.info.ENTRY` are lists of attributes, each a format, a number and a value (NVIDIA's
`cuobjdump -elf` prints them as EIATTR_...). So the launcher follows the file, whichever compiler made it, and a program
can be judged for a GPU that is not here.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from thereafter.base import progress
from thereafter.base.packages import installed, require
from thereafter.base.storage import cache_folder, open_plain, programs_folder, replacing
from thereafter.errors import FormatError, OptionError, StorageError

Constant = int | float | str | bool | None
"""None: an argument that a program has not this time."""

POINTERS = ("*bf16", "*fp16", "*fp32", "*fp64", "*i1", "*i8", "*u8", "*i16", "*i32", "*i64")
NUMBERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32", "fp64")
"""The types of arguments that a program may have, as Triton writes them."""

_ALIGNED = 16  # bytes: what a pointer is promised to be a multiple of, so that 16 bytes are loaded at once
_FORM = 2  # of the files; another number is another key
_LARGEST = 1 << 26  # bytes of a file: a program has some 10 to 500 thousand

TRITON_OF_TORCH = {"2.11": "3.6", "2.12": "3.7", "2.13": "3.7", "2.14": "3.8", "2.15": "3.9"}
"""The Triton that each release of torch installs with itself on Linux."""
TRIED = ("3.6", "3.7")
"""The releases of Triton whose programs passed the parity suite on a GPU (docs/gpu.md). Gluon, the language of most
programs, changes from release to release: others are refused."""


@dataclass(frozen=True)
class Wanted:
    """A program that is wanted: a function of a module, the types of its arguments, its constants, and for what GPU.

    `arguments`: name and type ("*bf16", "i32", "fp32") in the order of the function's parameters. `constants`: its
    `tl.constexpr` parameters. `capability`: 90 for an H200. `aligned`: integer arguments that are always multiples of
    2, 4, 8 or 16, by name; a pointer is a multiple of 16 bytes where no less is said.
    """

    module: str
    function: str
    arguments: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Constant], ...]
    warps: int
    capability: int
    aligned: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        kinds = dict(self.arguments)
        for name, kind in kinds.items():
            if kind not in POINTERS and kind not in NUMBERS:
                raise OptionError(f"the argument {name!r} has the type {kind!r}; expected one of {POINTERS + NUMBERS}")
        for name, divisor in self.aligned:
            if kinds.get(name, "")[:1] not in ("i", "u", "*") or divisor not in (2, 4, 8, 16):
                raise OptionError(
                    f"aligned={(name, divisor)!r}; expected the name of an integer or a pointer and 2, 4, 8 or 16"
                )
        if self.warps not in (1, 2, 4, 8, 16, 32):
            raise OptionError(f"warps={self.warps}; expected a power of two up to 32")

    @property
    def divisors(self) -> tuple[int, ...]:
        """What each argument is a multiple of, whatever value it is launched with."""
        promised = dict(self.aligned)
        return tuple(promised.get(name, _ALIGNED if kind in POINTERS else 1) for name, kind in self.arguments)


@dataclass(frozen=True)
class Binary:
    """A program compiled for one kind of GPU: what the driver loads, and how it is launched.

    `shared`: bytes of shared memory of a block. `arguments` and `divisors`: those of what was wanted. `scratch`: number
    of pointers after the arguments, to Triton's scratch memory, of which no program here has any.
    """

    cubin: bytes
    entry: str
    shared: int
    warps: int
    arguments: tuple[tuple[str, str], ...]
    divisors: tuple[int, ...]
    scratch: int = 0


class Toolchain(Protocol):
    """What compiles: Triton, or a stand-in in a test."""

    def version(self) -> str:
        """Another version compiles anew."""

    def compile(self, wanted: Wanted) -> Binary:
        """The program, compiled here and now."""


class Triton:
    """Triton as a compiler, which needs neither a GPU nor a C compiler."""

    def version(self) -> str:
        """Triton's version, read without importing it where that can be."""
        try:
            return metadata.version("triton")
        except metadata.PackageNotFoundError:  # some wheels of it have another name
            return str(require("triton", "a program for the GPU").__version__)

    def compile(self, wanted: Wanted) -> Binary:
        triton = require("triton", "a program for the GPU")
        target = require("triton.backends.compiler", "a program for the GPU").GPUTarget("cuda", wanted.capability, 32)
        program = getattr(import_module(wanted.module), wanted.function)
        if program.is_gluon():
            source_type = require("triton.experimental.gluon._runtime", "a Gluon program").GluonASTSource
        else:
            source_type = require("triton.compiler", "a program for the GPU").ASTSource
        names = [str(name) for name in program.arg_names]
        kinds, constants = dict(wanted.arguments), dict(wanted.constants)
        if [name for name in names if name not in constants] != list(kinds) or not constants.keys() <= set(names):
            raise OptionError(
                f"{wanted.function} takes {names}; got the arguments {list(kinds)} and the constants {list(constants)}"
            )
        signature = {name: kinds.get(name, "constexpr") for name in names}
        divisors = dict(zip(kinds, wanted.divisors, strict=True))
        attributes = {
            (place,): [["tt.divisibility", divisors[name]]]
            for place, name in enumerate(names)
            if divisors.get(name, 1) > 1
        }

        def compile_it() -> Binary:
            source = source_type(program, signature, constants, attributes)
            # a b + c in one rounding: Triton 3.10 takes two where nothing is said
            options = {"num_warps": wanted.warps, "enable_fp_fusion": True}
            kernel = triton.compile(source, target=target, options=options)
            facts, cubin = kernel.metadata, bytes(kernel.asm["cubin"])
            scratch = int(facts.global_scratch_size or 0) + int(getattr(facts, "profile_scratch_size", 0) or 0)
            if scratch or facts.num_ctas != 1:
                raise OptionError(
                    f"{wanted.function} needs {scratch} bytes of scratch memory and clusters of {facts.num_ctas} "
                    f"blocks; expected none and 1: the launcher has no others"
                )
            return Binary(
                cubin,
                str(facts.name),
                int(facts.shared),
                wanted.warps,
                wanted.arguments,
                wanted.divisors,
                scratch_pointers(wanted, read_facts(cubin, str(facts.name))),
            )

        try:
            return compile_it()
        except OSError:  # Triton keeps its steps on disk, and cannot do without; the user's folder is not writable
            knobs = require("triton.knobs", "a program for the GPU")
            with TemporaryDirectory(prefix="thereafter-gpu-") as folder, knobs.cache.scope():
                knobs.cache.dir = folder
                return compile_it()


def scratch_pointers(wanted: Wanted, facts: CubinFacts) -> int:
    """The number of pointers that a compiled program has after its arguments.

    OptionError where the file has other threads or other parameters than the launcher passes.
    """
    expected: list[Parameter] = []
    for _, kind in wanted.arguments:
        size = 8 if kind in POINTERS else int(re.sub("[a-z]", "", kind)) // 8
        end = expected[-1].offset + expected[-1].size if expected else 0
        expected.append(Parameter(-(-end // size) * size, size))
    more = facts.parameters[len(expected) :]
    unlike = list(facts.parameters[: len(expected)]) != expected or any(parameter.size != 8 for parameter in more)
    if unlike or facts.threads != 32 * wanted.warps:
        raise OptionError(
            f"{wanted.function} was compiled for {facts.threads} threads and parameters at bytes "
            f"{_places(facts.parameters)}; expected {32 * wanted.warps} threads and {_places(expected)}, then "
            f"pointers: this release of Triton passes arguments in another way; try Triton {needed_triton()}"
        )
    return len(more)


def _places(parameters: Sequence[Parameter]) -> str:
    return ", ".join(f"{offset}:{offset + size}" for offset, size in parameters)


class Carried:
    """Programs that were compiled elsewhere and carried here in a folder; its file `triton` names what compiled them.

    Nothing is compiled. A program that is missing is noted in the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def version(self) -> str:
        try:
            with open_plain(self._folder / VERSION_FILE) as file:
                return file.read(100).decode(errors="replace").strip()
        except OSError as error:
            raise FormatError(
                f"THEREAFTER_GPU_PROGRAMS is {str(self._folder)!r}, where no file {VERSION_FILE!r} says which Triton "
                f"compiled the programs ({error.strerror}); expected a folder of compiled programs (docs/gpu.md)"
            ) from None

    def compile(self, wanted: Wanted) -> Binary:
        with suppress(StorageError):
            note_wanted(self._folder, wanted)
        raise OptionError(
            f"{str(self._folder)!r} has no program {wanted.function!r} for capability {wanted.capability} with "
            f"{dict(wanted.constants)}; it is noted there: compile what is noted, or unset THEREAFTER_GPU_PROGRAMS"
        )


VERSION_FILE = "triton"
NOTED = ".wanted"
"""The ending of a note."""


def note_wanted(folder: Path, wanted: Wanted) -> None:
    """Note in a folder that a program is wanted there."""
    content = json.dumps(asdict(wanted))
    name = f"{wanted.function}-{hashlib.sha256(content.encode()).hexdigest()[:32]}{NOTED}"
    with replacing(folder / name) as temporary:
        temporary.write_text(content, encoding="utf-8")


class CompiledPrograms:
    """Compiled programs: those of this process, those in a folder, else compiled by a toolchain, each once.

    A file is a sha256 of the rest, a length of 8 bytes, a JSON header and the cubin. A damaged one is compiled anew.
    Where the folder cannot be written, a program is compiled for this process alone.
    """

    def __init__(self, toolchain: Toolchain, folder: Callable[[], Path]) -> None:
        self._toolchain, self._folder = toolchain, folder
        self._ready: dict[tuple[Wanted, tuple[type, ...]], Binary] = {}
        self._compiling = threading.Lock()  # one at a time: CPython 3.11 cannot parse in two threads at once

    @property
    def version(self) -> str:
        """The toolchain's."""
        return self._toolchain.version()

    def get(self, wanted: Wanted) -> Binary:
        """The program; thread-safe, and 2 microseconds from the second time on."""
        place = (wanted, tuple(type(value) for _, value in wanted.constants))  # 1, 1.0 and True are equal
        ready = self._ready.get(place)
        if ready is None:
            with self._compiling:
                ready = self._ready.get(place)
                if ready is None:
                    ready = self._ready[place] = self._from_disk_or_compiled(wanted)
        return ready

    def path(self, wanted: Wanted) -> Path:
        """Where a program is kept."""
        return self._folder() / f"{re.sub('[^0-9A-Za-z_]', '_', wanted.function)[:60]}-{self.key(wanted)[:32]}.program"

    def key(self, wanted: Wanted) -> str:
        """What tells one program from another: all that its machine code is made of, as a sha256."""
        facts = [
            _FORM, self._toolchain.version(), _code_digest(), _own_digest(wanted.module), wanted.module,
            wanted.function, wanted.arguments, wanted.constants, wanted.warps, wanted.capability, wanted.aligned,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def _from_disk_or_compiled(self, wanted: Wanted) -> Binary:
        key = self.key(wanted)
        try:
            path: Path | None = self.path(wanted)
        except (OSError, RuntimeError):  # a user without a home
            path = None
        kept = _read(path, key, wanted) if path is not None else None
        if kept is not None:
            return kept
        progress.note(f"compiling {wanted.function} for this GPU (once)")
        made = self._toolchain.compile(wanted)
        if path is not None:
            with suppress(StorageError):
                _write(path, key, made, self.version)
        return made


def _read(path: Path, key: str, wanted: Wanted) -> Binary | None:
    """A program from its file; None where there is none, or where any part of it is not what it must be."""
    try:
        with open_plain(path) as file:
            content = file.read(_LARGEST + 1)
        length = int.from_bytes(content[32:40], "little")
        if not 2 <= length <= len(content) - 40 or content[:32] != hashlib.sha256(content[32:]).digest():
            return None
        facts, cubin = json.loads(content[40 : 40 + length]), content[40 + length :]
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(facts, dict) or facts.get("key") != key or facts.get("size") != len(cubin):
        return None
    entry = facts.get("entry")
    shared, warps, scratch = (facts.get(name) for name in ("shared", "warps", "scratch"))
    if not isinstance(entry, str) or type(shared) is not int or type(warps) is not int or type(scratch) is not int:
        return None
    if not entry or not 0 <= shared <= 1 << 20 or not 1 <= warps <= 32 or not 0 <= scratch <= 16:
        return None
    return Binary(cubin, entry, shared, warps, wanted.arguments, wanted.divisors, scratch)


def _write(path: Path, key: str, made: Binary, version: str) -> None:
    """Keep a program, in one piece: another process sees a whole file or none."""
    facts = {
        "key": key, "entry": made.entry, "shared": made.shared, "warps": made.warps, "scratch": made.scratch,
        "size": len(made.cubin), "triton": version,
    }  # fmt: skip
    header = json.dumps(facts).encode()
    content = len(header).to_bytes(8, "little") + header + made.cubin
    with replacing(path) as temporary:
        temporary.write_bytes(hashlib.sha256(content).digest() + content)


def source_digest(folder: Path) -> str:
    """The text of all modules below a folder, and their names, as a sha256."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(json.dumps([path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")]).encode())
    return digest.hexdigest()


@cache
def _code_digest() -> str:
    """The text of all programs: they call each other across files."""
    return source_digest(Path(__file__).parent / "code")


@cache
def _own_digest(module: str) -> str:
    """The text of a module that lies elsewhere; it is not imported."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise OptionError(f"no module {module!r} has a file; expected one with programs for the GPU")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


@cache
def _programs() -> CompiledPrograms:
    carried = programs_folder()
    if carried is not None:
        return CompiledPrograms(Carried(carried), lambda: carried)
    return CompiledPrograms(Triton(), lambda: cache_folder() / "gpu")


def binary(wanted: Wanted) -> Binary:
    """A program: of this process, from disk, or compiled now by Triton, which takes 1 to 3 seconds."""
    return _programs().get(wanted)


def compiler_version() -> str:
    """The Triton that compiles the programs of this process, or compiled them elsewhere."""
    return _programs().version


@cache
def lacks_triton() -> str | None:
    """Why no program can be had here; None where one can. Triton is not imported."""
    carried = programs_folder()
    if carried is not None:
        try:
            Carried(carried).version()  # any release: whoever names a folder wants to try it
        except FormatError as error:
            return str(error)
        return None
    if not installed("triton"):
        return f"Triton is not installed; expected {needed_triton()} (try: pip install triton)"
    return lacks_version(Triton().version())


def lacks_version(version: str) -> str | None:
    """Why programs by this release of Triton are not taken; None where they are."""
    if ".".join(re.findall(r"\d+", version)[:2]) in TRIED:
        return None
    return f"the programs were not tried with Triton {version}; expected {needed_triton()}"


def needed_triton() -> str:
    """The releases of Triton that were tried, and the releases of torch that bring them."""
    torches = [torch for torch, triton in TRITON_OF_TORCH.items() if triton in TRIED]
    return f"{' or '.join(TRIED)} (that of torch {' or '.join(torches)})"


_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NO_BITS, _LISTED = 8, 4  # a section without contents; an attribute whose value has a length of its own
_PARAMETER, _THREADS, _FRAME, _REGISTERS = 0x17, 0x10, 0x11, 0x2F


class Parameter(NamedTuple):
    """Where a parameter lies among the program's arguments, and how large it is, in bytes."""

    offset: int
    size: int


class CubinFacts(NamedTuple):
    """`threads` of a block, `registers` and bytes of local memory (`spilled`) of a thread."""

    parameters: tuple[Parameter, ...]
    threads: int
    registers: int
    spilled: int


def read_facts(cubin: bytes, entry: str) -> CubinFacts:
    """The facts of one program of a cubin. FormatError where it is none, or does not say them."""
    try:
        return _facts(cubin, entry)
    except (struct.error, ValueError, IndexError, KeyError) as error:
        raise FormatError(f"{entry}: the compiler's file cannot be read ({type(error).__name__}: {error})") from None


def _facts(cubin: bytes, entry: str) -> CubinFacts:
    if not cubin.startswith(b"\x7fELF\x02\x01"):
        raise ValueError("no ELF file of 64 bits")
    sections = dict(_sections(cubin))
    names = sections[".strtab"]
    symbols = {_text(names, name): number for number, (name, *_) in enumerate(_SYMBOL.iter_unpack(sections[".symtab"]))}
    own = [*_attributes(sections[f".nv.info.{entry}"])]
    parameters = {}
    for attribute, value in own:
        if attribute == _PARAMETER:
            _, place, offset, packed = struct.unpack("<IHHI", value)
            parameters[place] = Parameter(offset, packed >> 18)
    threads = struct.unpack("<III", dict(own)[_THREADS])
    counts = {
        (attribute, symbol): count
        for attribute, value in _attributes(sections[".nv.info"])
        if attribute in (_FRAME, _REGISTERS)
        for symbol, count in [struct.unpack("<II", value)]
    }
    return CubinFacts(
        tuple(parameters[place] for place in range(len(parameters))),
        threads[0] * threads[1] * threads[2],
        counts[_REGISTERS, symbols[entry]],
        counts[_FRAME, symbols[entry]],
    )


def _sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [_SECTION.unpack_from(cubin, table + size * place) for place in range(count)]
    labels = cubin[headers[names][4] : headers[names][4] + headers[names][5]]
    for name, kind, _, _, offset, length, *_ in headers:
        yield _text(labels, name), b"" if kind == _NO_BITS else cubin[offset : offset + length]


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 4 <= len(content):
        form, attribute, value = struct.unpack_from("<BBH", content, place)
        place += 4
        length = value if form == _LISTED else 0
        yield attribute, content[place : place + length]
        place += length


def _text(names: bytes, offset: int) -> str:
    return names[offset : names.index(b"\0", offset)].decode()
