"""Forecasters that are solved at once and not trained in steps: the simple ones, autoregression, and least squares.

The simple ones have no weights, and all others have to beat them. Their spread is that of their errors on the training
windows, step by step.

    naive            y_{t+h} = y_t
    seasonal naive   y_{t+h} = y_{t+h-s}, s the season; one season earlier where that is missing
    drift            y_{t+h} = y_t + h (y_t - y_1) / (t - 1), over the window

Linear autoregression, the books' AR(tau): one step from the last tau values, more steps from its own predictions.

    y_t = c + a_1 y_{t-1} + ... + a_p y_{t-p} + e_t,    e_t ~ Normal(0, sigma^2)

Coefficients by conditional least squares over all rows; the order by Akaike's criterion, with the same rows for every
order: n log(sigma_p^2) + 2 (p + 2) is smallest. One decomposition gives the errors of all orders, since the inputs of
an order are the first columns of those of the next. The variance h steps ahead is sigma^2 sum_{j<h} psi_j^2, with psi
the response to one shock (Box and Jenkins 1970).

Linear: all steps at once by least squares on the last rows, relative to the last value.

    y_{t+h} - y_t = W_h [y_{t-L+1} - y_t, ..., y_t - y_t, covariates ahead] + b_h

Each step has weights of its own. `ridge` times the mean square of the inputs is added to the diagonal of the normal
equations, so that 336 inputs that are nearly alike have one answer.

Shapes: B windows, L rows, H steps, D targets, N rows of the regression, P inputs or the largest order, K seasons of S
rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.errors import EmptyCorpusError, ExportError
from thereafter.series.batches import WindowBatch
from thereafter.series.distributions import Distribution, Normal
from thereafter.series.forecasters.network import Batches, Forecaster, ForecastNetwork, WindowFacts
from thereafter.series.forecasters.settings import SIMPLE, ForecastSettings
from thereafter.tasks.graphs import Inputs, Tensors

_LEAST_SPREAD = 1e-4  # of the series' deviation: the spread of a forecast that was never wrong


class Simple(Forecaster):
    """One of `settings.SIMPLE`; `spread_HD` is the standard deviation of its errors."""

    spread_HD: Tensor

    def __init__(self, settings: ForecastSettings, facts: WindowFacts) -> None:
        super().__init__(facts)
        self.kind = settings.model
        self.register_buffer("spread_HD", torch.ones(facts.horizon, facts.targets))

    def expect(self, batch: WindowBatch) -> Distribution:
        mean_BHD = self._mean(batch)
        return Normal(mean_BHD, self.spread_HD[: batch.horizon].expand_as(mean_BHD))

    @torch.no_grad()
    def solve(self, batches: Batches, series: Sequence[Tensor]) -> None:
        squares_HD, count_HD = torch.zeros_like(self.spread_HD), torch.zeros_like(self.spread_HD)
        for batch in batches():
            future_BHD, seen_BHD = batch.answers()
            squares_HD += ((future_BHD - self._mean(batch)) * seen_BHD).square().sum(0)
            count_HD += seen_BHD.sum(0)
        self.spread_HD.copy_((squares_HD / count_HD.clamp_min(1)).sqrt().clamp_min(_LEAST_SPREAD))

    def graph_inputs(self) -> dict[str, Inputs]:
        raise ExportError(
            f"the forecaster {type(self).__name__} repeats what it has read and has no weights to export; "
            "try one that is trained, such as model='linear'"
        )

    def _mean(self, batch: WindowBatch) -> Tensor:
        last_BD, steps = batch.last(), batch.horizon
        last_BHD = last_BD[:, None].expand(-1, steps, -1)
        if self.kind == "naive":
            return last_BHD
        rows = batch.past_BLD.shape[1]
        if self.kind == "seasonal-naive":
            season = min(self.facts.season, rows)
            whole = rows - rows % season
            shape = (len(last_BD), whole // season, season, last_BD.shape[1])
            past_BKSD = batch.past_BLD[:, -whole:].reshape(shape)
            seen_BKSD = batch.seen_BLD[:, -whole:].reshape(shape)
            number_K = torch.arange(1, whole // season + 1, device=last_BD.device)
            latest_BSD = (seen_BKSD * number_K[:, None, None]).argmax(1)  # the latest season that has the value
            value_BSD = past_BKSD.gather(1, latest_BSD[:, None])[:, 0]
            value_BSD = torch.where(seen_BKSD.any(1), value_BSD, last_BD[:, None])
            return value_BSD[:, torch.arange(steps, device=last_BD.device) % season]
        places_L = torch.arange(rows, device=last_BD.device)[:, None]
        first_BD = torch.where(batch.seen_BLD, places_L, rows - 1).amin(1)
        end_BD = torch.where(batch.seen_BLD, places_L, 0).amax(1)
        begin_BD = batch.past_BLD.gather(1, first_BD[:, None])[:, 0]
        slope_BD = (last_BD - begin_BD) / (end_BD - first_BD).clamp_min(1)
        ahead_H = torch.arange(1, steps + 1, device=last_BD.device)
        return last_BHD + ahead_H[:, None] * slope_BD[:, None]


class Linear(Forecaster):
    """See the module's equation; `spread_HD` is the standard deviation of its errors on the training windows."""

    reads_ahead = True
    weight_PO: Tensor
    spread_HD: Tensor

    def __init__(self, settings: ForecastSettings, facts: WindowFacts) -> None:
        super().__init__(facts)
        self.norm, self.ridge = settings.norm or "last", settings.ridge
        inputs = facts.lookback * facts.targets + facts.horizon * facts.known + 1
        self.register_buffer("weight_PO", torch.zeros(inputs, facts.horizon * facts.targets))
        self.register_buffer("spread_HD", torch.ones(facts.horizon, facts.targets))

    def expect(self, batch: WindowBatch) -> Distribution:
        mean_BHD, scale_BD = self._mean(batch)
        steps = batch.horizon
        return Normal(mean_BHD[:, :steps], self.spread_HD[:steps] * scale_BD[:, None])

    @torch.no_grad()
    def solve(self, batches: Batches, series: Sequence[Tensor]) -> None:
        """The normal equations, added up batch by batch in double precision; windows whose future has gaps are left
        out."""
        inputs, outputs = self.weight_PO.shape
        gram_PP = torch.zeros(inputs, inputs, dtype=torch.double, device=self.device)
        moment_PO = torch.zeros(inputs, outputs, dtype=torch.double, device=self.device)
        for batch in batches():
            x_BP, y_BO = self._equations(batch)
            gram_PP += x_BP.T @ x_BP
            moment_PO += x_BP.T @ y_BO
        if float(gram_PP[-1, -1]) < 2:
            raise EmptyCorpusError(
                f"least squares needs windows whose next {self.facts.horizon} rows have no gap; got "
                f"{int(gram_PP[-1, -1])} of them; try a smaller horizon, or model='ar' or 'gru', which take gaps"
            )
        power = gram_PP.diagonal()[:-1].mean() if inputs > 1 else gram_PP.new_zeros(())
        gram_PP.diagonal()[:-1].add_(self.ridge * power)
        solved_PO = torch.linalg.lstsq(gram_PP.cpu(), moment_PO.cpu(), driver="gelsd").solution
        self.weight_PO.copy_(solved_PO)
        squares_O, rows = torch.zeros(outputs, dtype=torch.double, device=self.device), 0
        for batch in batches():
            x_BP, y_BO = self._equations(batch)
            squares_O += (y_BO - x_BP @ self.weight_PO.double()).square().sum(0)
            rows += len(x_BP)
        spread_O = (squares_O / max(1, rows)).sqrt().clamp_min(_LEAST_SPREAD)
        self.spread_HD.copy_(spread_O.view_as(self.spread_HD))

    def parameters_count(self) -> int:
        return self.weight_PO.numel()

    def _equations(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        """Inputs and targets of windows whose future is whole, relative to their level."""
        future_BHD, seen_BHD = batch.answers()
        whole_B = seen_BHD.flatten(1).all(1)
        offset_BD, scale_BD = batch.level(self.norm)
        y_BHD = (future_BHD - offset_BD[:, None]) / scale_BD[:, None]
        return self._inputs(batch)[whole_B].double(), y_BHD.flatten(1)[whole_B].double()

    def _inputs(self, batch: WindowBatch) -> Tensor:
        offset_BD, scale_BD = batch.level(self.norm)
        z_BLD = (batch.past_BLD - offset_BD[:, None]) / scale_BD[:, None] * batch.seen_BLD
        known = self.facts.horizon - batch.horizon  # callers ask for all steps where covariates are known ahead
        ahead_BHK = torch.nn.functional.pad(batch.ahead_BHK, (0, 0, 0, known))
        return torch.cat((z_BLD.flatten(1), ahead_BHK.flatten(1), torch.ones_like(z_BLD[:, :1, 0])), 1)

    def _mean(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        offset_BD, scale_BD = batch.level(self.norm)
        z_BHD = (self._inputs(batch) @ self.weight_PO).view(-1, self.facts.horizon, self.facts.targets)
        return offset_BD[:, None] + scale_BD[:, None] * z_BHD, scale_BD


_FAR = 1 << 30
_BLOCK = 4096  # rows that are laid out at a time
_LEAST_SHOCK = 1e-9


class Autoregression(Forecaster):
    """`weight_DP1`: of each target c, a_1 ... a_P, those beyond its order 0; `sigma_D`: the deviation of its shocks."""

    weight_DP1: Tensor
    sigma_D: Tensor

    def __init__(self, settings: ForecastSettings, facts: WindowFacts) -> None:
        super().__init__(facts)
        self.reach = _FAR  # its own predictions are part of its equation
        self.order, self.most = settings.order, min(settings.order or facts.lookback, facts.lookback)
        self.register_buffer("weight_DP1", torch.zeros(facts.targets, self.most + 1, dtype=torch.double))
        self.register_buffer("sigma_D", torch.ones(facts.targets, dtype=torch.double))

    def parameters_count(self) -> int:
        return sum(order + 1 for order in self.orders())

    def orders(self) -> list[int]:
        """The order of each target."""
        return [int(row[1:].nonzero().max()) + 1 if row[1:].any() else 0 for row in self.weight_DP1]

    def expect(self, batch: WindowBatch) -> Distribution:
        mean_BHD = self._recur(batch, None)
        deviation_HD = self._psi(batch.horizon).square().cumsum(0).sqrt() * self.sigma_D
        return Normal(mean_BHD, deviation_HD.to(mean_BHD).expand_as(mean_BHD))

    @torch.no_grad()
    def paths(self, batch: WindowBatch, count: int, generator: torch.Generator | None = None) -> Tensor:
        """The equation with drawn shocks, [S, B, H, D]."""
        index_R = torch.arange(len(batch), device=self.device).repeat(count)
        shape = (len(index_R), batch.horizon, self.facts.targets)
        shocks_RHD = torch.randn(shape, generator=generator, dtype=torch.double, device=self.device) * self.sigma_D
        return self._recur(batch.rows(index_R), shocks_RHD).view(count, len(batch), *shape[1:])

    @torch.no_grad()
    def solve(self, batches: Batches, series: Sequence[Tensor]) -> None:
        for target in range(self.facts.targets):
            columns = [one[:, target].double() for one in series]
            order = self.order or best_order(columns, self.most)
            weight_P1, sigma = least_squares(columns, order, order)
            self.weight_DP1[target, : order + 1] = weight_P1
            self.weight_DP1[target, order + 1 :] = 0.0
            self.sigma_D[target] = max(sigma, _LEAST_SHOCK)

    def _recur(self, batch: WindowBatch, shocks_BHD: Tensor | None) -> Tensor:
        """The equation from the last rows on, in double precision; a missing value is taken for the last one seen."""
        steps_L = torch.arange(batch.past_BLD.shape[1], device=batch.past_BLD.device)
        at_BLD = torch.where(batch.seen_BLD, steps_L[:, None], 0).cummax(1).values
        filled_BLD = batch.past_BLD.gather(1, at_BLD)  # gaps have the last value before them
        rows_BD = [filled_BLD[:, at].double() for at in range(filled_BLD.shape[1])]
        for step in range(batch.horizon):
            lags_BPD = torch.stack(rows_BD[: -self.most - 1 : -1], 1)  # y_{t-1} first
            next_BD = self.weight_DP1[:, 0] + torch.einsum("bpd,dp->bd", lags_BPD, self.weight_DP1[:, 1:])
            rows_BD.append(next_BD if shocks_BHD is None else next_BD + shocks_BHD[:, step])
        return torch.stack(rows_BD[-batch.horizon :], 1).to(batch.past_BLD.dtype)

    def _psi(self, steps: int) -> Tensor:
        """The response to one shock, [H, D]."""
        psi_D = [torch.ones_like(self.sigma_D)]
        for step in range(1, steps):
            lags = min(step, self.most)
            psi_D.append(sum((self.weight_DP1[:, k] * psi_D[step - k] for k in range(1, lags + 1)), psi_D[0] * 0))
        return torch.stack(psi_D)

    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        """The equation H times over is a linear map of the last P values; a missing one is the last before it."""
        first_HD, map_DHP, deviation_HD = map(torch.from_numpy, self.unrolled())
        steps_L1 = torch.arange(self.facts.lookback)[:, None]
        at_BLD = torch.where(inputs["seen"], steps_L1, 0).cummax(1).values
        y_BPD = inputs["past"].gather(1, at_BLD)[:, self.facts.lookback - self.most :]
        moved_BDH1 = map_DHP @ y_BPD.transpose(1, 2)[..., None]
        location_BHD = moved_BDH1.squeeze(3).transpose(1, 2) + first_HD
        return {"location": location_BHD, "deviation": deviation_HD.expand_as(location_BHD)}

    def unrolled(self) -> tuple[NDArray[np.float32], ...]:
        """c [H, D] and A [D, H, P] of y_{t+h} = c_h + A_h [y_{t-P+1} ... y_t], and the deviations [H, D]; worked out in
        double precision."""
        weight_DP1 = self.weight_DP1.detach().cpu().double().numpy()
        horizon, most = self.facts.horizon, self.most
        rows = np.zeros((len(weight_DP1), most + horizon, most + 1))  # each value as a map of the last P and 1
        rows[:, np.arange(most), np.arange(most)] = 1.0
        psi_DH = np.zeros((len(weight_DP1), horizon))
        for step in range(horizon):
            lags = rows[:, step : step + most][:, ::-1]  # y_{t-1} first
            rows[:, most + step] = np.einsum("dp,dpq->dq", weight_DP1[:, 1:], lags)
            rows[:, most + step, -1] += weight_DP1[:, 0]
            before = psi_DH[:, max(0, step - most) : step][:, ::-1]
            psi_DH[:, step] = 1.0 if step == 0 else (weight_DP1[:, 1 : 1 + before.shape[1]] * before).sum(1)
        sigma_D = self.sigma_D.detach().cpu().double().numpy()
        deviation_HD = np.sqrt((psi_DH**2).cumsum(1)).T * sigma_D
        ahead = rows[:, most:]
        parts = (ahead[..., -1].T, ahead[..., :-1], deviation_HD)
        return tuple(np.ascontiguousarray(part, dtype=np.float32) for part in parts)


def lagged(series: Sequence[Tensor], order: int, skip: int) -> list[tuple[Tensor, Tensor]]:
    """Blocks of [1, y_{t-1}, ..., y_{t-order}] and y_t, for every t from `skip` on of each series, gaps left out."""
    blocks = []
    for y_T in series:
        if len(y_T) <= skip:
            continue
        windows_NP1 = y_T[skip - order :].unfold(0, order + 1, 1)  # oldest first
        for begin in range(0, len(windows_NP1), _BLOCK):
            block_NP1 = windows_NP1[begin : begin + _BLOCK]
            whole_NP1 = block_NP1[~block_NP1.isnan().any(1)].flip(1)  # y_t, y_{t-1}, ...
            if len(whole_NP1):
                ones_N1 = torch.ones_like(whole_NP1[:, :1])
                blocks.append((torch.cat((ones_N1, whole_NP1[:, 1:]), 1), whole_NP1[:, 0]))
    return blocks


def least_squares(series: Sequence[Tensor], order: int, skip: int) -> tuple[Tensor, float]:
    """c, a_1, ..., a_p, and the deviation of the errors (their mean square's root)."""
    blocks = lagged(series, order, skip)
    rows = sum(len(y_N) for _, y_N in blocks)
    if rows <= order + 1:
        raise EmptyCorpusError(
            f"an autoregression of order {order} has {rows} rows without gaps to learn from; expected more than "
            f"{order + 1}; try a smaller lookback or order"
        )
    upper, moment = _triangle(blocks)
    weight_P1 = torch.linalg.lstsq(upper, moment[:, None], driver="gelsd").solution[:, 0]
    squares = sum(float((y_N - x_NP @ weight_P1).square().sum()) for x_NP, y_N in blocks)
    return weight_P1, (squares / rows) ** 0.5


def best_order(series: Sequence[Tensor], most: int) -> int:
    """The order with the smallest n log(sigma_p^2) + 2 (p + 2), all on the rows that the largest can use."""
    while most > 1 and sum(len(y_N) for _, y_N in lagged(series, most, most)) <= 2 * (most + 1):
        most //= 2  # few rows: fewer orders
    blocks = lagged(series, most, most)
    rows = sum(len(y_N) for _, y_N in blocks)
    if rows <= most + 1:
        raise EmptyCorpusError(
            f"an autoregression has {rows} rows without gaps to learn from; expected at least 4; try more rows"
        )
    _, moment_P1 = _triangle(blocks)
    total = sum(float(y_N.square().sum()) for _, y_N in blocks)
    left_P1 = total - moment_P1.square().cumsum(0)  # what the first columns leave of the squares
    orders = torch.arange(most + 1)
    criterion = rows * (left_P1 / rows).clamp_min(1e-300).log() + 2.0 * (orders + 2)
    return int(criterion.argmin())


def _triangle(blocks: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """R and Q' y of the decomposition X = Q R, block by block: [R; X_k] = Q R again (a QR that streams)."""
    width = blocks[0][0].shape[1]
    upper = torch.zeros(0, width + 1, dtype=torch.double)
    for x_NP, y_N in blocks:
        stacked = torch.cat((upper, torch.cat((x_NP, y_N[:, None]), 1).cpu()))
        upper = torch.linalg.qr(stacked, mode="r").R
    return upper[:width, :width], upper[:width, width]


def build_forecaster(settings: ForecastSettings, facts: WindowFacts) -> Forecaster:
    """A forecaster with fresh weights."""
    if settings.model in SIMPLE:
        return Simple(settings, facts)
    if settings.model == "ar":
        return Autoregression(settings, facts)
    if settings.model == "linear":
        return Linear(settings, facts)
    return ForecastNetwork(settings, facts)
