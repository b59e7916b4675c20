"""Named corpora: which there are, where they are on this machine, and how to get them.

Each file is looked for in `$THEREAFTER_DATA/<name>/`, then in the cache, as NAME or NAME.gz; then it is downloaded if
an address is known; else the error says which file to place where. The sha256 of the uncompressed content of every file
is checked once: the cache remembers which file was correct in which state.

>>> card("ptb").tokens
'word'
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from thereafter.base import progress
from thereafter.base.kinds import Registry
from thereafter.base.storage import cache_folder, data_folder
from thereafter.data.catalogue import CARDS, CorpusCard, CorpusFile
from thereafter.data.download import content_problem, fetch
from thereafter.errors import ChecksumError, CorpusError, UnknownNameError

BUILDERS = Registry(
    "built-in corpus",
    {
        "agreement": "thereafter.text.builtin:agreement",
        "reflexives": "thereafter.text.builtin:reflexives",
        "filler-gap": "thereafter.text.builtin:filler_gap",
        "python-docs": "thereafter.text.builtin:python_docs",
        "python-code": "thereafter.text.builtin:python_code",
        "remember-first": "thereafter.text.builtin:remember_first",
        "count-and-fire": "thereafter.text.builtin:count_and_fire",
        "balanced-brackets": "thereafter.text.builtin:balanced_brackets",
        "noisy-sine": "thereafter.series.made:noisy_sine",
        "seasonal": "thereafter.series.made:seasonal",
        "mackey-glass": "thereafter.series.made:mackey_glass",
        "many-seasons": "thereafter.series.made:many_seasons",
        "wave-shapes": "thereafter.series.made:wave_shapes",
        "shapes": "thereafter.vision.made_pictures:shapes",
        "cluttered-digits": "thereafter.vision.made_pictures:cluttered_digits",
        "cluttered-glyphs": "thereafter.vision.made_pictures:cluttered_glyphs",
        "catch": "thereafter.vision.made_pictures:catch",
        "moving-digit": "thereafter.vision.made_pictures:moving_digit",
        "moving-digits": "thereafter.vision.made_pictures:moving_digits",
        "moving-glyph": "thereafter.vision.made_pictures:moving_glyph",
        "moving-glyphs": "thereafter.vision.made_pictures:moving_glyphs",
    },
)

_SETTLED_NS = 2_000_000_000
"""A file changed within the last two seconds is not remembered as checked: the clock of some file systems is so
coarse that a further change could leave its times as they are."""


@dataclass(frozen=True)
class Corpus:
    """A corpus on this machine: the file of each part (plain or .gz), its default tokenizer, and its origin.

    `detail` is one line to print beside results: the folder of a classic corpus, the version and sha256 of a built-in
    one. `kind` is "text" for running text, `independent_lines` whether each line stands alone; see `CorpusCard`.
    """

    name: str
    parts: dict[str, Path]
    tokens: str
    detail: str
    kind: str = "text"
    independent_lines: bool = False


def names() -> list[str]:
    """All named corpora, built-in ones first."""
    return list(CARDS)


def card(name: str) -> CorpusCard:
    """What is known about a corpus; UnknownNameError with the nearest names for any other name."""
    if name not in CARDS:
        raise UnknownNameError("corpus", name, CARDS)
    return CARDS[name]


def locate(name: str, *, download: bool = True) -> Corpus:
    """Find a corpus, check it, and return its parts; with `download`, missing files are fetched into the cache.

    Raises UnknownNameError, ChecksumError (a file with other content), CorpusError (missing, with what to place
    where), and what `download.fetch` raises.
    """
    known = card(name)
    if known.builtin:
        built = BUILDERS.load(name)()
        return Corpus(name, dict(built.parts), known.tokens, built.detail, known.kind, known.independent_lines)
    missing = [file for file in known.files if _find(known, file) is None]
    if any(not (download and file.urls) for file in missing):
        raise CorpusError(_what_to_place(known, missing, download))
    parts = {file.part: _find_or_fetch(known, file, download) for file in known.files}
    detail = "found in " + _folders(parts.values())
    return Corpus(name, parts, known.tokens, detail, known.kind, known.independent_lines)


def status(name: str) -> str:
    """The state of a corpus in a few words, without downloading, checking or building anything."""
    known = card(name)
    if known.builtin:
        return "built in"
    paths = [path for path in (_find(known, file) for file in known.files) if path is not None]
    missing = [file for file in known.files if _find(known, file) is None]
    here = f"found in {_folders(paths)}" if paths else ""
    if not missing:
        cached = all(path.parent == _cache_of(name) for path in paths)
        return f"in the cache, {_folders(paths)}" if cached else here
    if all(file.urls for file in missing):
        rest = f"can be downloaded ({sum(file.bytes for file in missing) / 1e6:.1f} MB)"
    else:
        rest = "place by hand: " + ", ".join(file.filename for file in missing if not file.urls)
    return f"{len(missing)} of {len(known.files)} files missing, {rest}; {here}" if paths else rest


def _cache_of(name: str) -> Path:
    return cache_folder() / "corpora" / name


def _find(known: CorpusCard, file: CorpusFile) -> Path | None:
    """The first path that has the file, whatever its content."""
    data = data_folder()
    for folder in ([data / known.name] if data else []) + [_cache_of(known.name)]:
        for filename in (file.filename, f"{file.filename}.gz"):
            if os.path.isfile(folder / filename):  # unlike Path.is_file, no error in a folder without permission
                return folder / filename
    return None


def _find_or_fetch(known: CorpusCard, file: CorpusFile, download: bool) -> Path:
    """The path of the file, after its content was checked; downloaded if it is missing or damaged."""
    path = _find(known, file)
    if path is not None:
        state = _state(path)
        if _memory().get(str(path.absolute())) == [*state, file.sha256]:
            return path
        problem = content_problem(path, sha256=file.sha256, size=file.bytes)
        if problem is None:
            _remember(path, file, state)
            return path
        # A damaged file in the cache is replaced; one in the user's folder is left alone.
        if path.parent != _cache_of(known.name) or not (download and file.urls):
            raise ChecksumError(
                f"{path} is not the file that the corpus {known.name!r} is made of: {problem}; try: put the original "
                "back, or move this file away so that the corpus is looked for elsewhere"
            )
        progress.note(f"{path} is damaged ({problem}); downloading it again")
    compressed = file.urls[0].endswith(".gz")
    target = _cache_of(known.name) / (f"{file.filename}.gz" if compressed else file.filename)
    fetched = fetch(file.urls, target, sha256=file.sha256, size=file.bytes, label=f"{known.name}/{file.filename}")
    if path is not None and path != fetched:
        path.unlink(missing_ok=True)  # the damaged one, which has precedence over the good one by its name
    return fetched


def _what_to_place(known: CorpusCard, missing: list[CorpusFile], download: bool) -> str:
    """The message for a missing corpus: its files, the folders they belong in, and how to get them."""
    wanted = ", ".join(f"{file.filename} ({file.bytes:,} bytes, sha256 {file.sha256})" for file in missing)
    data = data_folder()
    if data is None:
        first = f"$THEREAFTER_DATA/{known.name} (THEREAFTER_DATA is not set)"
    else:
        first = f"{data / known.name}" + (
            "" if data.is_dir() else f" (THEREAFTER_DATA is {data}, which is not a folder)"
        )
    places = f"{first} or {_cache_of(known.name)}"
    if known.by_hand:
        way = f"{known.by_hand}, then place it there"
    elif all(file.urls for file in missing) and not download:
        way = f"thereafter data get {known.name}, or place them there by hand"
    else:
        way = "place them there by hand"
    return (
        f"the corpus {known.name!r} is not here: got no such file, expected {wanted}, plain or as .gz of that, "
        f"in {places}; try: {way}"
    )


def _folders(paths: Iterable[Path]) -> str:
    return " and ".join(dict.fromkeys(str(path.parent) for path in paths))


def _state(path: Path) -> list[int]:
    """Figures that change with the file. The change time is among them because, unlike the rest, it cannot be set."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _memory() -> dict[str, object]:
    """The files that were checked, and in which state. A missing or damaged list counts as empty."""
    try:
        kept = json.loads((cache_folder() / "verified.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _remember(path: Path, file: CorpusFile, state: list[int]) -> None:
    """Remember that the file in this state has the right content.

    Two processes at once may lose an entry but cannot damage the list; a cache that cannot be written is no error.
    """
    if time.time_ns() - max(state[1:]) < _SETTLED_NS:
        return
    kept = _memory() | {str(path.absolute()): [*state, file.sha256]}
    memory = cache_folder() / "verified.json"
    growing = memory.with_name(f".verified.{uuid4().hex}.tmp")
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        growing.write_text(json.dumps(kept, indent=0))
        os.replace(growing, memory)
    except OSError:
        with suppress(OSError):
            growing.unlink()
