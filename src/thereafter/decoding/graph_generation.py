"""Generation on a GPU from one graph: draw a token of every row, write it down, read it; the host looks now and then.

    uniform numbers (a block from the host) -> warping, drawing -> token -> step of the model -> log probabilities
                                                 ^                                                   |
                                                 +---------------------------------------------------+

`GraphSampler` stands in for `sampling.Sampler`: the tokens of a block are drawn ahead and handed out one step at a
time. While the host turns them into text the GPU draws the next block. Every row has the uniform numbers of its own
generator, as on a CPU: the same seed gives the same text, and that of a CPU but where rounding decides.

`DeviceDrawing` has the rules of `warping.Warping` and `sampling.draw` over tensors, so that the GPU can go on without
the host. Its weights are float64, as on the host: from the same log probabilities and the same uniform numbers come the
same tokens.

Shapes: B rows, V words that can be predicted, N steps of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base import progress
from thereafter.base.devices import is_out_of_memory
from thereafter.decoding.sampling import FARTHEST, Draw, Warping
from thereafter.errors import DeviceMemoryError
from thereafter.kernels.one_token import MOST_WORDS, Places, draw_rows, lacks
from thereafter.models.base import Ids, S, SequenceModel
from thereafter.models.graph_step import GraphStep, index_of, record
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import NeuralState, Versions, versions
from thereafter.models.step_bodies import has_step

STEPS = 32
"""The steps of a block."""
MOST_IDLE = 2
"""Copies of the weights that are kept for a model while nobody uses them."""
MOST_LOOPS = 4
"""Recorded loops over one copy of the weights."""

MOST_WEIGHTS = 1 << 27
"""Words of all rows together that are weighed at once: some gigabytes."""


@dataclass(frozen=True)
class Manner:
    """How tokens are drawn, and how that is launched. `recorded`: as a CUDA graph. `programs`: the draw by one program
    of `kernels.one_token`, else by torch's operators."""

    warping: Warping
    forbidden: tuple[int, ...]
    recorded: bool
    programs: bool


class _Loop:
    """The recorded loop: its buffers, and the graph that draws and reads one token of every row of a step."""

    def __init__(self, model: NeuralModel, step: GraphStep, manner: Manner) -> None:
        self._model, self.step, self._recorded = model, step, manner.recorded
        warping, forbidden, rows = manner.warping, manner.forbidden, len(step.token_B)
        with torch.inference_mode(False), torch.no_grad():
            like_BV = self.step.logp_BV
            self.drawing = DeviceDrawing(warping, forbidden, like_BV)
            u_NB = like_BV.new_zeros(STEPS, rows, dtype=torch.float64)
            drawn_N2B = like_BV.new_zeros(STEPS, 2, rows, dtype=torch.float64)  # tokens, then their log p
            place_B = torch.zeros(rows, dtype=torch.int32, device=like_BV.device)
            self._places = Places(u_NB, place_B, drawn_N2B, self.step.token_B)
            if manner.programs:
                seen_BV, forbidden_V = self.drawing.seen_BV, self.drawing.forbidden_V.view(torch.uint8)
                self._places = replace(
                    self._places,
                    seen_BV=None if seen_BV is None else seen_BV.view(torch.uint8),
                    forbidden_V=forbidden_V if forbidden else None,
                )
        self._drawn_by: Warping | None = warping if manner.programs else None
        self._graph: torch.cuda.CUDAGraph | None = None

    def begin(self, state: NeuralState, prompt: Ids | None) -> None:
        """All rows go on from a state."""
        self.step.reset(state)
        if self.drawing.seen_BV is not None:
            self.drawing.seen_BV.zero_()
            if prompt is not None and len(prompt):
                ids = torch.from_numpy(np.asarray(prompt, dtype=np.int64)).to(self.drawing.seen_BV.device)
                self.drawing.seen_BV[:, ids] = True

    def launch(self, u_NB: NDArray[np.float64]) -> None:
        """Put as many steps onto the GPU as there are rows of uniform numbers, and return."""
        with self._model.quietly():
            self._places.u_NB[: len(u_NB)].copy_(torch.from_numpy(u_NB))
            self._places.place_B.zero_()
            if self._recorded and self._graph is None:
                changed = [*self.step.buffers, self._places.place_B]
                if self.drawing.seen_BV is not None:
                    changed.append(self.drawing.seen_BV)
                self._record(changed)
            if self._graph is None:
                for _ in range(len(u_NB)):
                    self._run()
                return
            with torch.cuda.device(self._model.device):
                for _ in range(len(u_NB)):
                    self._graph.replay()

    def _record(self, changed: list[Tensor]) -> None:
        try:
            self._graph = record(self._run, changed, self._model.device)
        except RuntimeError as error:
            # whatever cannot be recorded can still be computed, only more slowly
            self._recorded = False
            progress.note(f"this generation is not recorded as a CUDA graph ({str(error).splitlines()[0]})")

    def fetch(self, steps: int) -> NDArray[np.float64]:
        """What was drawn, [N, 2, B]: waits for the GPU."""
        return self._places.drawn_N2B[:steps].to("cpu", copy=True).numpy()

    def _run(self) -> None:
        logp_BV, places = self.step.logp_BV, self._places
        cuts = self._drawn_by
        if cuts is not None:
            about = cuts.temperature, cuts.top_k, cuts.top_p, cuts.min_p, cuts.repetition_penalty
            draw_rows(logp_BV, places, *about)
        else:
            at_1 = places.place_B[:1]
            token_B = self.drawing.draw(logp_BV, places.u_NB.index_select(0, at_1)[0])
            read_B = token_B.clamp(min=0)
            logp_B = logp_BV.gather(1, read_B.unsqueeze(1)).squeeze(1)
            places.drawn_N2B.index_copy_(0, at_1.long(), torch.stack([token_B.double(), logp_B.double()]).unsqueeze(0))
            places.place_B.add_(1)
            places.token_B.copy_(read_B)
        self.step.run()


