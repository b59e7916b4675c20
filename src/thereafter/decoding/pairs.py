"""Beam search over a translator, all sentences of a batch at once.

    score = sum of log p / length^penalty

with the END of a sentence counted in both. Every sentence has `beam` hypotheses; one that ends among the likeliest of
its step is done, and the search goes on with one less (Sutskever, Vinyals and Le 2014), until all have ended or nothing
that still runs can beat the best that did. With one beam it is `Translator.decide`.

The hypotheses of a sentence are rows of the decoder, and only its state moves when they change places: the memory of
the source is the same for all of them. Rows of hypotheses that have ended are taken out from time to time.

Shapes: B sentences, W places for hypotheses of each (1 at first, then K, the beam), R rows of the decoder, C
candidates, L tokens at most, V words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from thereafter.errors import OptionError
from thereafter.models.translator import END, SPARSE, PairBatch, Translator, ended, select

_STRETCH = 64  # words whose greatest is found first


@dataclass
class _Search:
    """The running hypotheses by falling sum, -inf where there is none, and the best that ended."""

    said_BWL: Tensor
    total_BW: Tensor
    best_B: Tensor
    best_BL: Tensor
    done_B: Tensor  # hypotheses that ended

    @classmethod
    def of(cls, rows: int, limit: int, device: torch.device) -> _Search:
        return cls(
            said_BWL=torch.full((rows, 1, limit), END, device=device),
            total_BW=torch.zeros(rows, 1, device=device),
            best_B=torch.full((rows,), -torch.inf, device=device),
            best_BL=torch.full((rows, limit), END, device=device),
            done_B=torch.zeros(rows, dtype=torch.int64, device=device),
        )


def beam_search(net: Translator, batch: PairBatch, *, beam: int = 5, length_penalty: float = 1.0) -> list[list[int]]:
    """The best translation found of every sentence, as ids without END."""
    if beam < 1:
        raise OptionError(f"beam is {beam}; expected at least 1; try beam=5")
    with net.quietly():
        limit, device = net.limit, net.device
        now = _Search.of(len(batch), limit, device)
        memory = net.read(batch)
        state = net.begin(memory)
        place_R = torch.arange(len(batch), device=device)  # of each row among all B W hypotheses
        last_R = torch.full_like(place_R, net.start)
        for t in range(limit):
            z_RV, state = net.step(last_R, memory, state)
            value_RC, word_RC = largest(net.sayable(z_RV.log_softmax(-1)), beam + 1)
            row_BW = _row_of(place_R, now.total_BW)
            value_BWC, word_BWC = _spread(value_RC, place_R, now, -torch.inf), _spread(word_RC, place_R, now, END)
            parent_BK = _grown(now, value_BWC, word_BWC, t, beam, length_penalty)
            if t + 1 == limit:
                _cut_short(now, limit, length_penalty)
                break
            reached = float((limit if length_penalty > 0 else t + 2) ** length_penalty)
            alive_BK = now.total_BW / reached > now.best_B[:, None]
            now.total_BW = now.total_BW.masked_fill(~alive_BK, -torch.inf)
            count = int(alive_BK.sum())
            if not count:
                break
            from_row = row_BW.gather(1, parent_BK).flatten()
            if not t or count <= SPARSE * len(place_R):
                place_R = alive_BK.flatten().nonzero().squeeze(1)
                memory = select(memory, from_row[place_R])
            state = select(state, from_row[place_R])
            last_R = now.said_BWL[:, :, t].flatten()[place_R]
        return ended(now.best_BL)


def largest(scores_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` greatest numbers of each row and their places, greatest first; fewer where a row has fewer.

    They lie in those `count` stretches of the row that have the greatest maxima, and a maximum is found faster than a
    place in an order.
    """
    rows, words = scores_RV.shape
    whole = words // _STRETCH
    if count >= whole:
        found = scores_RV.topk(min(count, words), -1)
        return found.values, found.indices
    end = whole * _STRETCH
    chosen = scores_RV[:, :end].reshape(rows, whole, _STRETCH).amax(-1).topk(count, -1).indices
    place = (chosen[:, :, None] * _STRETCH + torch.arange(_STRETCH, device=chosen.device)).flatten(1)
    place = torch.cat((place, torch.arange(end, words, device=chosen.device).expand(rows, -1)), 1)
    value, which = scores_RV.gather(1, place).topk(count, -1)
    return value, place.gather(1, which)


