"""A network that draws: it puts a picture on a canvas stroke by stroke, and scores pictures by how it would draw them.

DRAW (Gregor, Danihelka, Graves, Rezende and Wierstra 2015), for t = 1 ... T strokes:

    x'_t = x - sigmoid(c_{t-1})                        what is still missing
    r_t  = read(x, x'_t) through a window that h_{t-1}^dec places; without attention, both pictures whole
    h_t^enc = cell_enc([r_t, h_{t-1}^dec], h_{t-1}^enc)
    z_t  ~ Normal(mu_t, sigma_t^2),      [mu_t; log sigma_t] = W h_t^enc
    h_t^dec = cell_dec(z_t, h_{t-1}^dec)
    c_t  = c_{t-1} + write(h_t^dec)                    a patch through a second window; without attention W h_t^dec
    x    ~ Bernoulli(sigmoid(c_T))

The loss of a picture is a bound on -log p(x), in nats: with one draw of z,

    -log p(x | z) + sum over t of KL_t,      KL_t = 1/2 sum (mu_t^2 + sigma_t^2 - log sigma_t^2 - 1)

Pixels are drawn: a pixel of intensity v is 1 with probability v. While training it is drawn anew each time; else
pixels and z are those that belong to the picture (`layers/dropout.py`), so that a figure repeats to the bit. A
picture from the prior has z_t ~ Normal(0, 1) and no encoder.

Both windows of a step and the patch are one product of h^dec, and x and x' are read together. Shapes: B pictures, T
strokes, H rows, C channels, W columns, N places of a window, Z latent numbers, U units, M numbers made of h^dec.

A window is a small grid of Gaussian filters over a picture, through which a network reads it or draws on it. It is
five numbers that a network gives: how far its centre is from the middle, the logarithms of its variance, its stride and
its intensity (Gregor et al. 2015, DRAW, equations 19 to 29; rows and columns counted from 0 here). Over H rows and W
columns a grid of N x N places has

    g_y = (H - 1) / 2 + (H + 1) / 2 a_y              g_x = (W - 1) / 2 + (W + 1) / 2 a_x
    d   = (max(H, W) - 1) / (N - 1) exp(log d')      m_y[i] = g_y + (i - (N - 1) / 2) d,     i = 0 ... N - 1
    F_y[i, h] = exp(-(h - m_y[i])^2 / (2 s^2)) / sum over h,        F_x likewise
    read(x)  = k F_y x F_x'                          write(w) = (1 / k) F_y' w F_x

with stride d, variance s^2 and intensity k. The sum over h makes F a softmax, which stays defined where a window lies
far outside of the picture or is narrower than a pixel: then it is the nearest pixel.

Shapes: B pictures, V windows, N places on the side of a grid (of all windows the most), H rows of pixels, C channels, W
columns, P = max(H, W). Pictures are [B, H, C, W], so that both products of a reading are plain ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells.base import State
from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.scan import unroll
from thereafter.layers.dropout import content_keys, normal_by_key, uniform_by_key
from thereafter.layers.recurrent import Recurrent
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.models.task_net import TaskNet
from thereafter.series.forecasters.settings import cells
from thereafter.tasks.batching import TensorBatch
from thereafter.tasks.graphs import Ungraphed

NUMBERS = 5
"""What a network gives for a window: a_y, a_x, log s^2, log d', log k."""
_COVERED = 0.5  # of a picture's side by a window to begin with
_LARGEST = 12.0  # of a logarithm, above and below 0: beyond, float32 would have 0 or infinity


@dataclass(frozen=True)
class PlacedWindows:
    """Where windows are, in pixels from the middle of the first one: centres (row, column), stride, deviation of the
    filters, and intensity."""

    centre_BV2: Tensor
    stride_BV: Tensor
    deviation_BV: Tensor
    intensity_BV: Tensor