class SharedStep:
    """One copy of the weights for so many rows, and the loops recorded over it, of which one runs at a time."""

    def __init__(self, model: NeuralModel, rows: int) -> None:
        self._model, self.made_of = model, _made_of(model, rows)
        self._step = GraphStep(model, rows, model.narrow, recorded=False)
        self._loops: dict[Manner, _Loop] = {}

    def loop(self, manner: Manner) -> _Loop:
        """The loop that draws so, recorded once; those that were not asked for the longest go first."""
        loop = self._loops.pop(manner, None) or _Loop(self._model, self._step, manner)
        self._loops[manner] = loop
        for oldest in list(self._loops)[:-MOST_LOOPS]:
            del self._loops[oldest]
        return loop


def _weights(model: NeuralModel) -> tuple[int, Versions]:
    """The weights of now: another answer, and whatever copied them must be made again."""
    return model.forgotten, versions(model.parameters())


def _made_of(model: NeuralModel, rows: int) -> tuple[int, str | None, tuple[int, Versions]]:
    """What a copy was made for and of."""
    return rows, model.narrow, _weights(model)


def _take(model: NeuralModel, rows: int) -> SharedStep:
    """A copy that nobody uses, of the weights of now, or a new one; where memory is short, those kept are let go."""
    wanted = _made_of(model, rows)
    while model.kept.take(lambda one: isinstance(one, SharedStep) and one.made_of[2] != wanted[2]) is not None:
        pass  # of weights that are no more
    kept = model.kept.take(lambda one: isinstance(one, SharedStep) and one.made_of == wanted)
    if isinstance(kept, SharedStep):
        return kept
    try:
        return SharedStep(model, rows)
    except (RuntimeError, DeviceMemoryError) as error:
        if not is_out_of_memory(error):
            raise
    model.kept.clear()
    torch.cuda.empty_cache()
    return SharedStep(model, rows)


