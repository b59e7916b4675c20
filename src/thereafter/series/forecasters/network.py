"""What every forecaster gives: a loss, a distribution over the steps ahead, sampled paths, calibrated bands. Networks
that forecast: a body reads the window, a head gives a distribution over the steps ahead.

    z = (y - offset) / scale                       the window's own level (`WindowBatch.level`)
    f = [body(z_1 ... z_L), covariates ahead]
    direct:     p(y_{t+1} ... y_{t+H}) = head(f), every step with weights of its own
    recursive:  p(y_{t+1}) = head(f), then again with what was predicted

With `skip` a linear map of the window is added to the location (Lai et al. 2018, LSTNet).

Shapes: S samples, Q levels; B windows, L rows, I numbers of a row, T steps of G rows each for a body, H steps ahead, D
targets, C covariates, K known ahead, F features.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.layers.attention import Block, Sight
from thereafter.layers.embedding import Positions
from thereafter.layers.recurrent import Recurrent
from thereafter.series.batches import WindowBatch
from thereafter.series.distributions import Distribution, Laplace, NegativeBinomial, Normal, StudentT
from thereafter.series.forecasters.settings import COUNTS, ForecastSettings, cells
from thereafter.series.number_heads import NUMBER_HEADS, Calibration, NumberHead, Quantiles
from thereafter.tasks.graphs import ROWS, Feeds, Inputs, OneGraph, Tensors

Batches = Callable[[], Iterator[WindowBatch]]
"""Gives all batches of a part, any number of times."""
SAMPLES = 100
"""Paths by which the bands of a forecast are estimated that has no closed form."""
_ROWS_AT_A_TIME = 4096
_PARAMETERS: dict[type[Distribution], dict[str, str]] = {
    Normal: {"location": "location", "deviation": "spread"},
    Laplace: {"location": "location", "spread": "spread"},
    StudentT: {"location": "location", "spread": "spread", "freedom": "freedom"},
    NegativeBinomial: {"location": "location", "dispersion": "spread"},
    Quantiles: {"quantiles": "values", "levels": "levels_Q"},
}
"""The outputs of an exported forecaster, and what each is called in its distribution."""


@dataclass(frozen=True)
class WindowFacts:
    """What a network is built for: targets D, covariates of the past C, known ahead K, rows read, steps ahead.

    `gaps`: whether values may be missing, so that the network is shown which are.
    """

    targets: int
    covariates: int
    known: int
    lookback: int
    horizon: int
    season: int
    gaps: bool


@dataclass(frozen=True)
class Expected:
    """A forecast in scaled units: its mean [B, H, D], and the values below which the shares `levels` lie
    [B, H, D, Q]; `spread_BD` is that of each window."""

    mean_BHD: Tensor
    quantiles_BHDQ: Tensor
    spread_BD: Tensor


class Forecaster(OneGraph[WindowBatch]):
    """From windows to a distribution over the next `facts.horizon` rows."""

    compared: ClassVar[str] = "scaled values, and in the logs of what is positive"
    reads_covariates: ClassVar[bool] = False
    """Whether covariates of the past are inputs; those of the future are where `reads_ahead`."""
    reads_ahead: ClassVar[bool] = False

    def __init__(self, facts: WindowFacts) -> None:
        super().__init__()
        self.facts = facts
        self.reach = facts.horizon
        """How many rows it gives at once; what lies beyond follows from its own predictions."""
        self.calibration = Calibration(facts.horizon, facts.targets)

    @abstractmethod
    def expect(self, batch: WindowBatch) -> Distribution:
        """The distribution over the next rows, [B, H, D], H at most `reach`."""

    def costs(self, batch: WindowBatch) -> Tensor:
        """What training makes small, for every value of the future, [B, H, D]: -log p where nothing else is learned."""
        return -self.expect(batch).log_prob(batch.answers()[0])

    def nats(self, batch: WindowBatch) -> Tensor:
        return (self.costs(batch) * batch.answers()[1]).sum()

    def solve(self, batches: Batches, series: Sequence[Tensor]) -> None:
        """Find the weights at once, where least squares does it; networks are trained instead.

        `series`: the rows that may be learned from, scaled, [T, D] of each series, NaN where missing.
        """
        raise TypeError(f"{type(self).__name__} is trained in steps")

    def steps_read(self) -> int:
        """Steps in which the window is read."""
        return self.facts.lookback

    def whole_pieces(self, horizon: int) -> int:
        """The steps to ask for. A network that gives several at once reads the covariates of all of them: then whole
        pieces are asked for, and cut."""
        if not self.facts.known or self.reach > self.facts.horizon:
            return horizon
        return -(-horizon // self.reach) * self.reach

    @torch.no_grad()
    def forecast(self, batch: WindowBatch, levels_Q: Tensor, generator: torch.Generator | None = None) -> Expected:
        """The forecast of as many steps as the batch asks for. Beyond its reach a forecaster reads its own predictions:
        its mean follows from means, its quantiles from sampled paths."""
        spread_BD = batch.spread()
        if batch.horizon <= self.reach:
            expected = self.expect(batch)
            return Expected(expected.mean(), expected.quantiles(levels_Q), spread_BD)
        paths_SBHD = self.paths(batch, SAMPLES, generator)
        quantiles_QBHD = torch.quantile(paths_SBHD, levels_Q.to(paths_SBHD), dim=0)
        return Expected(self.mean_path(batch), quantiles_QBHD.permute(1, 2, 3, 0), spread_BD)

    @torch.no_grad()
    def mean_path(self, batch: WindowBatch) -> Tensor:
        """Means fed back as if they had come, [B, H, D]."""
        return self._continue(batch, lambda expected: expected.mean())

    @torch.no_grad()
    def paths(self, batch: WindowBatch, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Futures that may come, [S, B, H, D]: each drawn piece by piece, and read before the next is drawn.

        The steps of one piece are drawn together (`calibration.correlate`).
        """
        rows = len(batch)

        def draw(expected: Distribution) -> Tensor:
            return self.calibration.correlate(expected, generator)

        pieces, left = [], count
        while left:  # so many windows at a time that memory stays small
            several = min(left, max(1, _ROWS_AT_A_TIME // max(1, rows)))
            index_R = torch.arange(rows, device=batch.past_BLD.device).repeat(several)
            paths_RHD = self._continue(batch.rows(index_R), draw)
            pieces.append(paths_RHD.view(several, rows, *paths_RHD.shape[1:]))
            left -= several
        return torch.cat(pieces)

    def _continue(self, batch: WindowBatch, choose: Callable[[Distribution], Tensor]) -> Tensor:
        """Piece after piece of the horizon, each read before the next."""
        pieces, left = [], batch.horizon
        while left:
            steps = min(self.reach, left)
            piece_BHD = choose(self.expect(batch.ahead(steps)))
            pieces.append(piece_BHD)
            left -= steps
            if left:
                batch = batch.slid(piece_BHD)
        return torch.cat(pieces, 1)

    def graph_inputs(self) -> dict[str, Inputs]:
        facts, past = self.facts, ("B", self.facts.lookback, self.facts.targets)
        inputs: Inputs = {"past": (torch.float32, past), "seen": (torch.bool, past)}
        if self.reads_covariates and facts.covariates:
            inputs["inputs"] = (torch.float32, ("B", facts.lookback, facts.covariates))
        if self.reads_ahead and facts.known:
            inputs["ahead"] = (torch.float32, ("B", min(self.reach, facts.horizon), facts.known))
        return {"forecaster": inputs}

    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        past_BLD = inputs["past"]
        none_BL0 = past_BLD[..., :0]
        ahead_BHK = inputs.get("ahead", none_BL0[:, : min(self.reach, self.facts.horizon)])
        expected = self.expect(WindowBatch(past_BLD, inputs["seen"], inputs.get("inputs", none_BL0), ahead_BHK))
        return {name: getattr(expected, own) for name, own in _PARAMETERS[type(expected)].items()}

    def draw_inputs(self, draw: np.random.Generator) -> Feeds:
        facts, steps = self.facts, min(self.reach, self.facts.horizon)
        shape = (ROWS, facts.lookback, facts.targets)
        seen_BLD = draw.random(shape) < (0.8 if facts.gaps else 1.0)
        past_BLD = (self.draw_past(draw, shape) * seen_BLD).astype(np.float32)
        inputs_BLC = draw.standard_normal((ROWS, facts.lookback, facts.covariates)).astype(np.float32)
        ahead_BHK = draw.standard_normal((ROWS, steps, facts.known)).astype(np.float32)
        return {"past": past_BLD, "seen": seen_BLD, "inputs": inputs_BLC, "ahead": ahead_BHK}

    def draw_past(self, draw: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.floating]:
        """Values as such a forecaster reads them: random walks."""
        return 0.3 * draw.standard_normal(shape).cumsum(1)


_SMALL = 0.1  # of the head's first weights: training begins near the last value


class ForecastNetwork(Forecaster):
    """See the module's equations."""

    reads_covariates = reads_ahead = True

    def __init__(self, settings: ForecastSettings, facts: WindowFacts) -> None:
        super().__init__(facts)
        self.norm, segment = _norm(settings), _segment(settings, facts)
        self.dropout, self.recursive = settings.dropout, settings.recursive
        self.reach = 1 if self.recursive else facts.horizon
        inputs = facts.targets * (2 if facts.gaps else 1) + facts.covariates
        self.body = make_body(settings, inputs, facts.lookback, segment)
        outputs = self.reach * facts.targets
        self.skip = nn.Linear(facts.lookback * facts.targets, outputs) if settings.skip else None
        self.head: NumberHead = NUMBER_HEADS.load(settings.head)(self.body.features + self.reach * facts.known, outputs)
        with torch.no_grad():
            for weight in (*self.head.parameters(), *(self.skip.parameters() if self.skip is not None else ())):
                weight.mul_(_SMALL)

    def steps_read(self) -> int:
        return self.facts.lookback // (self.body.segment if isinstance(self.body, SteppingBody) else 1)

    def set_spread(self, batches: Iterator[WindowBatch]) -> None:
        """The spread of a head that gives points: that of its errors on held-out windows, step by step."""
        if self.head.has_density:
            return
        residuals = []
        for whole in batches:
            batch = whole.unrolled() if self.recursive else whole
            future_BHD, seen_BHD = batch.answers()
            scale_BO = batch.level(self.norm)[1].repeat(1, self.reach)
            wrong_BO = (future_BHD - self.expect(batch).mean()).flatten(1) / scale_BO
            residuals.append(wrong_BO.masked_fill(~seen_BHD.flatten(1), torch.nan))
        if residuals:
            self.head.set_spread(torch.cat(residuals))

    def expect(self, batch: WindowBatch) -> Distribution:
        f_BF, offset_BO, scale_BO = self._features(batch)
        expected = self.head.expect(f_BF).moved(offset_BO, scale_BO)
        return expected.viewed((self.reach, self.facts.targets), batch.horizon)

    def costs(self, batch: WindowBatch) -> Tensor:
        if self.recursive:
            return self._costs_of_steps(batch)
        future_BHD, _ = batch.answers()
        f_BF, offset_BO, scale_BO = self._features(batch)
        return self.head.costs(f_BF, future_BHD.flatten(1), offset_BO, scale_BO).view_as(future_BHD)

    def _features(self, batch: WindowBatch) -> tuple[Tensor, Tensor, Tensor]:
        """What the head reads [B, F], and the location and scale of its outputs [B, H D]."""
        offset_BD, scale_BD = batch.level(self.norm)
        rows_BLI = self._rows(batch.past_BLD, batch.seen_BLD, batch.inputs_BLC, offset_BD, scale_BD)
        f_BF = F.dropout(self.body(rows_BLI), self.dropout, self.training)
        ahead_BHK = F.pad(batch.ahead_BHK, (0, 0, 0, self.reach - batch.horizon))
        offset_BO, scale_BO = offset_BD.repeat(1, self.reach), scale_BD.repeat(1, self.reach)
        if self.skip is not None:
            offset_BO = offset_BO + scale_BO * self.skip(rows_BLI[..., : self.facts.targets].flatten(1))
        return torch.cat((f_BF, ahead_BHK.flatten(1)), 1), offset_BO, scale_BO

    def _rows(self, y_BLD: Tensor, seen_BLD: Tensor, inputs_BLC: Tensor, offset_BD: Tensor, scale_BD: Tensor) -> Tensor:
        """What the body reads of each row, [B, L, I]: relative values, which of them are seen, covariates."""
        z_BLD = (y_BLD - offset_BD[:, None]) / scale_BD[:, None] * seen_BLD
        shown = (seen_BLD.to(z_BLD.dtype),) if self.facts.gaps else ()
        return torch.cat((z_BLD, *shown, inputs_BLC), 2)

    def draw_past(self, draw: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.floating]:
        return draw.poisson(5.0, shape).astype(np.float64) if self.norm == "mean" else super().draw_past(draw, shape)

    # ---- one step at a time

    def _costs_of_steps(self, batch: WindowBatch) -> Tensor:
        """Each row of the future from the true ones before it, [B, H, D]."""
        future_BHD, seen_BHD = batch.answers()
        if not isinstance(self.body, RecurrentBody) or self.skip is not None:
            steps = batch.unrolled()
            f_RF, offset_RD, scale_RD = self._features(steps)
            target_R1D, _ = steps.answers()
            return self.head.costs(f_RF, target_R1D[:, 0], offset_RD, scale_RD).view_as(future_BHD)
        offset_BD, scale_BD = batch.level(self.norm)
        rows_BTI = self._rows(
            torch.cat((batch.past_BLD, future_BHD), 1)[:, :-1],
            torch.cat((batch.seen_BLD, seen_BHD), 1)[:, :-1],
            torch.cat((batch.inputs_BLC, batch.came()), 1)[:, :-1],
            offset_BD,
            scale_BD,
        )
        f_BHF = self.body.every_step(rows_BTI)[:, -batch.horizon :]
        f_BHF = torch.cat((F.dropout(f_BHF, self.dropout, self.training), batch.ahead_BHK), 2)
        offset_BHD, scale_BHD = (one[:, None].expand_as(future_BHD) for one in (offset_BD, scale_BD))
        costs_RD = self.head.costs(
            f_BHF.flatten(0, 1), future_BHD.flatten(0, 1), offset_BHD.flatten(0, 1), scale_BHD.flatten(0, 1)
        )
        return costs_RD.view_as(future_BHD)

    def _continue(self, batch: WindowBatch, choose: Callable[[Distribution], Tensor]) -> Tensor:
        """Recurrent layers keep their state from step to step; other bodies read the window again."""
        body = self.body
        if not self.recursive or not isinstance(body, RecurrentBody) or self.skip is not None:
            return super()._continue(batch, choose)
        offset_BD, scale_BD = batch.level(self.norm)
        rows_BLI = self._rows(batch.past_BLD, batch.seen_BLD, batch.inputs_BLC, offset_BD, scale_BD)
        h_BLF, state = body.layers(rows_BLI)
        pieces = []
        for step in range(batch.horizon):
            f_BF = torch.cat((h_BLF[:, -1], batch.ahead_BHK[:, step]), 1)
            expected = self.head.expect(f_BF).moved(offset_BD, scale_BD).viewed((1, self.facts.targets), 1)
            next_B1D = choose(expected)
            pieces.append(next_B1D)
            seen_B1D, came_B1C = torch.ones_like(next_B1D, dtype=torch.bool), batch.came(step, step + 1)
            h_BLF, state = body.layers(self._rows(next_B1D, seen_B1D, came_B1C, offset_BD, scale_BD), state)
        return torch.cat(pieces, 1)


class ForecastBody(nn.Module):
    """Reads [B, L, I] and gives [B, F]."""

    features: int

    @abstractmethod
    def forward(self, x_BLI: Tensor) -> Tensor: ...


class WindowBody(ForecastBody):
    """Hidden layers over all rows of the window at once: relu(W [x_1; ...; x_L] + b)."""

    def __init__(self, settings: ForecastSettings, inputs: int, lookback: int) -> None:
        super().__init__()
        sizes = [inputs * lookback, *[settings.hidden] * settings.layers]
        self.hidden = nn.ModuleList(nn.Linear(size, after) for size, after in pairwise(sizes))
        self.features = settings.hidden

    def forward(self, x_BLI: Tensor) -> Tensor:
        f_BF = x_BLI.flatten(1)
        for layer in self.hidden:
            f_BF = torch.relu(layer(f_BF))
        return f_BF


class SteppingBody(ForecastBody):
    """Rows are read G at a time; with G above 1 a step is relu(W [its rows] + b) (Lin et al. 2023, SegRNN)."""

    def __init__(self, settings: ForecastSettings, inputs: int, segment: int, always: bool) -> None:
        super().__init__()
        self.segment = segment
        self.read = nn.Linear(inputs * segment, settings.hidden) if segment > 1 or always else None
        self.inputs = inputs if self.read is None else settings.hidden
        self.features = settings.hidden

    def steps(self, x_BLI: Tensor) -> Tensor:
        """The inputs of each step, [B, T, ...]."""
        if self.read is None:
            return x_BLI
        length = x_BLI.shape[1]
        if length % self.segment:
            raise OptionError(
                f"a window has {length} rows, which segments of {self.segment} do not divide; try a lookback of "
                f"{max(1, length // self.segment) * self.segment}, or segment=1"
            )
        read_BTF: Tensor = self.read(x_BLI.reshape(len(x_BLI), length // self.segment, -1))
        return torch.relu(read_BTF) if self.segment > 1 else read_BTF


class RecurrentBody(SteppingBody):
    """The state of recurrent layers at the end of the window."""

    def __init__(self, settings: ForecastSettings, inputs: int, segment: int) -> None:
        super().__init__(settings, inputs, segment, always=False)
        sizes, dropout = (
            (self.inputs, settings.hidden, settings.layers),
            settings.dropout if settings.layers > 1 else 0.0,
        )
        self.layers = Recurrent(cells()[settings.model], *sizes, batch_first=True, dropout=dropout)

    def forward(self, x_BLI: Tensor) -> Tensor:
        return self.every_step(x_BLI)[:, -1]

    def every_step(self, x_BLI: Tensor) -> Tensor:
        """The features after each row, [B, L, F], where rows are read one at a time."""
        h_BTF: Tensor = self.layers(self.steps(x_BLI))[0]
        return h_BTF


class TransformerBody(SteppingBody):
    """Blocks of causal attention; the features of the last step."""

    def __init__(self, settings: ForecastSettings, inputs: int, segment: int, lookback: int) -> None:
        super().__init__(settings, inputs, segment, always=True)
        size = settings.hidden
        self.positions = Positions("learned", -(-lookback // segment), size)
        blocks = [Block(size, settings.heads, 4 * size, dropout=settings.dropout) for _ in range(settings.layers)]
        for block in blocks:
            block.initialise(settings.layers)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(size)

    def forward(self, x_BLI: Tensor) -> Tensor:
        h_BTF = self.steps(x_BLI)
        h_BTF = h_BTF + self.positions.table_CH[: h_BTF.shape[1]]
        sight = Sight.of([0], h_BTF.shape[1], h_BTF.device)
        for block in self.blocks:
            h_BTF, _ = block(h_BTF, None, sight)
        f_BF: Tensor = self.norm(h_BTF[:, -1])
        return f_BF


def make_body(settings: ForecastSettings, inputs: int, lookback: int, segment: int) -> ForecastBody:
    """The body that the settings name."""
    if settings.model == "window":
        return WindowBody(settings, inputs, lookback)
    if settings.model == "transformer":
        return TransformerBody(settings, inputs, segment, lookback)
    return RecurrentBody(settings, inputs, segment)


def _norm(settings: ForecastSettings) -> str:
    if settings.head == COUNTS:
        if settings.norm not in ("", "none"):
            raise OptionError(
                f"norm is {settings.norm!r} and the head {COUNTS!r}, whose counts are not shifted; try leaving norm out"
            )
        if settings.skip:
            raise OptionError(f"skip is on and the head is {COUNTS!r}, whose counts are not shifted; try skip=false")
        return "mean"
    return settings.norm or "standard"


def _segment(settings: ForecastSettings, facts: WindowFacts) -> int:
    """A season at a step where nothing else is asked for: fewer steps to learn over, and a day looks like a day."""
    if settings.recursive or settings.model == "window":
        if settings.segment > 1:
            why = "one row at a time" if settings.recursive else "all rows at once"
            raise OptionError(f"segment is {settings.segment}, and this forecaster reads {why}; try segment=1")
        return 1
    if settings.segment:
        return settings.segment
    return facts.season if facts.season > 1 and facts.lookback % facts.season == 0 else 1
