"""Rows beside tasks over pictures: at which size pictures are compared, and what is noted of those held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.tasks import TASKS, finding
from thereafter.training.settings import TrainingSettings
from thereafter.vision import measures
from thereafter.vision.captioning.network import CaptionerSettings
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.captioning.task import Captioning
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.picture import Picture
from thereafter.vision.pictures.sources import picture_of


def pictures(*size: int) -> list[Picture]:
    draw = np.random.default_rng(1)
    return [picture_of(draw.integers(0, 256, size, dtype=np.uint8)) for _ in range(3)]


SIZES = [((28, 28, 1), (1, 28, 28)), ((64, 64, 3), (3, 64, 64)), ((70, 90, 1), (1, 64, 64)), ((64, 65, 1), (1, 64, 64))]


@pytest.mark.parametrize(("size", "shape"), SIZES)
def test_large_pictures_are_compared_at_the_usual_size(
    size: tuple[int, ...], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, ...]] = []

    def nearest(before: NDArray[np.generic], after: NDArray[np.generic], _: object) -> list[str]:
        compared.extend([before.shape[1:], after.shape[1:]])
        return []

    monkeypatch.setattr(measures, "nearest_captions", nearest)
    labelled = [LabelledPicture(one, "a") for one in pictures(*size)]
    captioned = [CaptionedPicture(one, ("a b",)) for one in pictures(*size)]
    measures.picture_rows(labelled, labelled)["nearest of 3 training pictures"]()
    measures.caption_rows(captioned, captioned)["nearest picture (pixels)"]()
    assert compared == [shape] * 4


def test_one_example_that_is_held_out_is_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", pixels=np.zeros((4, 5, 5), np.uint8), labels=np.array(["a", "a", "a", "a"]))
    notes = finding.train_and_valid(TASKS.load("classify-pictures"), tmp_path / "few.npz", None)[2]
    assert notes[0].startswith("the last example of ")
    assert notes[0].endswith(" is held out for validation")


def test_averaged_weights_and_running_means_are_refused_together() -> None:
    averaging = TrainingSettings(optimizer="nt-asgd")
    with assert_refused(OptionError, "nt-asgd", "batch", "norm='group'"):
        Captioning(CaptionerSettings()).budget(averaging, 10)
    for fine in (CaptionerSettings(norm="group"), CaptionerSettings(see="nothing")):
        assert Captioning(fine).budget(averaging, 10) == averaging
