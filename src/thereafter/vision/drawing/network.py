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
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells.base import State
from thereafter.errors import OptionError
from thereafter.kernels.scan import unroll
from thereafter.layers.dropout import content_keys, normal_by_key, uniform_by_key
from thereafter.layers.recurrent import Recurrent
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.models.task_net import TaskNet
from thereafter.series.forecasters.settings import cells
from thereafter.tasks.batching import TensorBatch
from thereafter.vision.drawing.window import NUMBERS, PlacedWindows, WindowGrid, read_window, write_window

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


class Drawer(TaskNet[DrawingBatch]):
    """See the module's equations. `mean`: the intensity of each channel, 0 to 1, that a fresh canvas has."""

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
