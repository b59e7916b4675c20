"""A linear-chain conditional random field: the tags of a sentence are judged together, not one by one.

    s(x, y)   = start[y_1] + sum_t e_t[y_t] + sum_{t>1} A[y_{t-1}, y_t] + end[y_n]
    log p(y | x) = s(x, y) - log Z(x),      Z(x) = sum over all K^n sequences y' of exp s(x, y')

e_t are scores of the tags from the words (any layer's output), A says which tag likes to follow which. All K^n
sequences are added up in n K^2 steps, forwards: a sequence that ends in tag j comes from one that ended in some i,

    alpha_1[j] = start[j] + e_1[j],      alpha_t[j] = e_t[j] + log sum_i exp(alpha_{t-1}[i] + A[i, j])
    log Z = log sum_j exp(alpha_n[j] + end[j])

and backwards in the same way (beta), so that p(y_t = j | x) = exp(alpha_t[j] + beta_t[j] - log Z). With max in place of
log sum exp the same walk finds the best sequence (Viterbi 1967).

Lafferty, McCallum and Pereira 2001, Conditional random fields: probabilistic models for segmenting and labeling
sequence data.

Shapes: B rows, T steps, K tags, n the length of a row. Steps beyond a row's length may hold anything, NaN included.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from thereafter.errors import OptionError, ShapeError
from thereafter.layers.inputs import Lengths, take_lengths


class _Rows(NamedTuple):
    """Emissions in float32 at least, 0 beyond each row's end; which steps are real; the place of the last real one."""

    e_BTK: Tensor
    real_BT: Tensor
    last_B: Tensor


