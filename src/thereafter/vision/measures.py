"""Scores of clips, drawings and games of catch, and the same figures from resampled examples.

How well the next frames of a clip are predicted is measured frame by frame and pixel by pixel.

A frame has pixels x of intensity 0 to 1 and a prediction p for each, the chance that it is lit. With intensities as
targets, as Srivastava, Mansimov and Salakhutdinov (2015) and Shi et al. (2015) measure it, in nats a frame,

    nats = - sum over pixels of x log p + (1 - x) log (1 - p)        error = sum over pixels of (x - p)^2

`nats` of a frame with grey pixels is never 0: the least it can be is the entropy of its intensities (`least_nats`).
What copies the last frame that was read, smoothed so that no pixel is certain, is what a network has to beat:

    p = e_k + (1 - 2 e_k) x_last        e_k: the best smoothing of step k on the training clips

`nats` is convex in e_k, so the best one is found by cutting an interval in golden sections.

A picture that is drawn costs nats too, of its pixels and of what was drawn by stroke. Of a network with hidden numbers
z it is a bound on -log p(x) with one draw of z (Kingma and Welling 2014),

    nats = -log p(x | z) + sum over strokes of KL(q(z_t | x) || p(z_t))  >=  -log p(x) on average

What networks over pictures have to beat are answers without a look at the picture, or by looks alone:

Captions
    one sentence       the training caption that fits all training pictures best
    nearest picture    the first caption of the training picture with the nearest pixels, or features
    other pictures     what the network says of another picture, by a fixed rotation of the test pictures: as good as
                       its captions are without saying anything of this one
Labels
    nearest picture    the label of the nearest training picture
    most frequent      the most frequent label

Shapes: N clips, pictures or games; K steps ahead or near pictures, H height, W width, V = 256 intensities of a pixel, T
strokes; C captions, B pictures as rows of D numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError, ShapeError
from thereafter.evaluation.bootstrap import Z_95, Floats, ResampledMeans, wilson
from thereafter.tasks.labelling import most_frequent
from thereafter.tasks.task import Headed
from thereafter.vision.captioning import measures
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.pictures.codec import USUAL_SIZE, PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.picture import Picture

OTHER_PICTURES = "this model, other pictures"
"""What the row is called that asks the network itself."""
MOST_COMPARED = 10_000
"""Training pictures that each test picture is compared with, spread evenly where there are more."""
_ROWS = 1024  # pictures in one product
_NEAREST = 8  # whose distances are worked out exactly


Rows = Mapping[str, Callable[[], list[str]]]
"""Answers to all examples that need no network, by the name of their row."""


def caption_rows(learned: Sequence[CaptionedPicture], asked: Sequence[CaptionedPicture]) -> Rows:
    """The rows of captions that need no network."""
    pictures, captions = [one.picture for one in learned], [one.captions for one in learned]
    kind = "pixels" if pictures[0].source.kind == "pixels" else "features"
    return {
        "one sentence for all": lambda: [constant_caption(captions)] * len(asked),
        f"nearest picture ({kind})": lambda: _first_of_nearest(pictures, [one.picture for one in asked], captions),
    }


def picture_rows(learned: Sequence[LabelledPicture], asked: Sequence[LabelledPicture]) -> Rows:
    """The rows of labels that need no network."""
    rows = np.unique(np.linspace(0, len(learned) - 1, min(len(learned), MOST_COMPARED)).round().astype(int))
    pictures, labels = [learned[row].picture for row in rows], [(learned[row].label,) for row in rows]
    nearest = f"nearest of {len(rows):,} training pictures"
    return {
        nearest: lambda: _first_of_nearest(pictures, [one.picture for one in asked], labels),
        "most frequent label": lambda: [most_frequent([one.label for one in learned])] * len(asked),
    }


def _first_of_nearest(
    learned: Sequence[Picture], asked: Sequence[Picture], texts: Sequence[Sequence[str]]
) -> list[str]:
    """As pictures are compared: pixels at their own size, those of more than 64 x 64 at 64 x 64."""
    first = learned[0]
    large = first.source.kind == "pixels" and math.prod(first.shape()[:2]) > USUAL_SIZE**2
    codec = PictureCodec.fit(learned, USUAL_SIZE if large else 0)
    return nearest_captions(codec.batch(learned), codec.batch(asked), texts)


def constant_caption(references: Sequence[Sequence[str]]) -> str:
    """The one training caption, as it is written, with the highest BLEU-4 if it is given for every training picture;
    of equal ones the one with the highest BLEU-3, and so on; then the first.

    BLEU of all C captions at once: the k-grams a caption has in common with N pictures are sums of counts by k-gram.
    """
    texts = [text for several in references for text in several]
    counted, _ = measures.counted_texts([""] * len(references), references)
    captions = measures.count_grams([measures.caption_words(text) for text in texts])
    pictures, length_C = len(references), counted.length_R
    columns: list[measures.Floats] = []
    for grams in captions:
        key_Y, most_Y = measures.most_of_references(grams, counted.picture_R, 0)
        gram_Y, common_X = key_Y % max(1, grams.kinds), np.zeros(len(grams.gram_X))
        for times in range(1, int(most_Y.max(initial=0)) + 1):
            has_G = np.bincount(gram_Y[most_Y >= times], minlength=grams.kinds)
            common_X += np.where(grams.count_X >= times, has_G[grams.gram_X], 0)
        columns.append(np.bincount(grams.caption_X, common_X, len(texts)).astype(np.float64))
    for k in range(1, len(captions) + 1):
        columns.append(pictures * np.maximum(length_C - k + 1, 1).astype(np.float64))
    near = {int(n): float(measures.nearest_length(np.full(pictures, n), counted).sum()) for n in np.unique(length_C)}
    columns += [pictures * length_C.astype(np.float64), np.array([near[int(n)] for n in length_C])]
    scores_CO = measures.bleu_of_sums(np.stack(columns, axis=1))
    return texts[int(np.lexsort((np.arange(len(texts)), *-scores_CO.T))[0])]


def nearest_captions(
    train_BD: NDArray[np.generic], test_BD: NDArray[np.generic], captions: Sequence[Sequence[str]]
) -> list[str]:
    """For every test picture the first caption of the nearest training picture: the least sum of squared differences,
    of equally near ones the first. Pictures are rows of numbers, of any shape behind the first axis.

    Products of blocks in single precision choose a few; their differences decide.
    """
    if train_BD.shape[1:] != test_BD.shape[1:] or train_BD.ndim < 2:
        raise ShapeError(
            f"training pictures are {train_BD.shape} and test pictures {test_BD.shape}; expected [B, ...] of one shape"
        )
    measures.check_captions([""] * len(train_BD), captions)
    if not len(test_BD):
        raise EmptyCorpusError("there are no test pictures; expected at least one")
    middle_D = _rows(train_BD[:_ROWS]).mean(axis=0)
    nearest: list[int] = []
    with progress.task("comparing pictures", total=len(test_BD)) as advance:
        for begin in range(0, len(test_BD), _ROWS):
            test = test_BD[begin : begin + _ROWS]
            few_BK = _few_nearest(_rows(test) - middle_D, train_BD, middle_D)
            for one, few_K in zip(test, few_BK, strict=True):  # in double precision
                squares_KD = (_rows(train_BD[few_K], np.float64) - one.reshape(-1).astype(np.float64)) ** 2
                nearest.append(int(few_K[squares_KD.sum(axis=1).argmin()]))
            advance(len(test))
    return [captions[row][0] for row in nearest]


def _few_nearest(
    test_BD: NDArray[np.float32], train_BD: NDArray[np.generic], middle_D: NDArray[np.float32]
) -> NDArray[np.int64]:
    """The rows of a few training pictures nearest to each test picture, in order of their rows, [B, K]."""
    away_BN = np.empty((len(test_BD), len(train_BD)), np.float32)
    for begin in range(0, len(train_BD), _ROWS):
        train = _rows(train_BD[begin : begin + _ROWS]) - middle_D
        away_BN[:, begin : begin + len(train)] = (train**2).sum(axis=1) - 2 * (test_BD @ train.T)
    few = min(_NEAREST, len(train_BD))
    return np.sort(np.argpartition(away_BN, few - 1, axis=1)[:, :few], axis=1).astype(np.int64)


def _rows(pictures: NDArray[np.generic], dtype: type[np.floating] = np.float32) -> NDArray[np.floating]:
    return np.asarray(pictures.reshape(len(pictures), -1), dtype)


Pixels = NDArray[np.uint8]
LEVELS = 256
"""Intensities of a pixel."""
_CERTAIN = 1e-7  # a prediction is never surer of a pixel than this
_GOLDEN = (math.sqrt(5) - 1) / 2
_CUTS = 60  # the interval is 1e-13 wide then


def frame_nats(frames: Pixels, p: NDArray[np.floating]) -> Floats:
    """Nats of each frame, [...], of pixels 0 to 255 [..., H, W] under predictions of the same shape."""
    if frames.shape != p.shape:
        raise ShapeError(f"the frames are {frames.shape} and the predictions {p.shape}; expected the same shape")
    x, sure = frames / 255.0, np.clip(np.asarray(p, np.float64), _CERTAIN, 1 - _CERTAIN)
    nats: Floats = -(x * np.log(sure) + (1 - x) * np.log1p(-sure)).sum((-2, -1))
    return nats


def frame_errors(frames: Pixels, p: NDArray[np.floating]) -> Floats:
    """The squared error of each frame, summed over its pixels, [...]."""
    errors: Floats = np.square(frames / 255.0 - np.asarray(p, np.float64)).sum((-2, -1))
    return errors


def least_nats(frames: Pixels) -> Floats:
    """The entropy of the intensities of each frame, [...]: what p = x would cost."""
    x = np.arange(LEVELS) / 255.0
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy_V = -(np.nan_to_num(x * np.log(x)) + np.nan_to_num((1 - x) * np.log1p(-x)))
    nats: Floats = entropy_V[frames].sum((-2, -1))
    return nats


class CopyCounts:
    """What the best smoothing depends on: for each step and each intensity of the last frame, how many pixels had it
    (`count_KV`), and the sum of what came in their places (`sum_KV`). Clips are added batch by batch."""

    def __init__(self, ahead: int) -> None:
        self.count_KV, self.sum_KV = np.zeros((ahead, LEVELS)), np.zeros((ahead, LEVELS))

    def add(self, last_NHW: Pixels, future_NKHW: Pixels) -> None:
        """Count clips: the last frame that is read, and those that came."""
        if future_NKHW.shape[1] != len(self.count_KV):
            raise ShapeError(f"got {future_NKHW.shape[1]} frames ahead; expected {len(self.count_KV)}")
        places = last_NHW.astype(np.intp).ravel()
        counts_V = np.bincount(places, minlength=LEVELS)
        for step in range(len(self.count_KV)):
            came = future_NKHW[:, step].ravel() / 255.0
            self.count_KV[step] += counts_V
            self.sum_KV[step] += np.bincount(places, came, minlength=LEVELS)

    def smoothing(self) -> Floats:
        """The best smoothing of each step, [K]."""
        if not self.count_KV.any():
            raise EmptyCorpusError("no clips were counted; expected at least one")
        return np.array([_least(count_V, sum_V) for count_V, sum_V in zip(self.count_KV, self.sum_KV, strict=True)])


def _least(count_V: Floats, sum_V: Floats) -> float:
    x_V = np.arange(LEVELS) / 255.0

    def nats(smoothing: float) -> float:
        p_V = np.clip(smoothing + (1 - 2 * smoothing) * x_V, _CERTAIN, 1 - _CERTAIN)
        return float(-(sum_V * np.log(p_V) + (count_V - sum_V) * np.log1p(-p_V)).sum())

    low, high = _CERTAIN, 0.5
    for _ in range(_CUTS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if nats(left) < nats(right) else (left, high)
    return (low + high) / 2


def copied(last_NHW: Pixels, smoothing_K: Floats) -> Floats:
    """The predictions of copying, [N, K, H, W]."""
    x_N1HW = last_NHW[:, None] / 255.0
    smoothing_K11 = np.asarray(smoothing_K, np.float64)[:, None, None]
    p: Floats = smoothing_K11 + (1 - 2 * smoothing_K11) * x_N1HW
    return p


@dataclass(frozen=True)
class StepFigures:
    """The figures of one step ahead, a frame."""

    step: int
    nats: float
    squared_error: float


@dataclass(frozen=True)
class FrameScore(Headed, Tabular):
    """The next `ahead` frames of `clips` clips: `nats` and `squared_error` a frame, summed over its pixels.

    `error` is the standard error of `nats` over clips, 0 of one. `least`: nats of the frames under themselves, which
    nothing can be below. `steps` are the figures by step.
    """

    headline = ("nats", "nats a frame")

    clips: int
    ahead: int
    nats: float
    error: float
    squared_error: float
    least: float
    steps: tuple[StepFigures, ...] = field(default=(), repr=False)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of `nats`, clips being drawn anew; one clip has none."""
        if self.clips < 2:
            return None
        return self.nats - Z_95 * self.error, self.nats + Z_95 * self.error

    def as_dict(self) -> Table:
        """All figures, for JSON; `steps` are those by step."""
        figures: Table = {"nats": self.nats, "squared_error": self.squared_error, "least": self.least}
        figures |= {"clips": self.clips, "ahead": self.ahead}
        if self.interval is not None:
            figures["interval"] = list(self.interval)
        return figures | {"steps": self.to_rows()}

    def to_rows(self) -> list[Row]:
        """A row a step."""
        return [dict(vars(step)) for step in self.steps]

    def line(self) -> str:
        """The figures that models are compared by, in one line."""
        between = "" if self.interval is None else " ({:.1f} to {:.1f})".format(*self.interval)
        return f"{self.nats:.1f} nats a frame{between}, squared error {self.squared_error:.1f}"

    def __str__(self) -> str:
        first = f"{self.line()}; {self.clips:,} clip{'s' * (self.clips != 1)}, "
        first += f"{self.ahead} frame{'s' * (self.ahead != 1)} ahead"
        places = sorted({0, (self.ahead - 1) // 2, self.ahead - 1}) if self.steps else []
        by_step = ", ".join(f"{self.steps[at].nats:.1f} at step {at + 1}" for at in places)
        return f"{first}\n{by_step}; the frames themselves have {self.least:.1f}" if len(places) > 1 else first


def score_frames(nats_NK: Floats, errors_NK: Floats, least_NK: Floats) -> FrameScore:
    """The score of predictions whose figures are given frame by frame."""
    if not len(nats_NK):
        raise EmptyCorpusError("there are no clips to score; expected at least one")
    by_step = zip(nats_NK.mean(0).tolist(), errors_NK.mean(0).tolist(), strict=True)
    return FrameScore(
        clips=len(nats_NK),
        ahead=nats_NK.shape[1],
        nats=float(nats_NK.mean()),
        error=_standard_error(nats_NK.mean(1)),
        squared_error=float(errors_NK.mean()),
        least=float(least_NK.mean()),
        steps=tuple(StepFigures(step, nats, squared) for step, (nats, squared) in enumerate(by_step, start=1)),
    )


@dataclass(frozen=True)
class DrawingScore(Headed, Tabular):
    """Figures of `pictures` pictures, each the mean of a picture: `nats` = `pixels` + `latent`.

    `error` is the standard error of `nats` over pictures; `strokes` the nats of z by stroke, none where nothing is
    hidden and `nats` is exact.
    """

    headline = ("nats", "nats a picture")

    pictures: int
    nats: float
    error: float
    pixels: float
    latent: float
    strokes: tuple[float, ...] = field(default=(), repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `nats`, pictures being drawn anew."""
        return self.nats - Z_95 * self.error, self.nats + Z_95 * self.error

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        figures: Table = {"nats": self.nats, "pixels": self.pixels, "latent": self.latent, "pictures": self.pictures}
        return figures | {"interval": list(self.interval), "strokes": list(self.strokes)}

    def to_rows(self) -> list[Row]:
        """A row a stroke."""
        return [{"stroke": stroke, "latent": nats} for stroke, nats in enumerate(self.strokes, start=1)]

    def __str__(self) -> str:
        low, high = self.interval
        first = f"{self.nats:.2f} nats a picture ({low:.2f} to {high:.2f})"
        parts = f"a bound: pixels {self.pixels:.2f}, {len(self.strokes):,} strokes {self.latent:.2f}"
        return f"{first}, {parts if self.strokes else 'exact'}; {self.pictures:,} pictures"


def score_drawings(pixels_N: Floats, latent_NT: Floats) -> DrawingScore:
    """The score of pictures whose figures are given one by one."""
    if not len(pixels_N):
        raise EmptyCorpusError("there are no pictures to score; expected at least one")
    nats_N = pixels_N + latent_NT.sum(1)
    return DrawingScore(
        pictures=len(nats_N),
        nats=float(nats_N.mean()),
        error=_standard_error(nats_N),
        pixels=float(pixels_N.mean()),
        latent=float(latent_NT.sum(1).mean()),
        strokes=tuple(latent_NT.mean(0).tolist()),
    )


@dataclass(frozen=True)
class CatchScore(Tabular):
    """So many of `games` were `won`."""

    games: int
    won: int

    @property
    def caught(self) -> float:
        """The share of games that were won."""
        return self.won / self.games

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share (Wilson 1927), games being drawn anew."""
        low, high = wilson(self.caught, self.games)
        return float(low), float(high)

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        return {"caught": self.caught, "games": self.games, "won": self.won, "interval": list(self.interval)}

    def to_rows(self) -> list[Row]:
        """One row."""
        low, high = self.interval
        return [{"games": self.games, "caught": self.caught, "low": low, "high": high}]

    def __str__(self) -> str:
        low, high = self.interval
        return f"caught {100 * self.caught:.1f} % ({100 * low:.1f} to {100 * high:.1f}) of {self.games:,} games"


def score_catches(won: Sequence[bool]) -> CatchScore:
    """The score of games, each won or lost.

    >>> str(score_catches([True, True, False, True]))
    'caught 75.0 % (30.1 to 95.4) of 4 games'
    """
    if not won:
        raise EmptyCorpusError("there are no games to score; expected at least one")
    return CatchScore(len(won), sum(won))


def resampled_frames(nats_NK: Floats, errors_NK: Floats) -> ResampledMeans:
    """Nats and squared error a frame, from the figures frame by frame."""
    frames_N = np.full(len(nats_NK), float(nats_NK.shape[1]))
    statistics_NS = np.stack([-nats_NK.sum(1), -errors_NK.sum(1), frames_N], axis=1)
    return ResampledMeans(statistics_NS, {"nats": (0,), "squared_error": (1,)})


def resampled_drawings(pixels_N: Floats, latent_NT: Floats) -> ResampledMeans:
    """Nats a picture, from those of its pixels and strokes."""
    statistics_NS = np.stack([-pixels_N, -latent_NT.sum(1), np.ones(len(pixels_N))], axis=1)
    return ResampledMeans(statistics_NS, {"nats": (0, 1)})


def resampled_catches(won: Sequence[bool]) -> ResampledMeans:
    """The share of games that were won."""
    won_N = np.array(won, np.float64)
    return ResampledMeans(np.stack([won_N, np.ones_like(won_N)], axis=1), {"caught": (0,)})


def _standard_error(values_N: Floats) -> float:
    """Of the mean; 0 of one value."""
    return float(values_N.std(ddof=1) / math.sqrt(len(values_N))) if len(values_N) > 1 else 0.0