class WindowGrid:
    """Windows over pictures of one size; `sides`: the N of each.

    >>> grid = WindowGrid((2, 5), height=28, width=28)
    >>> windows = grid.place(torch.zeros(1, 2, 5))
    >>> windows.centre_BV2[0, 0].tolist(), windows.stride_BV[0].tolist()
    ([13.5, 13.5], [27.0, 6.75])
    >>> grid.filters(windows).shape
    torch.Size([1, 2, 2, 5, 28])
    """

    def __init__(self, sides: Sequence[int], *, height: int, width: int) -> None:
        if not sides or min(sides) < 1 or min(height, width) < 1:
            raise OptionError(
                f"windows of {list(sides)} places over {height} x {width} pixels; expected 1 or more each"
            )
        self.sides, self.height, self.width = tuple(sides), height, width
        self._constants: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    def place(self, numbers_BV5: Tensor) -> PlacedWindows:
        """The windows that a network asks for."""
        if numbers_BV5.shape[1:] != (len(self.sides), NUMBERS):
            raise ShapeError(f"windows are {tuple(numbers_BV5.shape)}; expected [B, {len(self.sides)}, {NUMBERS}]")
        middle_2, half_2, stride_V, *_ = self._on(numbers_BV5)
        place_BV2, logarithms_BV3 = numbers_BV5.split_with_sizes((2, 3), -1)
        variance_BV, stride_BV, intensity_BV = logarithms_BV3.clamp(-_LARGEST, _LARGEST).exp().unbind(-1)
        centre_BV2 = torch.addcmul(middle_2, place_BV2, half_2)
        return PlacedWindows(centre_BV2, stride_V * stride_BV, variance_BV.sqrt(), intensity_BV)

    def first(self) -> Tensor:
        """Numbers [V, 5] to begin with: windows over the middle half of a picture, whose filters overlap.

        Numbers of 0 would put a window's outer places at the corners of the picture, with filters of one pixel: a
        window of 2 x 2 then sees black alone, and a network learns nothing from it for thousands of steps.
        """
        widest = max(self.height, self.width) - 1
        strides = [max(1.0, _COVERED * widest / max(1, side - 1)) for side in self.sides]
        return torch.tensor([[0.0, 0.0, 2 * math.log(one / 2), math.log(_COVERED), 0.0] for one in strides])

    def filters(self, windows: PlacedWindows) -> Tensor:
        """F of every window, [B, V, 2, N, P]: of rows, then of columns. What lies beyond N or P of its own means
        nothing: see `by_window`."""
        _, _, _, offset_VN, beyond_2P, pixel_P = self._on(windows.stride_BV)
        middle_BVN = windows.stride_BV.unsqueeze(-1) * offset_VN
        places_BV2N = windows.centre_BV2.unsqueeze(-1) + middle_BVN.unsqueeze(2)
        sharpness_BV = windows.deviation_BV.square().mul(2).reciprocal()
        away_BV2NP = (pixel_P - places_BV2N.unsqueeze(-1)).square()
        return torch.softmax(beyond_2P.unsqueeze(1) - away_BV2NP * sharpness_BV[..., None, None, None], -1)

    def by_window(self, filters_BV2NP: Tensor) -> list[tuple[Tensor, Tensor]]:
        """F_y [B, N, H] and F_x [B, N, W] of every window.

        Cut all at once: each cut of its own would be a tensor of zeros and a sum in the backward pass.
        """
        cut, sizes = filters_BV2NP.flatten(1, 2).unbind(1), (self.height, self.width)
        return [
            (_first(cut[2 * window], side, sizes[0]), _first(cut[2 * window + 1], side, sizes[1]))
            for window, side in enumerate(self.sides)
        ]

    def _on(self, like: Tensor) -> tuple[Tensor, ...]:
        """What depends on the sizes alone, made once for a device."""
        key = (like.device, like.dtype)
        if key not in self._constants:
            most, longest = max(self.sides), max(self.height, self.width)
            sizes_2 = torch.tensor([self.height, self.width])
            pixel_P = torch.arange(longest)
            beyond_2P = torch.where(pixel_P < sizes_2[:, None], 0.0, -torch.inf)
            stride_V = torch.tensor([(longest - 1) / max(1, side - 1) for side in self.sides], dtype=torch.float64)
            offset_VN = torch.arange(most) - (torch.tensor(self.sides)[:, None] - 1) / 2
            made = ((sizes_2 - 1) / 2, (sizes_2 + 1) / 2, stride_V, offset_VN, beyond_2P, pixel_P)
            with torch.inference_mode(False):  # they serve later steps with gradients
                self._constants[key] = tuple(one.clone().to(like.device, like.dtype) for one in made)
        return self._constants[key]


