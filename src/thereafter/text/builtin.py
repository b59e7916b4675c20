"""Corpora that need no network: generated sentences, and the manual and source code that come with Python.

`python-docs` and `python-code` are read from the running interpreter, as data: source files are never run. They
differ between interpreters, so their version and sha256 are returned and printed with every score. All are written
once into the cache, under a name with the hash of their generator or of their content.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module, resources
from pathlib import Path

from thereafter.base.storage import cache_folder, write_text
from thereafter.data.download import storage_error
from thereafter.errors import CorpusError, StorageError

PACKAGES = frozenset(
    """
    asyncio collections compression concurrent email http importlib json logging multiprocessing pathlib re sqlite3
    string sysconfig tomllib unittest urllib wsgiref xml xmlrpc zipfile zoneinfo
    """.split()  # noqa: SIM905
)
"""The packages `python-code` takes beside all top-level modules: together some 8 MB of hand-written code. Left out are
tables (encodings, html), documentation held as code (pydoc_data), programs with a window (idlelib, tkinter) and what
is not in every version (distutils, lib2to3)."""

_NOT_ENTERED = frozenset({"__pycache__", "test", "tests", "idle_test", "site-packages"})
_LIST = "files.json"


@dataclass(frozen=True)
class Built:
    """A corpus as built: the file of each part, and one line with its version and hash."""

    parts: dict[str, Path]
    detail: str


def python_docs() -> Built:
    """The reference manual's topics, in alphabetical order; where an interpreter was installed without them, the
    docstrings of its standard library, read from the source."""
    try:
        topics: dict[str, str] = import_module("pydoc_data.topics").topics
    except ModuleNotFoundError:
        return _from_text("python-docs", "\n\n".join(_docstrings()) + "\n", "docstrings of the standard library")
    text = "\n\n".join(topics[name].strip("\n") for name in sorted(topics)) + "\n"
    return _from_text("python-docs", text, "reference manual")


def python_code() -> Built:
    """The standard library's source files, one after the other, sorted by path."""
    return _from_text("python-code", "".join(source for _, source in standard_library()), "standard library")


def _sentences(name: str) -> Built:
    """A corpus of sentences with annotated dependencies, generated at the first use and after a change of the
    generator. `NAME.<part>.jsonl` beside the text of each part has the annotations of its sentences."""
    package = "thereafter.text.agreement"
    module = import_module(package)
    folder = cache_folder() / "corpora" / f"{name}-{_source_hash(package)[:12]}"
    parts = _listed_parts(folder)
    if parts is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            corpus = module.CORPORA[name]
            options = {"sizes": corpus.sizes, "pairs": corpus.pairs, "max_distance": corpus.max_distance}
            _list_parts(folder, module.write_corpus(folder, name=name, **options))
        except OSError as trouble:
            raise storage_error(f"the corpus to {folder}", trouble) from trouble
        parts = _listed_parts(folder)
        if parts is None:
            raise StorageError(
                f"the sentences in {folder} do not read back as they were written; "
                "try: set THEREAFTER_CACHE to a folder on another disk"
            )
    texts = [path.read_bytes() for path in parts.values()]
    sizes = " / ".join(format(text.count(b"\n"), ",") for text in texts)
    sha256 = hashlib.sha256(b"".join(texts)).hexdigest()
    return Built(parts, f"generated, seed {module.DEFAULT_SEED}, {sizes} sentences, sha256 {sha256}")


agreement = partial(_sentences, "agreement")
"""The default corpus: a subject and its verb agree in number."""
reflexives = partial(_sentences, "reflexives")
"""Sentences in which a reflexive pronoun agrees with a distant noun in gender or number."""
filler_gap = partial(_sentences, "filler-gap")
"""Sentences in which a distant `what`, `who` or `that` decides whether a verb's object is missing."""


