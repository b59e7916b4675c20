"""A folder with train, valid and test files has parts; they are recognised by name, and only by whole pieces of it."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest

from refusals import assert_refused
from thereafter.data.corpora import locate_source
from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind
from thereafter.errors import OptionError

TEXTS = FileKind("text files", ((".txt", ".tokens", ".jsonl"), (".csv",)), columns=True, bare=True)


def fill(folder: Path, *names: str) -> Path:
    """A folder with files of these names, each with its own name in it."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = f"{name}\n".encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder


def parts_of(source: str | Path, base: Path) -> Mapping[str, list[str]]:
    """The names of the files of each part."""
    parts = locate_source(source, TEXTS).parts
    return {part: [path.relative_to(base).as_posix() for path in files.files] for part, files in parts.items()}


@pytest.mark.parametrize(
    ("train", "valid", "test"),
    [
        ("train.txt", "valid.txt", "test.txt"),
        ("train.txt", "validation.txt", "test.txt"),
        ("Train.txt", "DEV.txt", "TEST.txt"),
        ("train.txt.gz", "val.txt", "test.txt.gz"),
        ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),
        ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"),
        ("eng.train", "eng.testa", "eng.testb"),
        ("train", "dev", "test"),
        ("en_ewt-ud-train.txt", "en_ewt-ud-dev.txt", "en_ewt-ud-test.txt"),
        ("train-00000-of-00001.jsonl", "validation-00000-of-00001.jsonl", "test-00000-of-00001.jsonl"),
        ("train2017.txt", "val2017.txt", "test2017.txt"),
        ("Flickr_8k.trainImages.txt", "Flickr_8k.devImages.txt", "Flickr_8k.testImages.txt"),
        ("train/a.txt", "dev/b.txt", "test/c.txt"),
        ("data/train/a.txt", "data/val/a.txt", "data/test/a.txt"),
        ("dev_data/train.txt", "dev_data/valid.txt", "dev_data/test.txt"),
        ("train_full.txt", "dev.txt", "test.txt"),
        ("training.txt", "validation.txt", "testing.txt"),
        ("training_set.txt", "validation_set.txt", "test_set.txt"),
        ("en/train.txt", "fr/valid.txt", "de/test.txt"),
    ],
)
def test_parts_are_recognised_by_name(tmp_path: Path, train: str, valid: str, test: str):
    fill(tmp_path, train, valid, test)
    assert parts_of(tmp_path, tmp_path) == {"train": [train], "valid": [valid], "test": [test]}
    top = Path(train).parts[0] if Path(train).parts[0] == Path(test).parts[0] else "."
    train, valid, test = (Path(name).relative_to(top).as_posix() for name in (train, valid, test))
    (note,) = locate_source(tmp_path, TEXTS).notes
    assert f"{train} is the training part, {valid} the validation part, {test} the test part" in note


@pytest.mark.parametrize(
    "names",
    [
        ("contest.txt", "latest.txt", "trainer.txt", "training.txt"),
        ("emma.txt", "persuasion.txt", "test_of_time.txt"),
        ("emma.txt", "test_of_time.txt", "train_to_london.txt"),
        ("emma.txt", "train.txt"),
        ("test.txt", "valid.txt"),
        ("train-1.txt", "train-2.txt"),
        ("train_dev.txt", "other.txt"),
        ("devtest.txt", "pretrain.txt"),
        ("trainTest.txt", "SpeedTest.txt", "other.txt"),
    ],
)
def test_other_names_are_one_text_as_ever(tmp_path: Path, names: tuple[str, ...]):
    assert parts_of(fill(tmp_path, *names), tmp_path) == {"text": sorted(names)}


def test_the_folder_one_is_in_has_parts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(fill(tmp_path / "train", "train.txt", "dev.txt", "dev2.txt"))
    parts = {"train": ["train.txt"], "valid": ["dev.txt", "dev2.txt"]}
    assert parts_of(".", Path()) == parts_of(Path(), Path()) == parts
    assert parts_of("*.txt", Path()) == parts
    (note,) = locate_source(".", TEXTS).notes
    assert note.startswith("train.txt is the training part, dev.txt and 1 more the validation part; ")
    assert parts_of(tmp_path, tmp_path / "train") == parts


def test_several_files_are_one_part_in_the_order_of_their_names(tmp_path: Path):
    fill(tmp_path, "train-00001.jsonl", "train-00000.jsonl", "test2.jsonl", "test1.jsonl", "dev/b.jsonl", "dev/a.jsonl")
    assert parts_of(tmp_path, tmp_path) == {
        "train": ["train-00000.jsonl", "train-00001.jsonl"],
        "valid": ["dev/a.jsonl", "dev/b.jsonl"],
        "test": ["test1.jsonl", "test2.jsonl"],
    }
    (note,) = locate_source(tmp_path, TEXTS).notes
    assert "train-00000.jsonl and 1 more are the training part" in note


