"""Files of pictures as pixels, by Pillow, and pixels fitted into one shape: the middle, resized, grey or coloured.

What a header promises is checked before memory is taken. Formats are a fixed list: Pillow would hand others to programs
of the machine. Shapes: H rows, W columns, C channels.
"""

from __future__ import annotations

import io
import struct
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, TypeGuard

import numpy as np

from thereafter.base import packages
from thereafter.errors import SourceError
from thereafter.vision.rules import Pixels

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".jpe", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
MOST_PIXELS = 64_000_000
"""A picture of more is refused before it is decoded: a file of a kilobyte can promise terabytes."""
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM", "TIFF")
_GREY = ("1", "L", "LA", "La", "I", "F")
_TURNED = (5, 6, 7, 8)  # of the EXIF tag: height and width change places
_ORIENTATION = 0x0112
_PNG_HEAD = 8  # bytes before the first chunk
_MOST_EXIF = 1 << 20
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError, TypeError, struct.error, OverflowError)
"""What the readers of Pillow raise on damaged files; they agree on none."""
_warnings = threading.Lock()  # their filters belong to the whole process


def pillow(module: str = "PIL.Image") -> ModuleType:
    """A module of Pillow, or how to install it."""
    return packages.require(module, "reading files of pictures", install="thereafter[pictures]")


def decode(content: BinaryIO, name: str, most: int = MOST_PIXELS) -> Pixels:
    """The pixels [H, W, C] of a picture: C is 1 where the file is grey; what is transparent is over white.

    Photographs are turned as their camera says (EXIF). Of several frames the first is meant. `most` pixels are decoded.
    """
    with _opened(content, name, most) as image:
        turned = pillow("PIL.ImageOps").exif_transpose(image)
        return pixels_of(turned)


def shape_of_file(content: BinaryIO, name: str) -> tuple[int, int, int]:
    """The shape of `decode`, by the first bytes of the file."""
    with _opened(content, name) as image:
        width, height = image.size
        if _exif_of(image, content).get(_ORIENTATION) in _TURNED:
            width, height = height, width
        return height, width, 1 if _is_grey(image.mode) else 3


def _exif_of(image: PillowImage, content: BinaryIO) -> Mapping[int, object]:
    """What a camera noted. Pillow decodes a whole PNG to find it behind the pixels; here the pixels are passed over."""
    if image.format != "PNG":
        return image.getexif()
    noted = pillow().Image.getexif(image)  # what stands before the pixels
    content.seek(_PNG_HEAD)
    while not noted and len(head := content.read(8)) == 8:
        size, kind = struct.unpack(">I4s", head)
        if kind == b"eXIf":
            noted.load(content.read(min(size, _MOST_EXIF)))
            break
        content.seek(size + 4, io.SEEK_CUR)  # and its checksum
    return dict(noted)