def _first(filter_BNP: Tensor, side: int, pixels: int) -> Tensor:
    """The first places and pixels; the tensor itself where that is all of it."""
    return filter_BNP if filter_BNP.shape[1:] == (side, pixels) else filter_BNP[:, :side, :pixels]


def read_window(x_BHCW: Tensor, rows_BNH: Tensor, columns_BNW: Tensor) -> Tensor:
    """F_y x F_x' of every channel, [B, N, C, N]."""
    batch, side, (channels, width) = len(x_BHCW), rows_BNH.shape[1], x_BHCW.shape[2:]
    seen = torch.bmm(rows_BNH, x_BHCW.reshape(batch, -1, channels * width))
    seen = torch.bmm(seen.view(batch, side * channels, width), columns_BNW.transpose(1, 2))
    return seen.view(batch, side, channels, side)


def write_window(canvas_BHCW: Tensor, patch_BNCN: Tensor, rows_BNH: Tensor, columns_BNW: Tensor) -> Tensor:
    """The canvas with F_y' w F_x added to every channel."""
    batch, height, channels, width = canvas_BHCW.shape
    side = rows_BNH.shape[1]
    spread = torch.bmm(rows_BNH.transpose(1, 2), patch_BNCN.reshape(batch, side, channels * side))
    flat = canvas_BHCW.reshape(batch, height * channels, width)
    return torch.baddbmm(flat, spread.view(batch, height * channels, side), columns_BNW).view_as(canvas_BHCW)


DRAW, PIXELS = "draw", "pixels"
DRAW_MODELS = (DRAW, PIXELS)
SEED = 20_261_117
"""Of the pixels and the z that belong to a picture."""
_LEAST, _MOST = 0.01, 0.99  # of the mean intensity that a fresh canvas begins with
_CALM = 0.3  # of the usual size: fresh windows hardly move
_READ, _WRITE = 0, 1  # the windows of a stroke


@dataclass(frozen=True)
class DrawerSettings:
    """Sizes of a network that draws."""

    model: str = DRAW
    """The kind of network: "draw", stroke by stroke, or "pixels", every pixel by itself."""
    cell: str = "lstm"
    """The kind of encoder and decoder, each one layer: `cells()`."""
    hidden: int = 256
    """Units of encoder and decoder each."""
    latent: int = 100
    """Numbers z of a stroke."""
    strokes: int = 32
    """How often the canvas is written on."""
    attend: bool = True
    """Whether it reads and writes through windows; else whole pictures."""
    read: int = 2
    """Places on the side of the window that is read."""
    write: int = 5
    """Places on the side of the window that is written."""
    dropout: float = 0.0
    """The share of what both layers read that is dropped while training."""
    size: int = 0
    """Pixels on the side of a picture (0: as they are)."""

    def __post_init__(self) -> None:
        check_choice("model", self.model, DRAW_MODELS)
        check_choice("cell", self.cell, tuple(cells()))
        for name in ("hidden", "latent", "strokes", "read", "write"):
            check_size(name, vars(self)[name])
        check_share("dropout", self.dropout)


@dataclass(frozen=True)
class DrawingBatch(TensorBatch):
    """Pictures as bytes."""

    pixels_BCHW: Tensor


class Bound(NamedTuple):
    """The two parts of the bound of every picture, in nats: of the pixels [B], and of z by stroke [B, T]."""

    pixels_B: Tensor
    latent_BT: Tensor