def _row_of(place_R: Tensor, total_BW: Tensor) -> Tensor:
    """The row of each hypothesis, [B, W]; 0 where it has none, which nothing will be made of."""
    row = torch.zeros(total_BW.numel(), dtype=torch.int64, device=place_R.device)
    row[place_R] = torch.arange(len(place_R), device=place_R.device)
    return row.view_as(total_BW)


def _spread(found_RC: Tensor, place_R: Tensor, now: _Search, fill: float) -> Tensor:
    """What was found of rows, as [B, W, C] of all hypotheses."""
    rows, width = now.total_BW.shape
    wide = found_RC.new_full((rows * width, found_RC.shape[1]), fill)
    wide[place_R] = found_RC
    return wide.view(rows, width, -1)


def _grown(now: _Search, value_BWC: Tensor, word_BWC: Tensor, t: int, beam: int, length_penalty: float) -> Tensor:
    """Every hypothesis with its likeliest next words; the best go on, and where each came from is returned, [B, K].

    No hypothesis can give more than K that go on and one that ends, so K + 1 of its words are enough.
    """
    choices = value_BWC.shape[2]
    total_BC, rank = (now.total_BW[:, :, None] + value_BWC).flatten(1).sort(dim=-1, descending=True, stable=True)
    word_BC, parent_BC = word_BWC.flatten(1).gather(1, rank), rank // choices
    ends_BC = word_BC == END
    free_B1 = beam - now.done_B[:, None]
    counted_BC = ends_BC & (torch.arange(total_BC.shape[1], device=rank.device) < free_B1) & total_BC.isfinite()
    _take_ended(now, total_BC.masked_fill(~counted_BC, -torch.inf), parent_BC, t, length_penalty)
    now.done_B = now.done_B + counted_BC.sum(1)
    going = total_BC.masked_fill(ends_BC, -torch.inf).sort(dim=-1, descending=True, stable=True)
    # where there are fewer words than beams, what is missing can never win
    lacking = (0, max(0, beam - total_BC.shape[1]))
    going_BK = pad(going.values[:, :beam], lacking, value=-torch.inf)
    place_BK = pad(going.indices[:, :beam], lacking)
    over_BK = torch.arange(beam, device=rank.device) >= beam - now.done_B[:, None]
    parent_BK = parent_BC.gather(1, place_BK)
    said_BKL = now.said_BWL.gather(1, parent_BK[:, :, None].expand(-1, -1, now.said_BWL.shape[2]))
    said_BKL[:, :, t] = word_BC.gather(1, place_BK)
    now.said_BWL, now.total_BW = said_BKL, going_BK.masked_fill(over_BK, -torch.inf)
    return parent_BK


def _take_ended(now: _Search, total_BC: Tensor, parent_BC: Tensor, t: int, length_penalty: float) -> None:
    """Remember the best hypothesis that has just ended, where it is better than those before."""
    score_B, which_B = (total_BC / float((t + 1) ** length_penalty)).max(1)
    better_B = score_B > now.best_B
    parent_B = parent_BC.gather(1, which_B[:, None])
    said_BL = now.said_BWL.gather(1, parent_B[:, :, None].expand(-1, -1, now.said_BWL.shape[2])).squeeze(1)
    now.best_BL = torch.where(better_B[:, None], said_BL, now.best_BL)
    now.best_B = torch.where(better_B, score_B, now.best_B)


def _cut_short(now: _Search, limit: int, length_penalty: float) -> None:
    """There is no room for more: the best that still runs counts as it is, where nothing that ended is better."""
    better_B = now.total_BW[:, 0] / float(limit**length_penalty) > now.best_B
    now.best_BL = torch.where(better_B[:, None], now.said_BWL[:, 0], now.best_BL)
