"""Linear autoregression, the books' AR(tau): one step from the last tau values, more steps from its own predictions.

    y_t = c + a_1 y_{t-1} + ... + a_p y_{t-p} + e_t,    e_t ~ Normal(0, sigma^2)

Coefficients by conditional least squares over all rows; the order by Akaike's criterion, with the same rows for every
order: n log(sigma_p^2) + 2 (p + 2) is smallest. One decomposition gives the errors of all orders, since the inputs of
an order are the first columns of those of the next. The variance h steps ahead is sigma^2 sum_{j<h} psi_j^2, with psi
the response to one shock (Box and Jenkins 1970).

Shapes: B windows, L rows, H steps, D targets, N rows of the regression, P largest order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from thereafter.errors import EmptyCorpusError
from thereafter.series.distributions import Distribution, Normal
from thereafter.series.forecasters.batch import WindowBatch
from thereafter.series.forecasters.forecaster import Batches, Forecaster, WindowFacts
from thereafter.series.forecasters.settings import ForecastSettings

_FAR = 1 << 30
_BLOCK = 4096  # rows that are laid out at a time
_LEAST = 1e-9


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

    @property
    def device(self) -> torch.device:
        return self.sigma_D.device

    def orders(self) -> list[int]:
        """The order of each target."""
        return [int(row[1:].nonzero().max()) + 1 if row[1:].any() else 0 for row in self.weight_DP1]

    def expect(self, batch: WindowBatch) -> Distribution:
        mean_BHD = self._recur(batch, None)
        deviation_HD = self._psi(batch.horizon).square().cumsum(0).sqrt() * self.sigma_D
        return Normal(mean_BHD, deviation_HD.to(mean_BHD).expand_as(mean_BHD))

    def costs(self, batch: WindowBatch) -> Tensor:
        return -self.expect(batch).log_prob(batch.answers()[0])

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
            self.sigma_D[target] = max(sigma, _LEAST)

    def _recur(self, batch: WindowBatch, shocks_BHD: Tensor | None) -> Tensor:
        """The equation from the last rows on, in double precision; a missing value is taken for the last one seen."""
        filled_BLD = _carried(batch)
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


def _carried(batch: WindowBatch) -> Tensor:
    """The window with its gaps filled by the last value before them, [B, L, D]."""
    steps_L = torch.arange(batch.past_BLD.shape[1], device=batch.past_BLD.device)
    at_BLD = torch.where(batch.seen_BLD, steps_L[:, None], 0).cummax(1).values
    return batch.past_BLD.gather(1, at_BLD)