class _Windows(NamedTuple):
    """The windows of a stroke, and of each of them the filters of rows and columns and the intensity [B, 1]."""

    placed: PlacedWindows
    filters: list[tuple[Tensor, Tensor]]
    intensities: tuple[Tensor, ...]


@dataclass
class Strokes:
    """What happened stroke by stroke, where somebody asked: canvases [B, H, C, W], windows; of encoder and decoder
    states and gates by name, [B, U]."""

    canvases: list[Tensor] = field(default_factory=list)
    windows: list[PlacedWindows] = field(default_factory=list)
    layers: dict[str, dict[str, list[Tensor]]] = field(default_factory=dict)


class Drawer(Ungraphed, TaskNet[DrawingBatch]):
    """See the module's equations. `mean`: the intensity of each channel, 0 to 1, that a fresh canvas has."""

    no_graph = "it draws with windows that it moves itself, a loop that no graph is written of"

    def __init__(
        self, settings: DrawerSettings, *, height: int, width: int, channels: int = 1, mean: tuple[float, ...] = ()
    ) -> None:
        super().__init__()
        self.settings, self.shape = settings, (height, channels, width)
        self.grid = WindowGrid((settings.read, settings.write), height=height, width=width)
        pixels, units = height * channels * width, settings.hidden
        seen = 2 * (channels * settings.read**2 if settings.attend else pixels)
        made = 2 * NUMBERS + channels * settings.write**2 if settings.attend else pixels
        self.encoder = _layer(settings.cell, seen + units, units)
        self.decoder = _layer(settings.cell, settings.latent, units)
        self.posterior = nn.Linear(units, 2 * settings.latent)
        self.writer = nn.Linear(units, made)
        if settings.attend:
            with torch.no_grad():
                self.writer.bias[: 2 * NUMBERS] = self.grid.first().flatten()
                self.writer.weight[: 2 * NUMBERS] *= _CALM
        middle_C = torch.tensor(mean or (0.5,) * channels).clamp(_LEAST, _MOST).logit()
        self.canvas = nn.Parameter(middle_C[:, None].repeat(height, 1, width))

    def nats(self, batch: DrawingBatch) -> Tensor:
        pixels_B, latent_BT = self.bound(batch)
        return pixels_B.sum() + latent_BT.sum()

    def bound(self, batch: DrawingBatch) -> Bound:
        """What the pictures of a batch cost: pixels, and z by stroke."""
        return self.draw_again(batch)[0]

    def draw_again(self, batch: DrawingBatch, seen: Strokes | None = None) -> tuple[Bound, Tensor]:
        """The bound of every picture, and the log odds of its pixels after the last stroke, [B, H, C, W]."""
        x_BHCW, noise_BTZ = self.drawn(batch)
        canvas_BHCW, mean_BTZ, log_BTZ = self.strokes(x_BHCW, noise_BTZ, seen)
        z_BHCW = _full(canvas_BHCW)
        nats_BHCW = F.binary_cross_entropy_with_logits(z_BHCW, x_BHCW.to(z_BHCW.dtype), reduction="none")
        return Bound(nats_BHCW.sum((1, 2, 3)), gaussian_kl(mean_BTZ, log_BTZ)), z_BHCW

    def sample(self, count: int, seed: int = 0, seen: Strokes | None = None) -> Tensor:
        """Pictures from the prior: the chance of every pixel to be lit, [count, C, H, W]. Picture k of a seed is the
        same however many are asked for."""
        if count < 1:
            raise OptionError(f"{count} pictures are asked for; expected at least 1")
        settings = self.settings
        with self.quietly():
            numbers_B1 = torch.arange(count, device=self.device)[:, None]
            keys_B = content_keys((numbers_B1 >> torch.arange(0, 32, 8, device=self.device)).to(torch.uint8), seed)
            noise_BTZ = normal_by_key(keys_B, settings.strokes * settings.latent).to(self.canvas.dtype)
            made = self.strokes(None, noise_BTZ.view(count, settings.strokes, settings.latent), seen)
            return made[0].float().sigmoid().transpose(1, 2)

    def drawn(self, batch: DrawingBatch) -> tuple[Tensor, Tensor]:
        """The pixels of pictures, 0 or 1, and the noise of z: new while training, else their own."""
        x_BCHW, settings = drawn_pixels(batch, self.canvas, anew=self.training), self.settings
        rows, numbers = len(x_BCHW), settings.strokes * settings.latent
        if self.training:
            noise_BN = torch.randn(rows, numbers, device=x_BCHW.device, dtype=x_BCHW.dtype)
        else:
            keys_B = content_keys(batch.pixels_BCHW.flatten(1), SEED)
            noise_BN = normal_by_key(keys_B, numbers, skip=x_BCHW[0].numel()).to(x_BCHW.dtype)
        return x_BCHW.transpose(1, 2).contiguous(), noise_BN.view(rows, settings.strokes, settings.latent)

    def strokes(self, x_BHCW: Tensor | None, noise_BTZ: Tensor, seen: Strokes | None) -> tuple[Tensor, Tensor, Tensor]:
        """The last canvas, mu and log sigma of every stroke; without a picture z is the noise itself."""
        rows, share = len(noise_BTZ), self.settings.dropout
        encoder, decoder = (OneStep(one, noise_BTZ, record=seen is not None) for one in (self.encoder, self.decoder))
        canvas_BHCW = self.canvas.expand(rows, *self.shape)
        windows, _ = self._windows(self.writer.bias.expand(rows, -1))  # before the first stroke h^dec is 0
        means, logs = [], []
        for noise_BZ in noise_BTZ.unbind(1):
            z_BZ = noise_BZ
            if x_BHCW is not None:
                read_BI = self._read(x_BHCW, canvas_BHCW, windows)
                given_BI = F.dropout(torch.cat((read_BI, decoder.h_BU), -1), share, self.training)
                mean_BZ, log_BZ = self.posterior(encoder(given_BI)).chunk(2, -1)
                z_BZ = torch.addcmul(mean_BZ, log_BZ.exp(), noise_BZ)
                means.append(mean_BZ)
                logs.append(log_BZ)
            made_BM = self.writer(decoder(F.dropout(z_BZ, share, self.training)))
            before, (windows, written_BM) = windows, self._windows(made_BM)
            canvas_BHCW = self._write(canvas_BHCW, written_BM, windows)
            if seen is not None:
                seen.canvases.append(canvas_BHCW)
                seen.windows += [] if windows is None or before is None else [_joined(before.placed, windows.placed)]
        if seen is not None:
            seen.layers = {"encoder": encoder.records, "decoder": decoder.records}
        if x_BHCW is None:
            return canvas_BHCW, torch.zeros_like(noise_BTZ), torch.zeros_like(noise_BTZ)
        return canvas_BHCW, torch.stack(means, 1), torch.stack(logs, 1)

    def _windows(self, made_BM: Tensor) -> tuple[_Windows | None, Tensor]:
        """The window that is written through and that through which the next stroke reads, and what is written."""
        if not self.settings.attend:
            return None, made_BM
        numbers_BN, patch_BM = made_BM.split_with_sizes((2 * NUMBERS, made_BM.shape[1] - 2 * NUMBERS), -1)
        placed = self.grid.place(numbers_BN.view(-1, 2, NUMBERS))
        filters = self.grid.by_window(self.grid.filters(placed))
        return _Windows(placed, filters, placed.intensity_BV.unsqueeze(-1).unbind(1)), patch_BM

    def _read(self, x_BHCW: Tensor, canvas_BHCW: Tensor, windows: _Windows | None) -> Tensor:
        both = torch.cat((x_BHCW, x_BHCW - canvas_BHCW.sigmoid()), 2)
        if windows is None:
            return both.flatten(1)
        return read_window(both, *windows.filters[_READ]).flatten(1) * windows.intensities[_READ]

    def _write(self, canvas_BHCW: Tensor, written_BM: Tensor, windows: _Windows | None) -> Tensor:
        if windows is None:
            return canvas_BHCW + written_BM.view(-1, *self.shape)
        side, channels = self.settings.write, self.shape[1]
        patch_BM = written_BM / windows.intensities[_WRITE]
        return write_window(canvas_BHCW, patch_BM.view(-1, side, channels, side), *windows.filters[_WRITE])


