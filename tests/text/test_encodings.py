"""A file in the encoding of Western Europe is read without being told; anything doubtful stays an error."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from thereafter.text.reading import guess_encoding, guess_of_bytes

FRENCH = "L'été dernier, Hélène a passé ses journées à rêver près du château où naquit son père.\n" * 20
GERMAN = "Die Mühle am Bach gehörte früher dem Großvater, der sie „Süße Mühle“ nannte.\n" * 20


@pytest.mark.parametrize("text", [FRENCH, GERMAN, "Café\n", "naïve"])
def test_western_text_is_recognised_by_its_bytes(text: str) -> None:
    raw = text.encode("cp1252")
    assert guess_of_bytes(raw) == "cp1252"
    assert raw.decode("cp1252") == text


@pytest.mark.parametrize(
    "raw",
    [
        b"plain ASCII\n",
        b"",
        FRENCH.encode(),
        FRENCH.encode("utf-16"),
        FRENCH.encode() + b"\xe9\n",  # UTF-8 with one damaged byte
        "Быстрая лиса прыгает через ленивую собаку".encode("cp1251"),
        "Η γρήγορη αλεπού".encode("iso8859-7"),
        "吾輩は猫である。名前はまだ無い。".encode("shift-jis"),
        bytes(range(256)),
        b"caf\xe9 \x81",
        b"\x00caf\xe9",
        b"fine\n" * 1000 + b"\xff",
        b"12 \xe9\xe8 34\n" * 9,
    ],
)
def test_nothing_else_is_guessed(raw: bytes) -> None:
    assert guess_of_bytes(raw) is None


def test_files_plain_and_zipped(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_bytes(FRENCH.encode("latin-1"))
    (tmp_path / "zipped.txt.gz").write_bytes(gzip.compress(FRENCH.encode("latin-1")))
    assert {guess_encoding(path) for path in tmp_path.iterdir()} == {"cp1252"}


def test_a_character_cut_in_two_at_the_end_of_the_look_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thereafter.text.reading.LOOKED_AT", 100)
    for length in range(100, 104):
        assert guess_of_bytes((FRENCH + "\n" + FRENCH).encode()[:length]) is None
