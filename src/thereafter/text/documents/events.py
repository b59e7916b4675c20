"""The XML of strangers as events: no tree is built; elements, their depth and the length of a tag have bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from xml.parsers import expat

from thereafter.errors import SourceError

MOST_ELEMENTS = 5_000_000
"""Of one XML file: a Word document of 1,500 pages has some hundred thousand."""
DEEPEST = 1_000
"""Elements inside each other; people's documents have some dozens."""
LONGEST_TAG = 1 << 20
"""Bytes of one tag, comment or instruction: its attributes are all in memory at once."""

Start = Callable[[str, dict[str, str]], None]
End = Callable[[str], None]


def parse_events(
    name: str,
    blocks: Iterable[bytes],
    start: Start,
    end: End | None = None,
    text: Callable[[str], None] | None = None,
    *,
    most: int | None = None,
) -> Iterator[None]:
    """Parse XML that comes in pieces and call a function for each event; yields after each piece.

    Names of elements are `namespace name`, with a space between. Declarations of the file's own are refused, not
    expanded. `name` is the name of the file in errors, `most` how many elements it may have.
    """
    limit = MOST_ELEMENTS if most is None else most
    count = depth = fed = 0

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count, depth
        count, depth = count + 1, depth + 1
        if count > limit or depth > DEEPEST:
            reason = f"more than {limit:,} elements" if count > limit else f"elements nested over {DEEPEST:,} deep"
            raise SourceError(f"{name} has {reason}, which no document needs; try to save it again, or pass the text")
        start(tag, attributes)

    def finish(tag: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end(tag)

    def refuse(*declared: object) -> None:
        raise SourceError(
            f"{name} declares elements or entities of its own, which no document needs; fetch it elsewhere"
        )

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = begin, finish
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = parser.AttlistDeclHandler = parser.ElementDeclHandler = refuse
    try:
        for block in blocks:
            parser.Parse(block, False)
            fed += len(block)
            if 0 <= parser.CurrentByteIndex < fed - LONGEST_TAG:
                raise SourceError(
                    f"{name} has a tag of more than {LONGEST_TAG >> 20} MiB, which no document needs; try to save it "
                    "again, or pass the text"
                )
            yield
        parser.Parse(b"", True)
        yield
    except expat.ExpatError as broken:
        raise SourceError(f"{name} is not XML ({broken}); the file is damaged: fetch or save it again") from None
