"""What a compiled program says of itself: its parameters, threads, registers and local memory.

A cubin is an ELF file. Its sections `.nv.info` and `.nv.info.ENTRY` are lists of attributes, each a format, a number
and a value (NVIDIA's `cuobjdump -elf` prints them as EIATTR_...). So the launcher follows the file, whichever compiler
made it, and a program can be judged for a GPU that is not here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from thereafter.errors import FormatError

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
