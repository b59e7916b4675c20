"""What a head is, a distribution whose parameters are made of features; and the normal distribution, which is for
numbers what the softmax is for words.

A network is a reader (inputs to vectors), a body (vectors to features) and a head (features to a distribution over
what comes). Training needs a head's nats, generation a sample, forecasting quantiles; none of them needs
to know whether words or numbers come out.

Shapes: N places, V words, H features, D numbers at a place, Q levels. Targets are [N], with more axes behind if
a place has several numbers.

The softmax over a vocabulary, and its loss in pieces, so that the logits of a whole batch never exist at once.

    z_n = W f_n + b,    nll_n = log sum_v exp z_nv - z_n[target]
    dz_n = g_n (softmax(z_n) - onehot(target)),    df = dz W,    dW = dz^T f,    db = sum dz

The loss follows at once, so dz can be computed from z in its own place, in the forward pass: each piece of z becomes
dz, its parts of df, dW and db are added up, and it is gone. Nothing of the size N x V is ever kept, and nothing is
computed twice. These gradients are for one g that all tokens share; the backward pass multiplies them by another common
factor. Where g differs from token to token it is not known in the forward pass: then, and for a second backward pass,
the pieces are computed again.

In the adaptive softmax frequent words cost much, rare ones little.

Shapes: N tokens, V words, H features, R rows of the matrix: V, or V + 1 where it is an embedding's, with `<s>` below.
S words of the short list, K clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.rows import pick_rows
from thereafter.kernels.switches import apply_one
from thereafter.layers.embedding import Embedding


class Head(Protocol):
    """A distribution over the target at each of N places, given features [N, H]."""

    features: int
    """H: the number of features it reads."""

    def nll(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """-log p of each target, [N], with gradients. `table_RH`: the reader's matrix, for a head that shares it."""

    def total(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """The sum of `nll`, whose mean is minimised."""

    def log_prob_of(self, f_NH: Tensor, targets_N: Tensor) -> Tensor:
        """log p of each target, [N], without gradients."""

    def sample(self, f_NH: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw for each place, shaped as targets are; the same from generators in the same state."""


class WordHead(Head, Protocol):
    """A head over V words, all of whose probabilities can be listed."""

    words: int

    def log_prob(self, f_NH: Tensor) -> Tensor:
        """log p of every word, [N, V]."""


def check_places(f_NH: Tensor, features: int, targets: Tensor | None = None, behind: tuple[int, ...] = ()) -> None:
    """Check that features are [N, H] and targets, if any, [N] with the axes `behind`."""
    wrong = targets is not None and targets.shape != (*f_NH.shape[:1], *behind)
    if f_NH.dim() != 2 or f_NH.shape[1] != features or wrong:
        and_targets = "" if targets is None else f" and targets {tuple(targets.shape)}"
        wanted = "" if targets is None else f" and [{', '.join(map(str, ('N', *behind)))}]"
        raise ShapeError(
            f"features are {tuple(f_NH.shape)}{and_targets}; expected [N, {features}]{wanted}; try flatten(0, 1)"
        )


_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Gaussian(nn.Module):
    """Mean and spread of a normal distribution, both linear in the features:

        [mu; log sigma] = W f + b,    y ~ Normal(mu, sigma^2)
        -log p(y) = log sigma + (y - mu)^2 / (2 sigma^2) + (1/2) log 2 pi

    (Nix and Weigend 1994, Estimating the mean and variance of the target probability distribution.) With sigma given as
    its logarithm no number has to be refused. `size`: D numbers at each place, independent of each other once the
    features are known, so that their nats add up; None for one number, with no axis of its own. Products follow
    autocast; the density is worked out in float32 at least.

    >>> head = Gaussian(4)
    >>> head.nll(torch.zeros(3, 4), torch.zeros(3))[0].item()  # a normal distribution of mean 0 and deviation 1 at 0
    0.9189385175704956
    """

    def __init__(self, features: int, size: int | None = None) -> None:
        super().__init__()
        if features < 1 or (size is not None and size < 1):
            raise OptionError(f"features is {features} and size is {size}; expected 1 or more")
        self.features, self.size = features, size
        bound = 1 / math.sqrt(features)
        self.weight = nn.Parameter(torch.empty(2 * (size or 1), features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(2 * (size or 1)))

    def moments(self, f_NH: Tensor) -> tuple[Tensor, Tensor]:
        """mu and log sigma, each shaped as targets are: [N], or [N, D]."""
        check_places(f_NH, self.features)
        both = F.linear(f_NH, self.weight, self.bias)
        both = both.to(torch.promote_types(both.dtype, torch.float32))
        mean, log_sigma = both.chunk(2, dim=1)
        return (mean[:, 0], log_sigma[:, 0]) if self.size is None else (mean, log_sigma)

    def nll(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """-log p of each target, [N], the sum over its numbers; there is no matrix to share."""
        check_places(f_NH, self.features, targets_N, () if self.size is None else (self.size,))
        mean, log_sigma = self.moments(f_NH)
        nats = log_sigma + 0.5 * ((targets_N - mean) * torch.exp(-log_sigma)).square() + _HALF_LOG_TAU
        return nats if self.size is None else nats.sum(1)

    def total(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """The sum of `nll`."""
        return self.nll(f_NH, targets_N).sum()

    @torch.no_grad()
    def log_prob_of(self, f_NH: Tensor, targets_N: Tensor) -> Tensor:
        """log p of each target, [N], without gradients."""
        return -self.nll(f_NH, targets_N)

    @torch.no_grad()
    def sample(self, f_NH: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """mu + sigma times a standard normal draw, [N] or [N, D]."""
        mean, log_sigma = self.moments(f_NH)
        drawn = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + torch.exp(log_sigma) * drawn

    def quantiles(self, f_NH: Tensor, levels_Q: Tensor) -> Tensor:
        """mu + sigma Phi^-1(level), [N, Q] or [N, D, Q]."""
        if levels_Q.dim() != 1 or not bool(((levels_Q > 0) & (levels_Q < 1)).all()):
            raise OptionError(f"levels are {levels_Q.tolist()}; expected shares between 0 and 1; try [0.1, 0.5, 0.9]")
        mean, log_sigma = self.moments(f_NH)
        standard_Q: Tensor = torch.special.ndtri(levels_Q.to(mean))
        return mean.unsqueeze(-1) + torch.exp(log_sigma).unsqueeze(-1) * standard_Q

    def extra_repr(self) -> str:
        return f"{self.features}, size={self.size}"


PIECE = {"cpu": 1 << 23}
LARGE_PIECE = 1 << 26
FEWEST_ROWS = 256
"""Logits of a piece: on a CPU 8 million (32 MB), elsewhere 64 million (256 MB), since a GPU wants much to do at once;
but never fewer rows than a matrix product needs to run at full speed."""


def rows_at_once(tokens: int, words: int, chunk: int | None = None, device: str = "cpu") -> int:
    """Number of rows of logits per piece: all pieces of one size, none larger than `chunk`."""
    most = chunk or max(FEWEST_ROWS, PIECE.get(device, LARGE_PIECE) // max(words, 1))
    return math.ceil(tokens / math.ceil(tokens / most)) if tokens else 1


def softmax_nll(
    f_NH: Tensor,
    matrix_RH: Tensor,
    bias_V: Tensor | None,
    targets_N: Tensor,
    words: int,
    chunk: int | None = None,
    *,
    mean_of: int = 1,
    counted_N: Tensor | None = None,
) -> Tensor:
    """-log p of each target, [N], in float32 (float64 for float64 features); at most `chunk` rows of logits at once.

    `counted_N`: where it is false a target counts for nothing: its -log p is 0. `mean_of`: gradients are prepared for
    the sum divided by it; others come out right too, with one more pass over them. Under autocast the products are
    taken in its type, the softmax never is.
    """
    if f_NH.dim() != 2 or targets_N.shape != f_NH.shape[:1] or matrix_RH.shape[1] != f_NH.shape[1]:
        raise ShapeError(
            f"features are {tuple(f_NH.shape)} and targets {tuple(targets_N.shape)}; "
            f"expected [N, {matrix_RH.shape[1]}] and [N]; try flatten(0, 1)"
        )
    kind = f_NH.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else matrix_RH.dtype
    with torch.autocast(kind, enabled=False):
        learned = (f_NH, matrix_RH) if bias_V is None else (f_NH, matrix_RH, bias_V)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in learned):
            # the factor as autograd will have it, in float32
            scale = float(1.0 / torch.tensor(float(mean_of)))
            return apply_one(_SoftmaxNll, f_NH, matrix_RH, bias_V, targets_N, counted_N, words, chunk, dtype, scale)
        nll_N = _Walk(f_NH, matrix_RH, bias_V, targets_N, words, chunk, dtype).run(None)
        return nll_N if counted_N is None else nll_N.masked_fill(~counted_N, 0.0)


def wide_log_softmax(z_NV: Tensor) -> Tensor:
    """log softmax in float32 at least."""
    return F.log_softmax(z_NV, dim=-1, dtype=torch.promote_types(z_NV.dtype, torch.float32))


def draw(logp_NV: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One column of each row, [N], drawn by its probability."""
    return torch.multinomial(logp_NV.exp(), 1, generator=generator).squeeze(1)


class _Walk:
    """One way through the pieces, with or without gradients."""

    df_NH: Tensor | None = None
    dW_RH: Tensor | None = None
    db_V: Tensor | None = None

    def __init__(
        self,
        f_NH: Tensor,
        matrix_RH: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        words: int,
        chunk: int | None,
        dtype: torch.dtype,
    ) -> None:
        self.dtype, self.wide = dtype, torch.promote_types(dtype, torch.float32)
        self.f_NH, self.W_VH = f_NH.to(dtype), matrix_RH[:words].to(dtype)
        self.bias_V = None if bias_V is None else bias_V.to(dtype)
        self.targets_N = targets_N
        self.words, self.spare = words, len(matrix_RH) - words
        self.rows = rows_at_once(len(f_NH), words, chunk, f_NH.device.type)

    def run(
        self, wanted: tuple[bool, bool, bool] | None, weights_N: Tensor | None = None, scale: float = 1.0
    ) -> Tensor:
        """The nats of every token; where wanted, the gradients of their weighted sum times `scale`."""
        tokens = len(self.f_NH)
        nll_N = self.f_NH.new_empty(tokens, dtype=self.wide)
        shape = (min(self.rows, tokens), self.words)
        logits_PV = self.f_NH.new_empty(shape)
        logp_PV = logits_PV if self.dtype == self.wide else self.f_NH.new_empty(shape, dtype=self.wide)
        if wanted is not None:
            self._prepare(wanted)
        for begin in range(0, tokens, self.rows):
            part = slice(begin, min(begin + self.rows, tokens))
            z, logp = logits_PV[: part.stop - begin], logp_PV[: part.stop - begin]
            target = self.targets_N[part].unsqueeze(1)
            if self.bias_V is None:
                torch.mm(self.f_NH[part], self.W_VH.t(), out=z)
            else:
                torch.addmm(self.bias_V, self.f_NH[part], self.W_VH.t(), out=z)
            # in its own place: a row is read to its end before its first number is written, then number by number
            torch.log_softmax(z, 1, dtype=self.wide, out=logp)
            torch.neg(logp.gather(1, target).squeeze(1), out=nll_N[part])
            if wanted is None:
                continue
            dz = torch.exp(logp, out=z)
            # p - 1 is the smaller one: torch adds a -1 in a fixed order on a GPU only after it has sorted
            dz.scatter_reduce_(1, target, dz.gather(1, target) - 1.0, "amin")
            if weights_N is not None:
                dz.mul_(weights_N[part].unsqueeze(1))
            self._collect(part, dz, scale)
        return nll_N

    def _prepare(self, wanted: tuple[bool, bool, bool]) -> None:
        features, matrix, bias = wanted
        if features:
            self.df_NH = torch.empty_like(self.f_NH)
        if matrix:
            self.dW_RH = self.W_VH.new_empty(self.words + self.spare, self.W_VH.shape[1], dtype=self.wide)
            self.dW_RH[self.words if len(self.f_NH) else 0 :] = 0.0
        if bias:
            self.db_V = self.W_VH.new_zeros(self.words, dtype=self.wide)

    def _collect(self, part: slice, dz: Tensor, scale: float) -> None:
        """Add the gradients of one piece; the products apply the scale at no cost."""
        if self.db_V is not None:
            self.db_V.add_(dz.sum(0, dtype=self.wide), alpha=scale)
        if self.df_NH is not None:
            out = self.df_NH[part]
            torch.addmm(out, dz, self.W_VH, beta=0.0, alpha=scale, out=out)
        if self.dW_RH is not None:
            total, f = self.dW_RH[: self.words], self.f_NH[part]
            keep = 1.0 if part.start else 0.0  # the content of fresh memory is ignored
            if self.dtype == self.wide:
                total.addmm_(dz.t(), f, beta=keep, alpha=scale)
            elif keep:
                total.add_(dz.t() @ f, alpha=scale)
            else:
                torch.mul(dz.t() @ f, scale, out=total)


class _SoftmaxNll(torch.autograd.Function):
    """`softmax_nll` with its gradients computed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        f_NH: Tensor,
        matrix_RH: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        counted_N: Tensor | None,
        words: int,
        chunk: int | None,
        dtype: torch.dtype,
        scale: float,
    ) -> Tensor:
        walk = _Walk(f_NH, matrix_RH, bias_V, targets_N, words, chunk, dtype)
        weights_N = None if counted_N is None else counted_N.to(dtype)
        nll_N = walk.run(ctx.needs_input_grad[:3], weights_N, scale)
        if counted_N is not None:
            nll_N.masked_fill_(~counted_N, 0.0)
        ctx.save_for_backward(f_NH, matrix_RH, bias_V, targets_N)
        ctx.counted_N = counted_N
        ctx.gradients = (walk.df_NH, walk.dW_RH, walk.db_V)
        ctx.sizes, ctx.scale = (words, chunk, dtype), scale
        return nll_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor | None, ...]:
        common = grad_N.numel() > 0 and (grad_N.numel() == 1 or grad_N.stride(0) == 0)
        if common and ctx.gradients is not None:
            # handed over, not kept: the receiver may add to them in place
            gradients, ctx.gradients = ctx.gradients, None
            if grad_N.device.type != "cpu" or float(grad_N[0]) != ctx.scale:
                factor = grad_N[0] / ctx.scale
                gradients = tuple(None if part is None else part.mul_(factor) for part in gradients)
        else:
            with torch.autocast(grad_N.device.type, enabled=False):
                walk = _Walk(*ctx.saved_tensors, *ctx.sizes)
                counted_N = ctx.counted_N
                walk.run(ctx.needs_input_grad[:3], grad_N if counted_N is None else grad_N * counted_N)
            gradients = (walk.df_NH, walk.dW_RH, walk.db_V)
        learned = ctx.saved_tensors[:3]
        typed = [None if g is None else g.to(like.dtype) for g, like in zip(gradients, learned, strict=True)]
        return (*typed, None, None, None, None, None, None)


class Softmax(nn.Module):
    """Probabilities of all words from features: softmax(W f + b), with W its own or an embedding's first V rows.

    Tied matrices: Press and Wolf 2017, Inan, Khosravi and Socher 2017. `chunk`: rows of logits at once (None chooses).

    >>> head = Softmax(4, 10)
    >>> head.nll(torch.zeros(3, 4), torch.tensor([1, 2, 9])).shape, head.log_prob(torch.zeros(3, 4)).shape
    (torch.Size([3]), torch.Size([3, 10]))
    """

    def __init__(self, features: int, words: int, *, tied: Embedding | None = None, chunk: int | None = None) -> None:
        super().__init__()
        self.features, self.words, self.chunk = features, words, chunk
        if tied is not None and tied.weight.shape[1] != features:
            raise ShapeError(
                f"the features have the size {features} and the word vectors {tied.weight.shape[1]}; "
                "expected one size for both, since they share a matrix; try tied=False"
            )
        self._tied = (tied,)  # in a tuple: a module of its own would be saved twice
        if tied is None:
            self.weight = nn.Parameter(torch.empty(words, features))
            nn.init.uniform_(self.weight, -1 / math.sqrt(features), 1 / math.sqrt(features))
        self.bias = nn.Parameter(torch.zeros(words))

    @property
    def matrix(self) -> Tensor:
        """W, [R, H]: its first V rows are the words."""
        return self.weight if self._tied[0] is None else self._tied[0].weight

    def nll(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """-log p of each target, [N]. `table_RH`: the tied matrix as `Embedding.lookup` gave it out."""
        matrix = self.matrix if table_RH is None else table_RH
        return softmax_nll(f_NH, matrix, self.bias, targets_N, self.words, self.chunk)

    def total(
        self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None, counted_N: Tensor | None = None
    ) -> Tensor:
        """The sum of `nll` over all targets, or over those that are counted; its mean is minimised."""
        matrix, mean_of = self.matrix if table_RH is None else table_RH, max(1, len(f_NH))
        nll_N = softmax_nll(
            f_NH, matrix, self.bias, targets_N, self.words, self.chunk, mean_of=mean_of, counted_N=counted_N
        )
        return nll_N.sum()

    def log_prob_of(self, f_NH: Tensor, targets_N: Tensor) -> Tensor:
        """log p of each target, [N], without gradients."""
        with torch.no_grad():
            return -self.nll(f_NH, targets_N)

    def log_prob(self, f_NH: Tensor) -> Tensor:
        """log p of every word, [N, V]."""
        return wide_log_softmax(F.linear(f_NH, self.matrix[: self.words], self.bias))

    @torch.no_grad()
    def sample(self, f_NH: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A word for each place, [N], each as often as its probability says."""
        check_places(f_NH, self.features)
        rows = rows_at_once(len(f_NH), self.words, self.chunk, f_NH.device.type)
        return torch.cat([draw(self.log_prob(piece_PH), generator) for piece_PH in torch.split(f_NH, rows)])

    def extra_repr(self) -> str:
        return f"{self.features}, {self.words}, tied={self._tied[0] is not None}"


class AdaptiveSoftmax(nn.Module):
    """Words sorted by frequency: a short list, and clusters that are evaluated only for their own words.

        p(w) = p_head(w)                               for the S words of the short list
        p(w) = p_head(cluster i) p_i(w)                for the others,  p_i = softmax(W_i P_i f)

    P_i takes the features down to H / shrink^i: rare words get few parameters (Grave et al. 2017, Efficient softmax
    approximation for GPUs). `cutoffs`: the rank at which each cluster begins. `counts`: how often each word was seen;
    without them ids are ranks.

    >>> head = AdaptiveSoftmax(8, 20, cutoffs=(5, 10))
    >>> head.log_prob(torch.zeros(1, 8)).exp().sum().round(decimals=5).item()
    1.0
    """

    rank_V: Tensor

    def __init__(
        self,
        features: int,
        words: int,
        cutoffs: Sequence[int],
        counts: Tensor | None = None,
        *,
        shrink: float = 4.0,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        if list(cutoffs) != sorted(set(cutoffs)) or (cutoffs and not 0 < cutoffs[0] <= cutoffs[-1] < words):
            raise OptionError(
                f"cutoffs are {tuple(cutoffs)}; expected rising ranks from 1 to below the {words} words; "
                f"try ({max(1, words // 20)}, {max(2, words // 4)})"
            )
        if counts is not None and len(counts) != words:
            raise ShapeError(f"there are {len(counts)} counts; expected one for each of {words} words")
        self.features, self.words, self.chunk = features, words, chunk
        self.ends = (*cutoffs, words)
        order_V = torch.arange(words) if counts is None else torch.argsort(counts, descending=True, stable=True)
        self.register_buffer("rank_V", torch.empty_like(order_V).scatter_(0, order_V, torch.arange(words)))
        self.weight = _drawn(self.ends[0] + len(cutoffs), features)
        self.bias = nn.Parameter(torch.zeros(len(self.weight)))
        narrow = [max(1, int(features / shrink ** (i + 1))) for i in range(len(cutoffs))]
        sizes = [end - begin for begin, end in zip(self.ends, self.ends[1:], strict=False)]
        self.down = nn.ParameterList(_drawn(size, features) for size in narrow)
        self.out = nn.ParameterList(_drawn(size, width) for size, width in zip(sizes, narrow, strict=True))

    def nll(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """-log p of each target, [N]; there is no matrix to share."""
        nll_N, inside = self._parts(f_NH, targets_N)
        for index, nll in inside:
            nll_N = nll_N.index_add(0, index, nll)
        return nll_N

    def total(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """The sum of `nll`, each part summed by itself, so that its gradients are computed in one pass."""
        nll_N, inside = self._parts(f_NH, targets_N, mean_of=max(1, len(f_NH)))
        return nll_N.sum() + sum(nll.sum() for _, nll in inside)

    def _parts(self, f_NH: Tensor, targets_N: Tensor, mean_of: int = 1) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """The head's nats of each token, and for each cluster its tokens and their nats inside it."""
        rank_N = self.rank_V[targets_N]
        first_N, inside = rank_N, []
        for i, (begin, end) in enumerate(zip(self.ends, self.ends[1:], strict=False)):
            meant_N = (rank_N >= begin) & (rank_N < end)
            first_N = first_N.masked_fill(meant_N, self.ends[0] + i)
            index = meant_N.nonzero().squeeze(1)
            if len(index):
                down = F.linear(pick_rows(f_NH, index), self.down[i])
                own = rank_N.index_select(0, index) - begin
                inside.append(
                    (index, softmax_nll(down, self.out[i], None, own, end - begin, self.chunk, mean_of=mean_of))
                )
        return softmax_nll(f_NH, self.weight, self.bias, first_N, len(self.weight), self.chunk, mean_of=mean_of), inside

    def log_prob_of(self, f_NH: Tensor, targets_N: Tensor) -> Tensor:
        """log p of each target, [N], without gradients."""
        with torch.no_grad():
            return -self.nll(f_NH, targets_N)

    def log_prob(self, f_NH: Tensor) -> Tensor:
        """log p of every word, [N, V]."""
        short = self.ends[0]
        head = wide_log_softmax(F.linear(f_NH, self.weight, self.bias))
        parts = [head[:, :short]]
        for i, (down, out) in enumerate(zip(self.down, self.out, strict=True)):
            inside = wide_log_softmax(F.linear(F.linear(f_NH, down), out))
            parts.append(inside + head[:, short + i : short + i + 1])
        return torch.cat(parts, dim=1).index_select(1, self.rank_V)

    @torch.no_grad()
    def sample(self, f_NH: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A word for each place, [N]: first of the short list and the clusters, then of the cluster that was drawn."""
        check_places(f_NH, self.features)
        rows = rows_at_once(len(f_NH), len(self.weight), self.chunk, f_NH.device.type)
        pieces = torch.split(f_NH, rows)
        first_N = torch.cat([draw(wide_log_softmax(F.linear(f, self.weight, self.bias)), generator) for f in pieces])
        rank_N = first_N.clone()
        for i, (down, out) in enumerate(zip(self.down, self.out, strict=True)):
            index = torch.eq(first_N, self.ends[0] + i).nonzero().squeeze(1)
            size = rows_at_once(len(index), len(out), self.chunk, f_NH.device.type)
            for part in torch.split(index, size):
                inside = wide_log_softmax(F.linear(F.linear(f_NH.index_select(0, part), down), out))
                rank_N[part] = self.ends[i] + draw(inside, generator)
        return torch.argsort(self.rank_V).index_select(0, rank_N)

    def extra_repr(self) -> str:
        return f"{self.features}, {self.words}, cutoffs={self.ends[:-1]}"


def _drawn(rows: int, columns: int) -> nn.Parameter:
    bound = 1 / math.sqrt(columns)
    return nn.Parameter(torch.empty(rows, columns).uniform_(-bound, bound))
