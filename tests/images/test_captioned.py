"""Captions meet their pictures by name, in every form of captions; what has no partner is left out and counted."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from made_files import drawn, png, write

from refusals import assert_refused
from thereafter.data.finding import find_files
from thereafter.errors import EmptyCorpusError, FormatError, ThereafterError
from thereafter.vision.captioning.reading import CAPTIONED_FILES, read_captioned

NAMES = ("a.png", "b.png", "c.png")
CAPTIONS = {"a.png": ("a dog runs .", "the dog"), "b.png": ("two cats", "cats , sleeping")}
FORMS = {
    "tokens.txt": "".join(f"{name}#{k}\t{one}\n" for name, lines in CAPTIONS.items() for k, one in enumerate(lines)),
    "table.tsv": "image\tcaption\n" + "".join(f"{n}\t{one}\n" for n, lines in CAPTIONS.items() for one in lines),
    "table.csv": "id,file,text\n" + "".join(f'7,{n},"{one}"\n' for n, lines in CAPTIONS.items() for one in lines),
    "captions.txt": "image,caption\n" + "".join(f'{n},"{one}"\n' for n, lines in CAPTIONS.items() for one in lines),
    "plain.tsv": "".join(f"photos/{n}\t{one}\n" for n, lines in CAPTIONS.items() for one in lines),
    "stems.tsv": "".join(f"{n[0]}\t{one}\n" for n, lines in CAPTIONS.items() for one in lines),
    "each.jsonl": "".join(json.dumps({"image": n, "captions": lines}) + "\n" for n, lines in CAPTIONS.items()),
    "lines.jsonl": "".join(
        json.dumps({"file_name": n, "caption": one}) + "\n" for n, lines in CAPTIONS.items() for one in lines
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, name in enumerate(NAMES):
        write(tmp_path / "photos" / name, png(drawn(seed)))
    return tmp_path / "photos"


def archive_of(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for seed, name in enumerate(NAMES):
            archive.writestr(f"photos/{name}", png(drawn(seed)))
    return path


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_captions_in_a_folder(folder: Path, form: str):
    write(folder / form, FORMS[form])
    notes: list[str] = []
    files = find_files(folder, CAPTIONED_FILES)
    examples = read_captioned(files, notes)
    assert {one.picture.name: one.captions for one in examples} == CAPTIONS
    assert notes == ["1 picture without captions left out; the first is c.png"]
    np.testing.assert_array_equal(examples[1].picture.read(), drawn(1))
    assert read_captioned(files[::-1]) == examples


@pytest.mark.parametrize("form", ["tokens.txt", "stems.tsv"])
def test_an_archive_or_named_arrays_in_the_place_of_a_folder(tmp_path: Path, form: str):
    captions = write(tmp_path / form, FORMS[form])
    np.savez(tmp_path / "a.npz", features=np.arange(6.0).reshape(3, 2), names=np.array(NAMES))
    for pictures in (archive_of(tmp_path / "a.zip"), tmp_path / "a.npz"):
        examples = read_captioned([captions, pictures])
        assert [one.captions for one in examples] == list(CAPTIONS.values())
    assert examples[1].picture.read().tolist() == [2.0, 3.0]


def test_names_choose_and_order_the_pictures(folder: Path, tmp_path: Path):
    captions = write(tmp_path / "all.tsv", FORMS["table.tsv"])
    names = write(tmp_path / "train.txt", "b.png\nc.png\nlost.png\n")
    notes: list[str] = []
    examples = read_captioned([*find_files(folder, CAPTIONED_FILES), names, captions], notes)
    assert [one.picture.name for one in examples] == ["b.png"]
    assert notes == [
        "1 name without a picture left out; the first is lost.png",
        "1 picture without captions left out; the first is c.png",
    ]
    other = write(tmp_path / "other.txt", "nothing\nhere\n")
    notes.clear()
    assert len(read_captioned([*find_files(folder, CAPTIONED_FILES), other, captions], notes)) == 2
    assert notes[0] == f"{other} names none of the pictures and is passed over"


def test_captions_without_a_picture_are_counted(folder: Path):
    write(folder / "t.txt", FORMS["tokens.txt"] + "x.jpg.1#0\tan odd name\nx.jpg#1\tthe same picture\ny.jpg#0\tgone\n")
    notes: list[str] = []
    assert len(read_captioned(find_files(folder, CAPTIONED_FILES), notes)) == 2
    assert "2 names without a picture left out; the first is x.jpg" in notes


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ({"c.tsv": "x.jpg\tone\n"}, r"no caption belongs to a picture: the captions name 'x\.jpg', .* called 'a\.png'"),
        ({}, r"there are 3 pictures and no captions in .*expected a file of captions beside them"),
        ({"c.tsv": "a.png\tone\nb.png\t \n"}, r"line 2 of .*c\.tsv has no caption for 'b\.png'"),
        ({"c.tsv": "a.png\tone\n\ttwo\n"}, r"line 2 of .*c\.tsv names no picture"),
        ({"c.csv": "x,y,z\n1,2,3\n"}, r"do not say which are pictures and captions .*expected image and caption"),
        ({"c.tsv": ""}, r"c\.tsv is empty"),
        ({"c.jsonl": '{"image": "a.png", "caption": 3}\n'}, "has no caption for"),
        ({"c.jsonl": "{broken\n"}, "line 1 of .* is not JSON"),
    ],
)
def test_mistakes_in_captions_end_in_one_sentence(folder: Path, written: dict[str, str], sentence: str):
    for name, content in written.items():
        write(folder / name, content)
    with pytest.raises(ThereafterError, match=sentence):
        read_captioned(find_files(folder, CAPTIONED_FILES))


def test_captions_alone_and_two_pictures_of_one_name(tmp_path: Path):
    captions = write(tmp_path / "c.tsv", FORMS["table.tsv"])
    with pytest.raises(EmptyCorpusError, match="there are captions and no pictures"):
        read_captioned([captions])
    for place in ("one", "two"):
        write(tmp_path / place / "a.png", png(drawn()))
    files = find_files(tmp_path, CAPTIONED_FILES)
    with assert_refused(FormatError, "a.png", "one/a.png", "two/a.png"):
        read_captioned(files)
    write(captions, "one/a.png\tfirst\ntwo/a.png\tsecond\n")
    assert [one.captions for one in read_captioned(files)] == [("first",), ("second",)]
