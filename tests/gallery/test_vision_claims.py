"""The claim about clips is read off the figure: it holds where every right label gains, else the caption says so."""

from __future__ import annotations

import numpy as np
import pytest

from thereafter.gallery.tasks import beside_copying, more_frames_are_surer, surer_by_looking
from thereafter.inspection.measurement import Measurement
from thereafter.vision.clips.labels import ClipExplained, ClipLabels
from thereafter.vision.figures import (
    belief_by_frame,
    glimpse_path,
    measured_belief,
    measured_glimpses,
    measured_nats,
    nats_by_step,
)
from thereafter.vision.glimpsing.task import GlimpsesExplained
from thereafter.vision.measures import score_frames

pytest.importorskip("plotly")


def claimed(first: float, last: float) -> str:
    belief = np.array([[first, 1 - first], [0.5, 0.5], [last, 1 - last]], np.float32)
    names = {"digit": ("3", "7")}
    clip = ClipExplained(ClipLabels({"digit": "3"}, {}), names, {"digit": belief}, np.zeros((3, 4, 4), np.uint8))
    return more_frames_are_surer(belief_by_frame(measured_belief(clip, truth={"digit": "3"})))


def test_a_belief_that_grows_agrees_and_one_that_falls_does_not() -> None:
    assert claimed(0.25, 0.75).startswith("As the paper says, more frames")
    assert "the right digit has 0.25 and 0.75" in claimed(0.25, 0.75)
    assert "here it does not show" in claimed(0.75, 0.25)


def test_copying_is_beaten_at_every_step_or_the_caption_says_no() -> None:
    def measured(model: str, *nats: float) -> Measurement:
        return measured_nats(
            score_frames(np.array([nats]), np.ones((1, 2)), np.ones((1, 2))), model=model, text="clips"
        )

    copying = measured("copying", 20.0, 30.0)
    holds = beside_copying(nats_by_step([measured("conv-lstm", 10.0, 25.0), copying]))
    assert holds == "The conv-lstm needs 25 nats 2 frames ahead, copying 30; fewer at every step."
    assert "not fewer at every step" in beside_copying(nats_by_step([measured("conv-lstm", 21.0, 25.0), copying]))


def test_looking_longer_makes_surer_or_the_caption_says_no() -> None:
    def claim(first: float, last: float) -> str:
        beliefs = np.array([[first, 1 - first], [last, 1 - last]], np.float32)
        pixels = np.zeros((1, 8, 8), np.uint8)
        explained = GlimpsesExplained("a", {"a": last}, ("a", "b"), np.full((2, 2), 4, np.float32), beliefs, pixels)
        return surer_by_looking(glimpse_path(measured_glimpses(explained, patch=2, truth="a")))

    assert claim(0.25, 0.75).startswith("As the paper says, more glimpses")
    assert "the right label has 0.25 and 0.75" in claim(0.25, 0.75)
    assert "here it does not show" in claim(0.75, 0.25)
