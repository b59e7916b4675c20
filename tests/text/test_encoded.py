"""The cache of token ids: found by content, sound or made again, small in memory."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.base.storage import cache_folder
from thereafter.errors import EncodingError, StorageError
from thereafter.text import encoded
from thereafter.text.encoded import encode_source, fit_source
from thereafter.text.sources import Source, resolve
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.base import Tokenizer, join_ids

TEXT = "the cat sat on the mat\nthe dog ate, é 漢字\n" * 50 + "the end"


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)  # pytest keeps such folders, and these may hold gigabytes


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    return resolve(path).parts["text"]


def kept() -> list[Path]:
    folder = cache_folder() / "tokens"
    return sorted(folder.iterdir()) if folder.exists() else []


def tokenizer_for(name: str) -> Tokenizer:
    made: Tokenizer = TOKENIZERS.load(name).fit(lambda: [TEXT])
    return made


@pytest.mark.parametrize("name", list(TOKENIZERS))
def test_large_sources_are_mapped_and_small_ones_are_not(name: str, source: Source) -> None:
    tokenizer = tokenizer_for(name)
    truth = join_ids(tokenizer.encode_stream([TEXT], whole=True))
    small = encode_source(tokenizer, source)
    assert (small.dtype, kept()) == (np.int32, [])
    large = encode_source(tokenizer, source, cache_from_bytes=1)
    assert isinstance(large, np.memmap)
    assert large.dtype == (np.uint16 if tokenizer.size > 256 else np.uint8)
    for ids in (small, large):
        np.testing.assert_array_equal(ids, truth)
    with pytest.raises(ValueError, match="read-only"):
        large[0] = 1
    fitted, both = fit_source(TOKENIZERS.load(name), source)
    np.testing.assert_array_equal(both, truth)
    assert fitted.fingerprint() == tokenizer.fingerprint()
    np.testing.assert_array_equal(fit_source(TOKENIZERS.load(name), source, cache_from_bytes=1)[1], truth)
    assert len(kept()) == 1


def test_the_cache_is_used_and_keyed_by_content_and_tokenizer(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word, char = tokenizer_for("word"), tokenizer_for("char")
    truth = np.array(encode_source(word, source, cache_from_bytes=1))
    encode_source(char, source, cache_from_bytes=1)
    assert len(kept()) == 2
    copy = tmp_path / "copy.txt"
    copy.write_bytes(source.files[0].read_bytes())
    monkeypatch.setattr(encoded, "_write_ids", None)  # calling it would fail: the file must be found
    np.testing.assert_array_equal(encode_source(word, resolve(copy).parts["text"], cache_from_bytes=1), truth)
    monkeypatch.undo()
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))
    copy.write_text(TEXT + " cat", encoding="utf-8")
    other = encode_source(word, resolve(copy).parts["text"], cache_from_bytes=1)
    assert not np.array_equal(other, truth)
    assert len(kept()) == 3


@pytest.mark.parametrize("damage", ["short", "empty", "long", "flipped", "header", "json"])
def test_a_damaged_file_is_made_again(source: Source, damage: str) -> None:
    word = tokenizer_for("word")
    truth = np.array(encode_source(word, source, cache_from_bytes=1))
    (path,) = kept()
    sound = path.read_bytes()
    path.write_bytes(
        {
            "short": sound[:-3],
            "empty": b"",
            "long": sound + b"\0",
            "flipped": sound[:-1] + bytes([sound[-1] ^ 1]),
            "header": b"\0" * 128 + sound[128:],
            "json": b"[1]".ljust(128) + sound[128:],
        }[damage]
    )
    np.testing.assert_array_equal(encode_source(word, source, cache_from_bytes=1), truth)
    assert path.read_bytes() == sound


def test_a_compressed_source_that_turns_out_large_goes_to_disk(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(b"0 1\n" * 1_000_000))
    source = resolve(path).parts["text"]
    byte = tokenizer_for("byte")
    for _ in range(2):
        ids = encode_source(byte, source, cache_from_bytes=1 << 16)
        assert isinstance(ids, np.memmap)
        assert ids.tobytes() == b"0 1\n" * 1_000_000
    assert len(kept()) == 1


def test_an_empty_source() -> None:
    for cache_from_bytes in (0, 1):
        assert len(encode_source(tokenizer_for("word"), Source.of_text(""), cache_from_bytes=cache_from_bytes)) == 0


def test_an_error_in_the_source_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"fine\n" * 1000 + b"\xff")
    with assert_refused(EncodingError, 5000):
        encode_source(tokenizer_for("byte"), resolve(path).parts["text"], cache_from_bytes=1)
    assert kept() == []


def test_an_unwritable_cache(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "file"))
    with assert_refused(StorageError, "THEREAFTER_CACHE"):
        encode_source(tokenizer_for("byte"), source, cache_from_bytes=1)


FULL_DISK = """
import resource, signal, sys
from thereafter.errors import StorageError
from thereafter.text.encoded import encode_source
from thereafter.text.sources import Source
from thereafter.text.tokenizers import TOKENIZERS
byte = TOKENIZERS.load("byte").fit(lambda: [])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    encode_source(byte, Source.of_text("x" * 3_000_000), cache_from_bytes=1)
except StorageError as failed:
    sys.exit(7)