class Crf(nn.Module):
    """Scores of tag sequences, their probabilities, and the best of them. All scores of transitions begin at 0.

    >>> crf = Crf(2)
    >>> with torch.no_grad():
    ...     _ = crf.transition_KK.copy_(torch.tensor([[3.0, 0.0], [0.0, 3.0]]))  # tags like to stay
    >>> crf.decode(torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]]), [3])
    [[0, 0, 0]]
    """

    def __init__(self, tags: int) -> None:
        super().__init__()
        if tags < 1:
            raise OptionError(f"there are {tags} tags; expected at least 1")
        self.tags = tags
        self.start_K = nn.Parameter(torch.zeros(tags))
        self.end_K = nn.Parameter(torch.zeros(tags))
        self.transition_KK = nn.Parameter(torch.zeros(tags, tags))

    def nll(self, emissions_BTK: Tensor, tags_BT: Tensor, lengths: Lengths | None = None) -> Tensor:
        """The sum over rows of -log p(tags | emissions)."""
        rows = self._take(emissions_BTK, lengths)
        return (self._log_partition(rows) - self._score(rows, tags_BT)).sum()

    def score(self, emissions_BTK: Tensor, tags_BT: Tensor, lengths: Lengths | None = None) -> Tensor:
        """s(x, y) of each row, [B]: the logarithm of its weight, not yet divided by Z."""
        return self._score(self._take(emissions_BTK, lengths), tags_BT)

    def log_partition(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> Tensor:
        """log Z of each row, [B]."""
        return self._log_partition(self._take(emissions_BTK, lengths))

    def marginals(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> Tensor:
        """p(y_t = j | x), [B, T, K]: sums to 1 over the tags of each real step, and is 0 beyond."""
        rows = self._take(emissions_BTK, lengths)
        if not rows.e_BTK.numel():
            return rows.e_BTK
        alpha_BTK = self._alpha(rows)
        log_p_BTK = alpha_BTK + self._beta(rows)
        # by each step's own sum, which is log Z at all of them but for the last bits
        return log_p_BTK.softmax(-1).masked_fill(~rows.real_BT.unsqueeze(-1), 0.0)

    @torch.no_grad()
    def decode(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> list[list[int]]:
        """The tags of the highest score of each row, as long as the row."""
        rows = self._take(emissions_BTK, lengths)
        if not rows.e_BTK.numel():
            return []
        into_KK = self.transition_KK.t()
        first, *others = rows.e_BTK.unbind(1)
        best_BK = self.start_K + first
        ends, came_from = [best_BK], []
        for e_BK in others:
            best_BK, from_BK = (best_BK.unsqueeze(1) + into_KK).max(2)
            best_BK = best_BK + e_BK
            ends.append(best_BK)
            came_from.append(from_BK)
        final_B = (_at(torch.stack(ends, 1), rows.last_B) + self.end_K).argmax(1)
        # walking back is many steps of very little each: nothing for a GPU
        last, tag = rows.last_B.cpu().numpy(), final_B.cpu().numpy()
        final, row = tag, np.arange(len(tag))
        path = [tag]
        back_TBK = torch.stack(came_from).cpu().numpy() if came_from else np.empty((0, *best_BK.shape), np.int64)
        for t in range(len(back_TBK) - 1, -1, -1):
            # a row joins at its own end; until then it holds its last tag
            tag = np.where(t < last, back_TBK[t][row, tag], final)
            path.append(tag)
        paths = np.stack(path[::-1], axis=1).tolist()
        return [tags[: n + 1] for tags, n in zip(paths, last.tolist(), strict=True)]

    def _take(self, emissions_BTK: Tensor, lengths: Lengths | None) -> _Rows:
        if emissions_BTK.dim() != 3 or emissions_BTK.shape[2] != self.tags:
            raise ShapeError(
                f"emissions have the shape {tuple(emissions_BTK.shape)}; expected [rows, steps, {self.tags}], a score "
                f"for each of {self.tags} tags; try unsqueeze(0) for a single row"
            )
        if not emissions_BTK.is_floating_point():
            raise ShapeError(f"emissions have the type {emissions_BTK.dtype}; expected scores; try emissions.float()")
        batch, steps, _ = emissions_BTK.shape
        lengths_B = take_lengths([steps] * batch if lengths is None else lengths, batch, steps)
        if batch and int(lengths_B.min()) == 0:
            raise ShapeError(
                f"row {int(lengths_B.argmin())} has the length 0; expected at least 1 step, since an empty row has no "
                "tags; try leaving such rows out"
            )
        lengths_B = lengths_B.to(emissions_BTK.device)
        real_BT = torch.arange(steps, device=emissions_BTK.device) < lengths_B.unsqueeze(1)
        wide = emissions_BTK.to(torch.promote_types(emissions_BTK.dtype, torch.float32))
        return _Rows(wide.masked_fill(~real_BT.unsqueeze(-1), 0.0), real_BT, lengths_B - 1)

    def _score(self, rows: _Rows, tags_BT: Tensor) -> Tensor:
        if tags_BT.shape != rows.real_BT.shape or tags_BT.is_floating_point() or tags_BT.dtype == torch.bool:
            raise ShapeError(
                f"tags are {tags_BT.dtype} of the shape {tuple(tags_BT.shape)}; expected integers of the shape "
                f"{tuple(rows.real_BT.shape)}, one for each step of the emissions"
            )
        if not rows.e_BTK.numel():
            return rows.e_BTK.new_zeros(len(tags_BT))
        tags_BT = tags_BT.long().masked_fill(~rows.real_BT, 0)
        # a GPU is not asked: it would have to stop and answer, and complains by itself
        if tags_BT.device.type == "cpu" and not 0 <= int(tags_BT.min()) <= int(tags_BT.max()) < self.tags:
            raise ShapeError(
                f"tags run from {int(tags_BT.min())} to {int(tags_BT.max())}; expected 0 to {self.tags - 1}; "
                "try lengths= that end before the padding"
            )
        e_BT = rows.e_BTK.gather(2, tags_BT.unsqueeze(2)).squeeze(2)
        step_BT = self.transition_KK[tags_BT[:, :-1], tags_BT[:, 1:]].masked_fill(~rows.real_BT[:, 1:], 0.0)
        return self.start_K[tags_BT[:, 0]] + e_BT.sum(1) + step_BT.sum(1) + self.end_K[_at(tags_BT, rows.last_B)]

    def _log_partition(self, rows: _Rows) -> Tensor:
        if not rows.e_BTK.numel():
            return rows.e_BTK.new_zeros(len(rows.e_BTK))
        return (_at(self._alpha(rows), rows.last_B) + self.end_K).logsumexp(1)

    def _alpha(self, rows: _Rows) -> Tensor:
        """alpha, [B, T, K]. Rows walk on beyond their end: nobody looks at what they find there."""
        into_KK = self.transition_KK.t()  # what is added up lies side by side
        first, *others = rows.e_BTK.unbind(1)
        alphas = [self.start_K + first]
        for e_BK in others:
            alphas.append((alphas[-1].unsqueeze(1) + into_KK).logsumexp(2) + e_BK)
        return torch.stack(alphas, 1)

    def _beta(self, rows: _Rows) -> Tensor:
        """beta, [B, T, K]: log of the weight of all ways on from tag j at step t; `end` at a row's last step."""
        emissions = rows.e_BTK.unbind(1)
        betas = [self.end_K.to(rows.e_BTK.dtype).expand(len(rows.e_BTK), -1)]
        for t in range(len(emissions) - 2, -1, -1):
            on_BK = (self.transition_KK + (emissions[t + 1] + betas[-1]).unsqueeze(1)).logsumexp(2)
            betas.append(torch.where((t < rows.last_B).unsqueeze(1), on_BK, self.end_K))
        return torch.stack(betas[::-1], 1)

    def extra_repr(self) -> str:
        return str(self.tags)


def _at(x: Tensor, place_B: Tensor) -> Tensor:
    """x[b, place[b]] of each row."""
    return x[torch.arange(len(x), device=x.device), place_B]
