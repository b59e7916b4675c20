"""Pictures with labels: idx files, folders, archives, arrays, tables."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from made_files import drawn, idx, png, write

from refusals import assert_refused
from thereafter.data.finding import find_files
from thereafter.errors import FormatError, ThereafterError
from thereafter.tasks.labelling import require_known_labels
from thereafter.vision.pictures.labelled_pictures import (
    LABELLED_FILES,
    holds_labelled_pictures,
    read_labelled_pictures,
)

PIXELS_NHW = np.stack([drawn(seed, 5, 5, 1)[:, :, 0] for seed in range(4)])
LABELS = ["cat", "cat", "dog", "eel"]


def read(folder: Path) -> list[tuple[str, list[int]]]:
    files = find_files(folder, LABELLED_FILES)
    assert holds_labelled_pictures(files)
    return sorted((one.label, one.picture.read().ravel().tolist()) for one in read_labelled_pictures(files))


EXPECTED = sorted((label, pixels.ravel().tolist()) for label, pixels in zip(LABELS, PIXELS_NHW, strict=True))


def test_a_folder_for_each_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number, label in enumerate(LABELS):
        write(tmp_path / "deep" / label / f"{number}.png", png(PIXELS_NHW[number, :, :, None]))
    assert read(tmp_path) == EXPECTED
    monkeypatch.chdir(tmp_path)
    assert read(Path("deep")) == EXPECTED
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for number, label in enumerate(LABELS):
            archive.writestr(f"x/{label}/{number}.png", png(PIXELS_NHW[number, :, :, None]))
    assert [one.label for one in read_labelled_pictures([tmp_path / "all.zip"])] == LABELS


def test_a_table_of_labels_beside_pictures(tmp_path: Path):
    for number in range(4):
        write(tmp_path / f"{number}.png", png(PIXELS_NHW[number, :, :, None]))
    rows = "".join(f"{number}.png,{label}\n" for number, label in enumerate(LABELS))
    write(tmp_path / "labels.csv", "image,label\n" + rows)
    assert read(tmp_path) == EXPECTED
    write(tmp_path / "labels.csv", rows + "9.png,dog\n")
    with assert_refused(FormatError, 5, "labels.csv", "9.png"):
        read(tmp_path)


def test_arrays_with_labels(tmp_path: Path):
    np.savez_compressed(tmp_path / "a.npz", images=PIXELS_NHW, y=np.array(LABELS))
    assert read(tmp_path) == EXPECTED
    np.savez(tmp_path / "a.npz", x=PIXELS_NHW, labels=np.arange(4))
    assert [label for label, _ in read(tmp_path)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("packed", [False, True])
def test_idx_pairs_by_the_beginning_of_their_names(tmp_path: Path, packed: bool):
    for part, rows in (("t10k", slice(0, 1)), ("train", slice(1, 4))):
        for kind, values in (("images-idx3", PIXELS_NHW[rows]), ("labels-idx1", np.arange(4, dtype=np.uint8)[rows])):
            name = f"{part}-{kind}-ubyte" + (".gz" if packed else "")
            write(tmp_path / name, gzip.compress(idx(values)) if packed else idx(values))
    examples = read_labelled_pictures(find_files(tmp_path, LABELLED_FILES))
    assert [one.label for one in examples] == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(np.stack([one.picture.read()[:, :, 0] for one in examples]), PIXELS_NHW)
    with assert_refused(FormatError, 1, 0):
        read_labelled_pictures(sorted(tmp_path.glob("train-images*")))


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ({}, "expected one called labels"),
        ({"labels": np.arange(3)}, "has 3 labels and .* has 4 pictures"),
        ({"labels": np.zeros((4, 10))}, r"type float64 and the shape \[4, 10\]; expected strings or whole numbers"),
        ({"labels": np.array([None] * 4)}, "Python objects"),
    ],
)
def test_arrays_whose_labels_do_not_fit(tmp_path: Path, labels: dict[str, np.ndarray], sentence: str):
    np.savez(tmp_path / "a.npz", pixels=PIXELS_NHW, **labels)
    with pytest.raises(ThereafterError, match=sentence):
        read_labelled_pictures([tmp_path / "a.npz"])


def test_pictures_without_labels_and_labels_never_seen(tmp_path: Path):
    for number in range(2):
        write(tmp_path / f"{number}.png", png(PIXELS_NHW[number, :, :, None]))
    with assert_refused(FormatError, 2):
        read(tmp_path)
    np.savez(tmp_path / "a.npz", pixels=PIXELS_NHW, labels=np.array(LABELS))
    labels = [(one.name, one.label) for one in read_labelled_pictures([tmp_path / "a.npz"])]
    require_known_labels("picture", labels, set(LABELS), "here")
    with assert_refused(FormatError, 3, "eel"):
        require_known_labels("picture", labels, {"cat", "dog"}, "here")


@pytest.mark.parametrize("table", ["image\tcaption\n0.png\ta cat\n", "name\tage\tplace\n0.png\t3\there\n"])
def test_a_table_without_labels_leaves_them_to_the_folders(tmp_path: Path, table: str):
    for number, label in enumerate(LABELS):
        write(tmp_path / label / f"{number}.png", png(PIXELS_NHW[number, :, :, None]))
    write(tmp_path / "captions.tsv", table)
    assert read(tmp_path) == EXPECTED
    for file in sorted(tmp_path.glob("*/*.png")):
        file.rename(tmp_path / file.name)
    with assert_refused(FormatError, "captions.tsv", "image and label"):
        read(tmp_path)
