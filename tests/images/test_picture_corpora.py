"""mnist and flickr8k by name: their parts, their pictures, and what a language model says to them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from made_files import drawn, png, write

import thereafter
from refusals import assert_refused
from thereafter.data.corpora import locate_source
from thereafter.errors import SourceError, UnknownNameError
from thereafter.vision.captioning.reading import CAPTIONED_FILES, read_captioned
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import LABELLED_FILES, read_labelled_pictures

PARTS = ("train", "valid", "test")
PICTURES = "holds pictures, not running text; .*task='caption', task='classify' or task='video'"


def captioned(part: str, notes: list[str] | None = None) -> int:
    return len(read_captioned(locate_source(f"flickr8k:{part}", CAPTIONED_FILES).parts["text"].files, notes))


def test_a_part_of_pictures_is_several_files(corpora_folder: Path):
    digits = locate_source("mnist:test", LABELLED_FILES)
    assert (digits.kind, digits.name, list(digits.parts)) == ("pictures", "mnist:test", ["text"])
    assert [path.name.removesuffix(".gz") for path in digits.parts["text"].files] == [
        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
    ]  # fmt: skip
    examples = read_labelled_pictures(digits.parts["text"].files)
    assert {one.label for one in examples} == set("0123456789")
    assert PictureCodec.fit([one.picture for one in examples]).shape == (1, 28, 28)
    photographs = locate_source("flickr8k", CAPTIONED_FILES, part="valid")
    names = [path.name for path in photographs.parts["text"].files]
    assert names == ["Flickr8k.token.txt", "images_64x64.zip", "Flickr_8k.devImages.txt"]
    assert locate_source("flickr8k:captions", CAPTIONED_FILES).parts["text"].files[0].name == "Flickr8k.token.txt"
    with assert_refused(UnknownNameError, "mnist", "dev", "test, train"):
        locate_source("mnist:dev", LABELLED_FILES)


def test_parts_share_no_picture_and_decode_one_archive(corpora_folder: Path):
    parts = [read_captioned(locate_source(f"flickr8k:{part}", CAPTIONED_FILES).parts["text"].files) for part in PARTS]
    pictures = [{one.picture for one in part} for part in parts]
    assert len(set.union(*pictures)) == sum(map(len, pictures))
    assert len({one.source for part in pictures for one in part}) == 1
    assert all(len(one.captions) == 5 for part in parts for one in part)


@pytest.mark.parametrize(
    ("name", "task", "content"),
    [
        ("mnist", "classify", "pictures with labels"),
        ("mnist:test", "classify", "pictures with labels"),
        ("flickr8k", "caption", "pictures with captions"),
        ("flickr8k:train", "caption", "pictures with captions"),
    ],
)
def test_a_language_model_points_to_the_task_that_reads_pictures(
    corpora_folder: Path, name: str, task: str, content: str
):
    with assert_refused(SourceError, name, f"task='{task}'") as caught:
        thereafter.train(name)
    assert f"--task {task}" in caught.value.in_shell


def test_a_language_model_takes_no_files_of_pictures(tmp_path: Path):
    path = write(tmp_path / "a.png", png(drawn()))
    for source in (path, str(path), [path], tmp_path / "train-images-idx3-ubyte.gz"):
        with pytest.raises(SourceError, match=PICTURES):
            thereafter.train(source)


def test_a_language_model_takes_no_arrays_archives_or_folders_of_pictures(tmp_path: Path):
    folder = write(tmp_path / "photos" / "cat" / "a.png", png(drawn())).parent.parent
    np.savez(tmp_path / "clips.npz", frames=np.zeros((2, 3, 4, 4), np.uint8))
    np.save(tmp_path / "clips.npy", np.zeros((2, 3, 4, 4), np.uint8))
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.write(folder / "cat" / "a.png", "cat/a.png")
    for source in (tmp_path / "clips.npz", tmp_path / "clips.npy", tmp_path / "photos.zip", folder, str(folder)):
        with pytest.raises(SourceError, match=PICTURES) as caught:
            thereafter.train(source)
        assert "--task caption, --task classify or --task video" in caught.value.in_shell
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as archive:
        archive.writestr("a.txt", "a text")
    with pytest.raises(SourceError, match="try unpacking it"):
        thereafter.train(tmp_path / "texts.zip")


@pytest.mark.wide
@pytest.mark.corpus("flickr8k: 8,091 pictures with five captions each, 6,000 / 1,000 / 1,000")
def test_the_real_flickr8k(data: Path):
    notes: list[str] = []
    assert [captioned(part, notes) for part in PARTS] == [6000, 1000, 1000]
    assert notes == []
    files = [locate_source("flickr8k", CAPTIONED_FILES).parts[part].files[0] for part in ("captions", "pictures")]
    examples = read_captioned(files, notes)
    assert len(examples) == 8091
    assert {len(one.captions) for one in examples} == {5}
    assert notes == ["1 name without a picture left out; the first is 2258277193_586949ec62.jpg"]
    some = [one.picture for one in examples[::100]]
    assert PictureCodec.fit(some).shape == (3, 64, 64)


@pytest.mark.wide
@pytest.mark.corpus("mnist: 60,000 and 10,000 digits, mean 0.1307 and deviation 0.3081")
def test_the_real_mnist(data: Path):
    sizes = {}
    for part in ("train", "test"):
        examples = read_labelled_pictures(locate_source(f"mnist:{part}", LABELLED_FILES).parts["text"].files)
        sizes[part] = len(examples)
        counts = np.bincount([int(one.label) for one in examples])
        assert (
            counts.tolist()
            == {
                "train": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
                "test": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
            }[part]
        )
        if part == "train":
            pixels = PictureCodec.fit([one.picture for one in examples]).batch([one.picture for one in examples])
    assert sizes == {"train": 60_000, "test": 10_000}
    assert (round(float(pixels.mean()) / 255, 4), round(float(pixels.std()) / 255, 4)) == (0.1307, 0.3081)