def pixels_of(image: PillowImage) -> Pixels:
    """The pixels [H, W, C] of an image of Pillow."""
    library = pillow()
    grey = _is_grey(image.mode)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        numbers = np.nan_to_num(np.asarray(image).astype(np.float64))
        # 16 bits a pixel as 8; where the mode does not say that there are 16, their largest number decides
        top = 65535.0 if image.mode.startswith("I;16") or numbers.max(initial=0.0) > 255.0 else 255.0
        return np.clip(np.rint(numbers * (255.0 / top)), 0, 255).astype(np.uint8)[:, :, None]
    if "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        white = library.new("RGBA", image.size, (255, 255, 255, 255))
        white.alpha_composite(image.convert("RGBA"))
        image = white
    pixels: Pixels = np.asarray(image.convert("L" if grey else "RGB"), np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def is_image(given: object) -> TypeGuard[PillowImage]:
    """Whether something is an image of Pillow; Pillow is not imported to find out."""
    return any(one.__module__.partition(".")[0] == "PIL" and one.__name__ == "Image" for one in type(given).__mro__)


def _is_grey(mode: str) -> bool:
    return mode in _GREY or mode.startswith("I;16")


@contextmanager
def _opened(content: BinaryIO, name: str, most: int = MOST_PIXELS) -> Iterator[PillowImage]:
    """An image whose header was read, and its errors as sentences."""
    library = pillow()
    try:
        with _warnings, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on metadata, in whatever part of the file they come up
            warnings.simplefilter("error", library.DecompressionBombWarning)
            with library.open(content, formats=_FORMATS) as image:
                width, height = image.size
                if width * height > most:
                    raise _too_large(name, f"{width:,} x {height:,} pixels", most)
                yield image
    except (library.DecompressionBombWarning, library.DecompressionBombError):
        raise _too_large(name, "more than Pillow agrees to decode", most) from None
    except library.UnidentifiedImageError:
        raise SourceError(_no_picture(content, name)) from None
    except MemoryError:
        raise SourceError(f"{name} is too large for the memory of this machine; try a smaller copy of it") from None
    except _BROKEN as broken:
        raise SourceError(
            f"{name} is damaged or cut short ({str(broken)[:120]}); fetch it again, or leave it out"
        ) from None


def _too_large(name: str, size: str, most: int) -> SourceError:
    return SourceError(
        f"{name} promises {size}; expected at most {most // 1_000_000} million; is it damaged, or try a smaller "
        "copy of it"
    )


def _no_picture(content: BinaryIO, name: str) -> str:
    expected = "expected a PNG, JPEG, BMP, GIF, WebP, PPM or TIFF file"
    try:
        content.seek(0)
        head = content.read(64)
    except (OSError, ValueError):
        head = b""
    if not head:
        return f"{name} is empty; {expected}"
    text = all(32 <= byte < 127 or byte in (9, 10, 13) for byte in head)
    return f"{name} is {'text, not' if text else 'not'} a picture, whatever its name says; {expected}"


def decode_bytes(content: bytes, name: str, most: int = MOST_PIXELS) -> Pixels:
    """`decode` of bytes in memory."""
    return decode(io.BytesIO(content), name, most)


_LUMA = np.array([0.299, 0.587, 0.114])
"""ITU-R BT.601, as Pillow and most cameras have it."""


def fit_in(pixels_HWC: Pixels, height: int, width: int, channels: int) -> Pixels:
    """The pixels as uint8 [C, H, W]: cut to the aspect around the middle, then resized by Lanczos' filter if the size
    is another.

    >>> fit_in(np.full((2, 2, 1), 7, np.uint8), 2, 2, 3).shape
    (3, 2, 2)
    """
    pixels_HWC = crop_to_aspect(pixels_HWC, height, width)
    if pixels_HWC.shape[:2] != (height, width):
        pixels_HWC = resize(pixels_HWC, height, width)
    return np.ascontiguousarray(np.moveaxis(in_channels(pixels_HWC, channels), 2, 0))


def crop_to_aspect(pixels_HWC: Pixels, height: int, width: int) -> Pixels:
    """The largest middle part whose sides are as height to width."""
    rows, columns = pixels_HWC.shape[:2]
    if rows * width > columns * height:  # too high
        kept = max(1, round(columns * height / width))
        top = (rows - kept) // 2
        return pixels_HWC[top : top + kept]
    kept = max(1, round(rows * width / height))
    left = (columns - kept) // 2
    return pixels_HWC[:, left : left + kept]


def resize(pixels_HWC: Pixels, height: int, width: int) -> Pixels:
    """Another size, by Pillow's filter of Lanczos."""
    library = pillow()
    grey = pixels_HWC.shape[2] == 1
    image = library.fromarray(np.ascontiguousarray(pixels_HWC[:, :, 0] if grey else pixels_HWC))
    resized: Pixels = np.asarray(image.resize((width, height), library.Resampling.LANCZOS), np.uint8)
    return resized[:, :, None] if grey else resized


def in_channels(pixels_HWC: Pixels, channels: int) -> Pixels:
    """Grey as three equal channels, colours as their brightness."""
    if pixels_HWC.shape[2] == channels:
        return pixels_HWC
    if channels == 3:
        return np.repeat(pixels_HWC, 3, axis=2)
    return grey(pixels_HWC)[:, :, None]


def grey(pixels_C: Pixels) -> Pixels:
    """Pixels [..., 1] or [..., 3] without their last axis; colours by their luma.

    >>> grey(np.array([[255, 0, 0], [255, 255, 255]], np.uint8)).tolist()
    [76, 255]
    """
    if pixels_C.shape[-1] == 1:
        return np.asarray(pixels_C[..., 0], np.uint8)
    return np.asarray(np.rint(pixels_C @ _LUMA), np.uint8)