def drawn_pixels(batch: DrawingBatch, like: Tensor, *, anew: bool) -> Tensor:
    """Pixels 0 or 1, [B, C, H, W]: 1 with the intensity as its chance, anew or as belongs to the picture."""
    pixels_BCHW = batch.pixels_BCHW
    if anew:
        v_BCHW = pixels_BCHW.to(like.dtype) / 255
        return (torch.rand_like(v_BCHW) < v_BCHW).to(like.dtype)
    flat_BP = pixels_BCHW.flatten(1)
    lit_BP = uniform_by_key(content_keys(flat_BP, SEED), flat_BP.shape[1]) < flat_BP.double() / 255
    return lit_BP.to(like.dtype).view(pixels_BCHW.shape)


def gaussian_kl(mean_BTZ: Tensor, log_BTZ: Tensor) -> Tensor:
    """KL(Normal(mu, sigma^2) || Normal(0, 1)) in nats, summed over the last axis; `log_BTZ` is log sigma."""
    mean_BTZ, log_BTZ = _full(mean_BTZ), _full(log_BTZ)
    return 0.5 * (mean_BTZ.square() + torch.expm1(2 * log_BTZ) - 2 * log_BTZ).sum(-1)


def _full(x: Tensor) -> Tensor:
    """In float32 at least."""
    return x if x.dtype == torch.float64 else x.float()