class GraphSampler:
    """Rows that continue the first row of a state, as `sampling.Sampler` does; at most `most` tokens of each.

    `recorded`: as a CUDA graph; without, the same operators one by one, on a CPU as well. `programs`: each draw by one
    program; None where it runs.
    """

    def __init__(
        self,
        model: NeuralModel,
        state: NeuralState,
        rngs: Sequence[np.random.Generator],
        warping: Warping,
        *,
        most: int,
        prompt: Ids | None = None,
        forbidden: Sequence[int] = (),
        recorded: bool = True,
        programs: bool | None = None,
    ) -> None:
        self._model, self._rngs, self._most = model, rngs, most
        self._greedy = warping.temperature == 0
        if programs is None:
            programs = recorded and model.vocabulary_size <= MOST_WORDS and lacks(index_of(model.device)) is None
        self._shared = _take(model, len(rngs))
        self._loop: _Loop | None = self._shared.loop(Manner(warping, tuple(map(int, forbidden)), recorded, programs))
        self._loop.begin(state.select(np.zeros(len(rngs), dtype=np.int64)), prompt)
        self._running = set(range(len(rngs)))
        self._launched = 0
        self._block_N2B: NDArray[np.float64] = np.zeros((0, 2, len(rngs)))
        self._at = 0
        self._launch()

    def draw(self) -> list[Draw]:
        """The next token of every row that still runs; a row where nothing can follow is not among them."""
        if self._at == len(self._block_N2B):
            if self._loop is None or not self._launched:
                return []
            self._block_N2B, self._at = self._loop.fetch(self._launched), 0
            self._launch()
        token_B, logp_B = self._block_N2B[self._at].tolist()
        self._at += 1
        draws = [Draw(row, int(token_B[row]), logp_B[row]) for row in sorted(self._running) if token_B[row] != NOTHING]
        self._running = {drawn.row for drawn in draws}
        self._end_if_done()
        return draws

    def stop(self, row: int) -> None:
        """The row needs no more tokens."""
        self._running.discard(row)
        self._end_if_done()

    def _launch(self) -> None:
        """The next block, while the host is busy with the last one."""
        self._launched = min(STEPS, self._most) if self._running else 0
        self._most -= self._launched
        if self._loop is not None and self._launched:
            shape = (self._launched, len(self._rngs))
            u_BN = [np.zeros(shape[0]) if self._greedy else rng.random(shape[0]) for rng in self._rngs]
            self._loop.launch(np.ascontiguousarray(np.stack(u_BN, axis=1)))

    def _end_if_done(self) -> None:
        """Others may use the loop when nothing is to come: what is still on the GPU comes before what they launch."""
        nothing_left = not self._launched and self._at == len(self._block_N2B)
        if self._loop is not None and (nothing_left or not self._running):
            self._model.kept.put(self._shared, MOST_IDLE)
            self._loop, self._launched = None, 0
            self._block_N2B, self._at = self._block_N2B[:0], 0


def graph_sampler(
    model: SequenceModel[S],
    state: S,
    rngs: Sequence[np.random.Generator],
    warping: Warping,
    *,
    most: int,
    prompt: Ids | None = None,
    forbidden: Sequence[int] = (),
) -> GraphSampler | None:
    """A sampler on the GPU; None where the model is elsewhere, or its step has no fixed size (a Transformer's)."""
    if not isinstance(model, NeuralModel) or not isinstance(state, NeuralState) or model.device.type != "cuda":
        return None
    if most < 1 or len(rngs) * model.vocabulary_size > MOST_WEIGHTS or not has_step(model):
        return None
    return GraphSampler(model, state, rngs, warping, most=most, prompt=prompt, forbidden=forbidden)


NOTHING = -1
"""Stands for a token where nothing is possible."""


