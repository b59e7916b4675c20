"""Figures of predicted frames, against torch and against brute force."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, ShapeError
from thereafter.evaluation.bootstrap import resample_sums
from thereafter.vision.measures import (
    CopyCounts,
    copied,
    frame_errors,
    frame_nats,
    least_nats,
    resampled_frames,
    score_frames,
)


def drawn_clips(seed: int, clips: int = 5, frames: int = 4) -> np.ndarray:
    """Dark frames with grey and white pixels that move to the right."""
    rng = np.random.default_rng(seed)
    first = np.where(rng.random((clips, 8, 8)) < 0.3, rng.integers(0, 256, (clips, 8, 8)), 0).astype(np.uint8)
    return np.stack([np.roll(first, step, axis=2) for step in range(frames)], axis=1)


def test_nats_and_errors_of_frames_equal_torch() -> None:
    frames = drawn_clips(1)
    p = np.random.default_rng(2).random(frames.shape)
    x, q = torch.from_numpy(frames / 255.0), torch.from_numpy(p)
    nats = F.binary_cross_entropy(q, x, reduction="none").sum((-2, -1))
    np.testing.assert_allclose(frame_nats(frames, p), nats, rtol=1e-10)
    np.testing.assert_allclose(frame_errors(frames, p), F.mse_loss(q, x, reduction="none").sum((-2, -1)), rtol=1e-12)
    with assert_refused(ShapeError, "shape"):
        frame_nats(frames, p[:1])


def test_no_prediction_is_below_the_entropy_of_the_frame() -> None:
    frames = drawn_clips(3)
    least = least_nats(frames)
    np.testing.assert_allclose(frame_nats(frames, frames / 255.0), least, rtol=1e-4)
    assert (frame_nats(frames, np.clip(frames / 255.0 + 0.05, 0, 1)) > least).all()
    assert least_nats(np.array([[[0, 255], [255, 0]]], np.uint8)).item() == 0.0


def test_the_smoothing_of_a_copy_is_the_best_there_is() -> None:
    clips = drawn_clips(4, clips=12, frames=5)
    last, future = clips[:, 1], clips[:, 2:]
    counts = CopyCounts(3)
    counts.add(last[:7], future[:7])
    counts.add(last[7:], future[7:])
    best = counts.smoothing()
    nats = frame_nats(future, copied(last, best)).mean(0)
    for step in range(3):
        tried = [
            frame_nats(future[:, step], copied(last, np.array([e]))[:, 0]).mean() for e in np.linspace(1e-3, 0.499, 499)
        ]
        assert nats[step] <= min(tried) + 1e-9
        assert nats[step] == pytest.approx(min(tried), rel=1e-3)
    with assert_refused(EmptyCorpusError, "clips"):
        CopyCounts(2).smoothing()
    with assert_refused(ShapeError, 2):
        CopyCounts(2).add(last, future)


def test_a_clip_that_stands_still_needs_no_smoothing() -> None:
    still = np.where(np.random.default_rng(5).random((4, 8, 8)) < 0.5, 255, 0).astype(np.uint8)
    counts = CopyCounts(1)
    counts.add(still, still[:, None])
    assert counts.smoothing().item() < 1e-6


def test_a_score_of_frames_says_its_figures_by_step() -> None:
    rng = np.random.default_rng(6)
    nats, errors, least = 300 + 10 * rng.random((40, 10)), 50 + rng.random((40, 10)), np.full((40, 10), 80.0)
    score = score_frames(nats, errors, least)
    assert score.nats == pytest.approx(nats.mean())
    assert [step.nats for step in score.steps] == pytest.approx(nats.mean(0).tolist())
    assert score.error == pytest.approx(nats.mean(1).std(ddof=1) / math.sqrt(40))
    figures = json.loads(json.dumps(score.as_dict()))
    assert figures["interval"][0] < figures["nats"] < figures["interval"][1]
    assert len(score.to_rows()) == 10
    assert str(score).splitlines()[0].startswith(f"{score.nats:.1f} nats a frame (")
    assert "at step 10; the frames themselves have 80.0" in str(score)
    with assert_refused(EmptyCorpusError, "clips"):
        score_frames(nats[:0], errors[:0], least[:0])


def test_resampled_frames_give_the_figures_of_the_whole() -> None:
    rng = np.random.default_rng(7)
    nats, errors = rng.random((30, 4)), rng.random((30, 4))
    resampled = resampled_frames(nats, errors)
    whole = resampled.figures(resampled.statistics_NS.sum(0, keepdims=True))
    assert whole["nats"].item() == pytest.approx(-nats.mean())
    assert whole["squared_error"].item() == pytest.approx(-errors.mean())
    spread = resampled.figures(resample_sums(resampled.statistics_NS))["nats"].std()
    assert spread == pytest.approx(nats.mean(1).std() / math.sqrt(30), rel=0.1)


def test_one_clip_has_no_interval() -> None:
    one = np.full((1, 1), 3.0)
    score = score_frames(one, one, one)
    assert score.interval is None
    assert "interval" not in score.as_dict()
    assert str(score) == "3.0 nats a frame, squared error 3.0; 1 clip, 1 frame ahead"