def test_what_belongs_to_no_part_is_left_out_and_named(tmp_path: Path):
    fill(tmp_path, "train.txt", "test.txt", "test.orig.txt", "vocab.txt")
    parts = locate_source(tmp_path, TEXTS)
    assert parts_of(tmp_path, tmp_path) == {"train": ["train.txt"], "test": ["test.txt"]}
    assert any("test.orig.txt, vocab.txt" in note and "not read" in note for note in parts.notes)


def test_a_part_that_the_others_lack_is_taken_under_another_name(tmp_path: Path):
    fill(tmp_path, "train.txt", "valid.txt", "test_2016_flickr.txt")
    assert parts_of(tmp_path, tmp_path)["test"] == ["test_2016_flickr.txt"]


def test_the_files_that_have_parts_are_taken_before_others(tmp_path: Path):
    fill(tmp_path, "README.txt", "train.csv", "test.csv")
    assert parts_of(tmp_path, tmp_path) == {"train": ["train.csv"], "test": ["test.csv"]}
    assert any("README.txt belongs to no part and is not read" in note for note in locate_source(tmp_path, TEXTS).notes)
    books = ["emma.txt", "persuasion.txt", "sanditon.txt"]
    assert parts_of(fill(tmp_path / "books", "train.csv", "test.csv", *books), tmp_path / "books") == {"text": books}


def test_a_test_file_without_a_training_part_is_warned_of(tmp_path: Path):
    (note,) = locate_source(fill(tmp_path, "learn.txt", "test.txt"), TEXTS).notes
    assert note.startswith("warning: test.txt")
    assert not locate_source(fill(tmp_path / "books", "emma.txt", "test_of_time.txt"), TEXTS).notes
    assert not locate_source(fill(tmp_path / "only", "test.txt"), TEXTS).notes


def test_a_page_on_training_among_pages_is_a_page(tmp_path: Path):
    """A few files that could be parts do not hide a folder of others, but a test file among them is warned of."""
    pages = [f"{name}.txt" for name in ("index", "export", "install", "predict", "train", "val")]
    fill(tmp_path, *pages)
    assert parts_of(tmp_path, tmp_path) == {"text": sorted(pages)}
    (note,) = locate_source(tmp_path, TEXTS).notes
    assert note.startswith("warning: val.txt is read with all 6 files as one")
    (tmp_path / "train.txt").write_text("much to learn from\n" * 9)  # more than all others
    assert set(parts_of(tmp_path, tmp_path)) == {"train", "valid"}


def test_a_glob_and_folders_have_parts_and_named_files_have_none(tmp_path: Path):
    fill(tmp_path, "one/train.jsonl", "one/test.jsonl", "two/train.jsonl", "two/test.jsonl")
    one = {"train": ["one/train.jsonl"], "test": ["one/test.jsonl"]}
    assert parts_of(f"{tmp_path}/one/*.jsonl", tmp_path) == one
    assert parts_of(f"{tmp_path}/one/*.jsonl:text", tmp_path) == one
    assert locate_source(f"{tmp_path}/one/*.jsonl:text", TEXTS).parts["train"].column == "text"
    both = locate_source([tmp_path / "one", tmp_path / "two"], TEXTS).parts
    assert [path.parent.name for path in both["train"].files] == ["one", "two"]
    assert list(locate_source([tmp_path / "one/train.jsonl", tmp_path / "one/test.jsonl"], TEXTS).parts) == ["text"]


def test_one_part_of_a_folder(tmp_path: Path):
    fill(tmp_path / "own", "train.txt", "valid.txt")
    for source, part in ((f"{tmp_path}/own:valid", None), (tmp_path / "own", "valid")):
        chosen = locate_source(source, TEXTS, part)
        assert chosen.parts["text"].files == (tmp_path / "own" / "valid.txt",)
        assert (chosen.name, chosen.notes) == (f"{tmp_path}/own:valid", ())
    with assert_refused(OptionError, "own", "test"):
        locate_source(f"{tmp_path}/own:test", TEXTS)


def test_parts_are_read_as_one_where_that_is_asked_for(tmp_path: Path):
    fill(tmp_path, "train.txt", "valid.txt", "notes.txt")
    whole = locate_source(tmp_path, TEXTS, parts=False)
    assert [path.name for path in whole.parts["text"].files] == ["notes.txt", "train.txt", "valid.txt"]
    assert whole.joined
    own = Parts("own", {"train": Files("a", (tmp_path / "train.txt",)), "valid": Files("b", (tmp_path / "valid.txt",))})
    joined = locate_source(own, TEXTS, parts=False).parts["text"].files
    assert [path.name for path in joined] == ["train.txt", "valid.txt"]