class DeviceDrawing:
    """Tokens of rows that share a warping; its operators ask the device for nothing.

    `seen_BV`: the words that pay the repetition penalty; what is drawn is added to them.
    """

    def __init__(self, warping: Warping, forbidden: tuple[int, ...], like_BV: Tensor) -> None:
        self.warping = warping
        self._any_forbidden = bool(forbidden)
        self.forbidden_V = torch.zeros(like_BV.shape[1], dtype=torch.bool)
        self.forbidden_V[list(forbidden)] = True
        self.forbidden_V = self.forbidden_V.to(like_BV.device)
        self.seen_BV: Tensor | None = None
        if warping.repetition_penalty != 1:
            self.seen_BV = torch.zeros_like(like_BV, dtype=torch.bool)

    def draw(self, logp_BV: Tensor, u_B: Tensor) -> Tensor:
        """A token for each row [B]; `NOTHING` where none is possible. `u_B`: uniform numbers, float64."""
        logs_BV = self._possible(logp_BV)
        best_B, token_B = logs_BV.max(dim=1)
        if self.warping.temperature > 0:
            token_B = place_of(self._weights(logs_BV, best_B.unsqueeze(1)), u_B)
        if self.seen_BV is not None:
            self.seen_BV.scatter_(1, token_B.unsqueeze(1), True)
        return token_B.masked_fill(torch.isneginf(best_B), NOTHING)

    def weights(self, logp_BV: Tensor) -> Tensor:
        """As `Warping.weights` for every row, [B, V] in float64."""
        logs_BV = self._possible(logp_BV)
        return self._weights(logs_BV, logs_BV.amax(dim=1, keepdim=True))

    def _possible(self, logp_BV: Tensor) -> Tensor:
        """Log probabilities after the penalty and without forbidden words."""
        logs_BV = logp_BV.double()
        if self.seen_BV is not None:
            penalty = self.warping.repetition_penalty
            scaled_BV = torch.where(logs_BV < 0, logs_BV * penalty, logs_BV / penalty).clamp(-FARTHEST, FARTHEST)
            logs_BV = torch.where(self.seen_BV & ~torch.isneginf(logs_BV), scaled_BV, logs_BV)
        if self._any_forbidden:
            logs_BV = logs_BV.masked_fill(self.forbidden_V, -torch.inf)
        return logs_BV

    def _weights(self, logs_BV: Tensor, best_B1: Tensor) -> Tensor:
        warping = self.warping
        if warping.top_k is not None and warping.top_k < logs_BV.shape[1]:
            logs_BV = logs_BV.masked_fill(~among_largest(logs_BV, warping.top_k), -torch.inf)
        weights_BV = ((logs_BV - best_B1) / warping.temperature).exp()
        if warping.top_p < 1:
            weights_BV = nucleus(weights_BV, warping.top_p)
        if warping.min_p > 0:
            weights_BV = weights_BV.masked_fill(weights_BV < warping.min_p, 0.0)
        return weights_BV


def among_largest(scores_BV: Tensor, k: int) -> Tensor:
    """Which words are the k largest of their row: exactly k of them, ties to the lower id."""
    least_B1 = scores_BV.topk(k, dim=1).values[:, -1:]
    above_BV, equal_BV = scores_BV > least_B1, scores_BV == least_B1
    room_B1 = k - above_BV.sum(1, keepdim=True)
    return above_BV | (equal_BV & (equal_BV.cumsum(1) <= room_B1))


def nucleus(weights_BV: Tensor, top_p: float) -> Tensor:
    """As `warping.keep_nucleus`: a word is kept if all likelier ones together do not reach `top_p`.

    All rows are sorted at once, as one row of keys 2 row - weight: torch sorts a few long rows one after the other.
    """
    rows = 2.0 * torch.arange(len(weights_BV), device=weights_BV.device, dtype=weights_BV.dtype).unsqueeze(1)
    order_N = (rows - weights_BV).flatten().sort(stable=True).indices
    ordered_BV = weights_BV.flatten().index_select(0, order_N).view_as(weights_BV)
    sums_BV = ordered_BV.cumsum(1)
    kept_BV = torch.ones_like(sums_BV, dtype=torch.bool)
    kept_BV[:, 1:] = sums_BV[:, :-1] < top_p * sums_BV[:, -1:]
    kept_N = torch.zeros_like(kept_BV).flatten().scatter(0, order_N, kept_BV.flatten())
    return weights_BV.masked_fill(~kept_N.view_as(weights_BV), 0.0)


def place_of(weights_BV: Tensor, u_B: Tensor) -> Tensor:
    """Where the share u of each row's weight is reached: as `sampling.draw`."""
    ends_BV = weights_BV.cumsum(1)
    goal_B1 = u_B.unsqueeze(1) * ends_BV[:, -1:]
    drawn_B = torch.searchsorted(ends_BV, goal_B1, right=True).squeeze(1)
    places_V = torch.arange(weights_BV.shape[1], device=weights_BV.device)
    last_B = (places_V * (weights_BV > 0)).amax(1)  # rounding at the very end of the line
    return torch.minimum(drawn_B, last_B)