def _joined(before: PlacedWindows, after: PlacedWindows) -> PlacedWindows:
    """The windows of one stroke: that it read through was placed by the stroke before."""
    pairs = ((vars(before)[name], vars(after)[name]) for name in vars(before))
    return PlacedWindows(*(torch.cat((one[:, _READ, None], other[:, _WRITE, None]), 1) for one, other in pairs))


def _layer(cell: str, inputs: int, units: int) -> Recurrent:
    return Recurrent(cells()[cell], inputs, units, batch_first=True)


# A recurrent layer whose input depends on its own output before: one step at a time, with gradients.
#
# `layers/stream.py` steps without them, in place. Shapes: B rows, I inputs, U outputs.


class OneStep:
    """A stack of one layer and one direction, from the state of zeros on; `like` has B rows, its type and its device.

    `h_BU`: the output of the last step. `records`: with `record`, gates and states of every step by name.

    >>> import torch
    >>> layer = OneStep(Recurrent("lstm", 3, 2), torch.zeros(4, 3))
    >>> layer(torch.ones(4, 3)).shape, layer.h_BU.shape
    (torch.Size([4, 2]), torch.Size([4, 2]))
    """

    def __init__(self, stack: Recurrent, like: Tensor, *, record: bool = False) -> None:
        if len(stack.lanes) != 1:
            raise OptionError(f"the stack has {len(stack.lanes)} layers and directions; expected one")
        (lane,) = stack.lanes
        self._cell, self._weights, self._record = lane.cell, stack.lane_weights(lane), record
        self._state: State = lane.cell.zero_state(len(like), like)
        self.h_BU = self._state.h
        self.records: dict[str, list[Tensor]] = {}

    def __call__(self, x_BI: Tensor) -> Tensor:
        result = unroll(self._cell, x_BI.unsqueeze(1), self._state, self._weights, record=self._record)
        self._state, self.h_BU = result.state, result.y_BTO[:, 0]
        for name, array_BTU in (result.record or {}).items():
            self.records.setdefault(name, []).append(array_BTU[:, 0])
        return self.h_BU
