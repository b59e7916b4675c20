"""Pictures in a zip archive, read one at a time; nothing is unpacked.

The table of the archive is read once. A member is then read by its place in the file, so that no file stays open and
threads do not wait for each other. Sizes that the table declares are checked before memory is taken.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import EmptyCorpusError, SourceError
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS, decode_bytes, shape_of_file
from thereafter.vision.pictures.picture import PictureKind

MOST_BYTES = 256 << 20
"""Of a picture in an archive."""
_RATIO = 1032  # deflate cannot compress better
_LOCAL = struct.Struct("<4s22xHH")  # signature; the lengths of the name and of the extra field before the data


class ZipPictures:
    """See `picture.PictureSource`."""

    kind: PictureKind = "pixels"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._members = [one for one in members_of(path) if is_picture(one.filename)]
        if not self._members:
            raise EmptyCorpusError(f"{path} holds no pictures; expected files such as photo.jpg or photo.png in it")
        for one in self._members:
            check_member(path, one, MOST_BYTES)

    def __len__(self) -> int:
        return len(self._members)

    def names(self) -> Sequence[str]:
        return [one.filename for one in self._members]

    def shape(self, row: int) -> tuple[int, ...]:
        return shape_of_file(io.BytesIO(self._content(row)), self._full_name(row))

    def read(self, row: int) -> NDArray[np.uint8]:
        return decode_bytes(self._content(row), self._full_name(row))

    def _full_name(self, row: int) -> str:
        return f"{self._members[row].filename} in {self.name}"

    def _content(self, row: int) -> bytes:
        return read_member(self._path, self._members[row])


def members_of(path: Path) -> list[zipfile.ZipInfo]:
    """The files of an archive, by its table; hidden ones, and those that macOS adds, are left out."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError) as broken:
        raise SourceError(f"{path} is no zip archive, or a damaged one ({broken}); fetch it again") from None
    except OSError as failed:
        raise SourceError(f"{path} could not be read: {failed.strerror or failed}") from None
    return [one for one in members if not one.is_dir() and not _hidden(one.filename)]


def is_picture(name: str) -> bool:
    """Whether a file is a picture by its ending."""
    return name.lower().endswith(PICTURE_ENDINGS)


def check_member(path: Path, member: zipfile.ZipInfo, most: int) -> None:
    """Refuse a member whose declared sizes cannot be true, or are too large."""
    where = f"{member.filename} in {path}"
    if member.flag_bits & 1:
        raise SourceError(f"{where} is encrypted; try unpacking the archive first")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SourceError(f"{where} is packed in an unusual way; expected plain zip; try unpacking the archive first")
    if member.header_offset + member.compress_size > path.stat().st_size:
        raise SourceError(f"{where} lies beyond the end of the archive, by its table; it is damaged; fetch it again")
    possible = _RATIO * member.compress_size if member.compress_type == zipfile.ZIP_DEFLATED else member.compress_size
    if member.file_size > min(most, possible):
        raise SourceError(
            f"{where} declares {member.file_size:,} bytes, packed in {member.compress_size:,}; expected at most "
            f"{min(most, possible):,}; is the archive damaged, or made to fill memory?"
        )


def read_member(path: Path, member: zipfile.ZipInfo) -> bytes:
    """The content of a member that `check_member` let pass; its checksum is compared."""
    where = f"{member.filename} in {path}"
    try:
        with open(path, "rb") as file:
            file.seek(member.header_offset)
            signature, name_size, extra_size = _LOCAL.unpack(file.read(_LOCAL.size))
            file.seek(name_size + extra_size, io.SEEK_CUR)
            packed = file.read(member.compress_size)
        content = packed
        if member.compress_type == zipfile.ZIP_DEFLATED:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.file_size + 1)
    except (OSError, struct.error, zlib.error) as failed:
        raise SourceError(f"{where} could not be read: {failed}; fetch the archive again") from None
    if signature != b"PK\3\4" or len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise SourceError(f"{where} is damaged: its size or checksum is another; fetch the archive again")
    return content


def _hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