def standard_library() -> Iterator[tuple[str, str]]:
    """Path within the library and text of every source file `python-code` is made of, sorted by path.

    These are the modules that Python itself lists as its own (not other files in the folder, and not the generated
    build settings), as UTF-8; a file in another encoding is left out. Line ends become LF.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    modules: list[tuple[str, Path]] = []
    for entry in root.iterdir() if root.is_dir() else ():
        if entry.suffix == ".py" and entry.stem in sys.stdlib_module_names:
            modules.append((entry.name, entry))
        elif entry.name in PACKAGES:
            for path in entry.rglob("*.py"):
                inside = path.relative_to(root)
                if _NOT_ENTERED.isdisjoint(inside.parts):
                    modules.append((inside.as_posix(), path))
    if not modules:
        raise CorpusError(
            f"this Python came without the source of its standard library: got no .py file in {root}; "
            "try: another interpreter, or another corpus (thereafter data list)"
        )
    for name, path in sorted(modules):
        try:
            source = path.read_bytes().decode("utf-8-sig")
        except (UnicodeDecodeError, OSError):
            continue
        source = source.replace("\r\n", "\n").replace("\r", "\n")
        yield name, source if source.endswith("\n") or not source else source + "\n"


def _docstrings() -> Iterator[str]:
    for _, source in standard_library():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the source of others
            try:
                tree = ast.parse(source)
            except SyntaxError:
                continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring:
                    yield docstring


def _from_text(name: str, text: str, what: str) -> Built:
    """Cut a text 90 / 5 / 5 by lines and write the three parts to the cache if they are not there."""
    lines = text.split("\n")[:-1]
    first, second = len(lines) * 90 // 100, len(lines) * 95 // 100
    cut = {"train": lines[:first], "valid": lines[first:second], "test": lines[second:]}
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    folder = cache_folder() / "corpora" / f"{name}-{platform.python_version()}-{sha256[:12]}"
    parts = keep_texts(folder, {part: "".join(f"{line}\n" for line in lines) for part, lines in cut.items()})
    made_by = f"{platform.python_implementation()} {platform.python_version()}"
    return Built(parts, f"{what} of {made_by}, {len(text.encode()):,} bytes, sha256 {sha256}")


def _memory_task(name: str) -> Built:
    """The corpus of a memory task: small enough to generate every time and compare with the cached copy."""
    module = import_module("thereafter.text.memory")
    texts = {part: module.text_of(module.task(name), part) for part in module.DEFAULT_LINES}
    sizes = " / ".join(format(size, ",") for size in module.DEFAULT_LINES.values())
    return keep_corpus(name, texts, f"generated, seed {module.DEFAULT_SEED}, {sizes} lines")


def keep_corpus(name: str, texts: dict[str, str], origin: str, suffix: str = ".txt") -> Built:
    """A corpus in the cache, small enough to generate every time and compare with the cached copy; `origin`: how."""
    sha256 = hashlib.sha256("".join(texts.values()).encode()).hexdigest()
    parts = keep_texts(cache_folder() / "corpora" / f"{name}-{sha256[:12]}", texts, suffix)
    return Built(parts, f"{origin}, sha256 {sha256}")


remember_first = partial(_memory_task, "remember-first")
"""A symbol, n words of noise, and the symbol again."""
count_and_fire = partial(_memory_task, "count-and-fire")
"""n times `a`, n times `b`, and a mark that comes exactly then."""
balanced_brackets = partial(_memory_task, "balanced-brackets")
"""Round and square brackets, every one closed by its own kind."""


def keep_texts(folder: Path, texts: dict[str, str], suffix: str = ".txt") -> dict[str, Path]:
    """Write these texts to the folder if they are not there, one file per part."""
    parts = {part: folder / f"{part}{suffix}" for part in texts}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part, path in parts.items():
            if not path.is_file() or path.read_bytes() != texts[part].encode():
                write_text(path, texts[part])
    except OSError as trouble:
        raise storage_error(f"the corpus to {folder}", trouble) from trouble
    return parts


def _list_parts(folder: Path, parts: dict[str, Path]) -> None:
    """Write the list of all files of a corpus with their hashes. It comes last: a list means a complete corpus."""
    contents = sorted(path for path in folder.iterdir() if path.suffix in (".txt", ".jsonl") and path.name[0] != ".")
    names = {part: path.name for part, path in parts.items()}
    listed = {"parts": names, "files": {path.name: _sha256(path) for path in contents}}
    write_text(folder / _LIST, json.dumps(listed, indent=1))


def _listed_parts(folder: Path) -> dict[str, Path] | None:
    """The parts that a folder lists, None if the list is missing or a file has changed."""
    try:
        listed = json.loads((folder / _LIST).read_bytes())
        if any(_sha256(folder / name) != sha256 for name, sha256 in listed["files"].items()):
            return None
        return {part: folder / name for part, name in listed["parts"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # whatever is wrong with it, the corpus is generated again


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _source_hash(package: str) -> str:
    """Hash of the source code of a package, so that the output of an older version is not taken for its own."""
    digest = hashlib.sha256()
    for entry in sorted(resources.files(package).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            digest.update(entry.name.encode() + b"\0" + entry.read_bytes() + b"\0")
    return digest.hexdigest()
