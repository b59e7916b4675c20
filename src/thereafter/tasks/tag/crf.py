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

`kernels/chain.py` is the plain loop. On an NVIDIA GPU each of these is one program for a whole batch where it can be
(`kernels/gpu/crf.py`): up to 128 tags, in float32, bfloat16 or float16. The same input gives the same bits there.

Shapes: B rows, T steps, K tags, n the length of a row. Steps beyond a row's length may hold anything, NaN included.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.chain import Chain, chain_scores, real_steps
from thereafter.kernels.scan import chain_kernel
from thereafter.layers.inputs import Lengths, take_lengths


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

    def nll(
        self,
        emissions_BTK: Tensor,
        tags_BT: Tensor,
        lengths: Lengths | None = None,
        counted_B: Tensor | None = None,
    ) -> Tensor:
        """The sum over rows of -log p(tags | emissions). `counted_B`: a weight for each row, numbers or true and false;
        a row of the weight 0 fills a batch: it may be empty, and adds nothing to the sum or to any gradient."""
        chain = self._take(emissions_BTK, lengths, filling=counted_B is not None)
        if counted_B is not None and counted_B.shape != chain.lengths_B.shape:
            raise ShapeError(f"counted_B has the shape {tuple(counted_B.shape)}; expected {len(emissions_BTK)} weights")
        chain = chain._replace(counted_B=counted_B)
        chain = chain._replace(tags_BT=self._take_tags(chain, tags_BT))
        return chain_kernel(chain).values(chain).sum()

    def score(self, emissions_BTK: Tensor, tags_BT: Tensor, lengths: Lengths | None = None) -> Tensor:
        """s(x, y) of each row, [B]: the logarithm of its weight, not yet divided by Z."""
        chain = self._take(emissions_BTK, lengths)
        return chain_scores(chain, self._take_tags(chain, tags_BT))

    def log_partition(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> Tensor:
        """log Z of each row, [B]."""
        chain = self._take(emissions_BTK, lengths)
        return chain_kernel(chain).values(chain)

    def marginals(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> Tensor:
        """p(y_t = j | x), [B, T, K]: sums to 1 over the tags of each real step, and is 0 beyond."""
        chain = self._take(emissions_BTK, lengths)
        return chain_kernel(chain).marginals(chain)

    def best(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> Tensor:
        """The tags of the highest score of each row, [B, T], where the emissions are; 0 beyond a row's end."""
        chain = self._take(emissions_BTK, lengths)
        return chain_kernel(chain).path(chain)

    def decode(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> list[list[int]]:
        """The tags of the highest score of each row, as long as the row."""
        chain = self._take(emissions_BTK, lengths)
        paths = chain_kernel(chain).path(chain).tolist()
        return [tags[:n] for tags, n in zip(paths, chain.lengths_B.tolist(), strict=True)]

    def _take(self, emissions_BTK: Tensor, lengths: Lengths | None, *, filling: bool = False) -> Chain:
        """The chain, checked. Where a CUDA graph is captured lengths on a GPU are not looked at."""
        if emissions_BTK.dim() != 3 or emissions_BTK.shape[2] != self.tags:
            raise ShapeError(
                f"emissions have the shape {tuple(emissions_BTK.shape)}; expected [rows, steps, {self.tags}], a score "
                f"for each of {self.tags} tags; try unsqueeze(0) for a single row"
            )
        if not emissions_BTK.is_floating_point():
            raise ShapeError(f"emissions have the type {emissions_BTK.dtype}; expected scores; try emissions.float()")
        batch, steps, _ = emissions_BTK.shape
        device = emissions_BTK.device
        if lengths is None:
            empty_row = 0 if batch and not steps else None
            lengths_B = torch.full((batch,), steps, device=device)
        else:
            lengths_B = take_lengths(lengths, batch, steps)
            looked_at = batch and not filling and lengths_B.device.type == "cpu"
            empty_row = int(lengths_B.argmin()) if looked_at and int(lengths_B.min()) == 0 else None
            # those that are on the GPU already need no way back
            lengths_B = (lengths.detach() if isinstance(lengths, Tensor) else lengths_B).to(device, torch.int64)
        if empty_row is not None:
            raise ShapeError(
                f"row {empty_row} has the length 0; expected at least 1 step, since an empty row has no "
                "tags; try leaving such rows out"
            )
        return Chain(emissions_BTK, self.start_K, self.transition_KK, self.end_K, lengths_B)

    def _take_tags(self, chain: Chain, tags_BT: Tensor) -> Tensor:
        """Tags, checked. A GPU is not asked: it would have to stop and answer. The loss of a tag that is none is NaN
        there, or torch complains."""
        shape = chain.emissions_BTK.shape[:2]
        if tags_BT.shape != shape or tags_BT.is_floating_point() or tags_BT.dtype == torch.bool:
            raise ShapeError(
                f"tags are {tags_BT.dtype} of the shape {tuple(tags_BT.shape)}; expected integers of the shape "
                f"{tuple(shape)}, one for each step of the emissions"
            )
        if tags_BT.device.type == "cpu" and tags_BT.numel():
            real_BT = tags_BT.masked_fill(~real_steps(chain), 0)
            if not 0 <= int(real_BT.min()) <= int(real_BT.max()) < self.tags:
                raise ShapeError(
                    f"tags run from {int(real_BT.min())} to {int(real_BT.max())}; expected 0 to {self.tags - 1}; "
                    "try lengths= that end before the padding"
                )
        return tags_BT

    def extra_repr(self) -> str:
        return str(self.tags)