"""


def test_a_disk_that_fills_up_leaves_nothing() -> None:
    """The limit on file size makes the system refuse a write half-way, as a full disk does."""
    pytest.importorskip("resource", reason="file size limits need a Unix system")
    assert subprocess.run([sys.executable, "-c", FULL_DISK], check=False).returncode == 7
    assert kept() == []


PEAK = """
import re, sys
from thereafter.text.encoded import fit_source
from thereafter.text.sources import resolve
from thereafter.text.tokenizers import TOKENIZERS
chosen = TOKENIZERS.load(sys.argv[1])
if sys.argv[1] in ("bpe", "wordpiece", "unigram"):
    import tokenizers
def peak():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1])
before = peak()
tokenizer, ids = fit_source(chosen, resolve(sys.argv[2]).parts["text"])
sys.stdout.write(f"{(peak() - before) / 1024:.0f} {len(ids)} {len(tokenizer.vocabulary)} {ids.dtype}")
"""


def peak(name: str, path: Path) -> tuple[float, int]:
    """Megabytes above the footprint of the imports while fitting and encoding, and the number of tokens.

    Read from /proc, because the peak that `getrusage` gives a child includes that of its parent before the exec.
    """
    if not Path("/proc/self/status").exists():
        pytest.skip("SKIPPED LOUDLY: the peak of memory is read from /proc, which this system lacks")
    run = subprocess.run([sys.executable, "-c", PEAK, name, str(path)], capture_output=True, text=True, check=True)
    megabytes, tokens, *_ = run.stdout.split()
    return float(megabytes), int(tokens)


def big_file(path: Path, size: int) -> Path:
    """Words of a Zipf distribution with half a million forms, in lines."""
    rng = np.random.default_rng(5)
    letters = np.array(list("etaoinshrdlucmfw"))
    forms = ["".join(rng.choice(letters, length)) for length in rng.integers(3, 12, 500_000)]
    with open(path, "w", encoding="ascii") as file:
        while file.tell() < size:
            picks = np.minimum(rng.zipf(1.15, 400_000) - 1, len(forms) - 1).tolist()
            words = [forms[pick] for pick in picks]
            file.write("\n".join(" ".join(words[start : start + 20]) for start in range(0, len(words), 20)) + "\n")
    return path


@pytest.mark.slow
def test_a_gigabyte_takes_less_than_400_megabytes(tmp_path: Path, record_property: object) -> None:
    path = big_file(tmp_path / "big.txt", 1 << 30)
    figures = {name: peak(name, path) for name in TOKENIZERS}
    for name, figure in figures.items():
        record_property(name, figure)  # type: ignore[operator]
    assert all(megabytes < 400 for megabytes, _ in figures.values()), figures


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TOKENIZERS))
@pytest.mark.parametrize("kind", ["words", "letters", "spaces"])
def test_a_line_of_100_megabytes(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    if kind == "words":
        path.write_bytes(b"so long and thanks " * (100_000_000 // 19))
    elif kind == "letters":
        path.write_bytes(np.random.default_rng(1).choice(np.frombuffer(b"acgt", np.uint8), 100_000_000).tobytes())
    else:
        path.write_bytes(b" " * 100_000_000)
    _, tokens = peak(name, path)
    if name in ("char", "byte"):
        assert tokens == path.stat().st_size
    elif name == "prose" and kind != "words":
        assert tokens == 1
