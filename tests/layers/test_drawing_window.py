"""Windows of Gaussian filters against sums written out pixel by pixel, and random numbers that belong to a picture."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError
from thereafter.layers.dropout import content_keys, normal_by_key, uniform_by_key
from thereafter.vision.drawing.network import WindowGrid, read_window, write_window

HEIGHT, WIDTH = 5, 7
SIDES = (2, 3)


def numbers(rows: int = 2, seed: int = 0) -> Tensor:
    """Five numbers for each of two windows, near the middle of the picture."""
    drawn = torch.randn(rows, 2, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn * torch.tensor([0.4, 0.4, 0.6, 0.3, 0.5]) - torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0])


def written_out(given_5: Tensor, side: int) -> tuple[list[list[float]], list[list[float]], float]:
    """F_y, F_x and the intensity by the paper's equations 22 to 26, its pixels counted from 1."""
    across, along, log_variance, log_stride, log_intensity = given_5[[1, 0, 2, 3, 4]].tolist()
    variance, intensity = math.exp(log_variance), math.exp(log_intensity)
    stride = (max(HEIGHT, WIDTH) - 1) / (side - 1) * math.exp(log_stride)

    def bank(centre: float, pixels: int) -> list[list[float]]:
        rows = []
        for i in range(1, side + 1):
            mean = centre + (i - side / 2 - 0.5) * stride
            row = [math.exp(-((a - mean) ** 2) / (2 * variance)) for a in range(1, pixels + 1)]
            rows.append([one / sum(row) for one in row])
        return rows

    return bank((HEIGHT + 1) / 2 * (along + 1), HEIGHT), bank((WIDTH + 1) / 2 * (across + 1), WIDTH), intensity


def test_reading_and_writing_are_the_sums_of_the_paper() -> None:
    torch.manual_seed(1)
    grid, given = WindowGrid(SIDES, height=HEIGHT, width=WIDTH), numbers()
    x, canvas = (torch.randn(2, HEIGHT, 3, WIDTH, dtype=torch.float64) for _ in range(2))
    patch = torch.randn(2, 3, 3, 3, dtype=torch.float64)
    windows = grid.place(given)
    filters = grid.filters(windows)
    seen = read_window(x, *grid.by_window(filters)[0]) * windows.intensity_BV[:, :1, None, None]
    drawn = write_window(canvas, patch / windows.intensity_BV[:, 1:, None, None], *grid.by_window(filters)[1])
    for row in range(2):
        f_y, f_x, intensity = written_out(given[row, 0], 2)
        for i in range(2):
            for j in range(2):
                for channel in range(3):
                    total = sum(
                        f_y[i][h] * float(x[row, h, channel, w]) * f_x[j][w]
                        for h in range(HEIGHT)
                        for w in range(WIDTH)
                    )
                    assert float(seen[row, i, channel, j]) == pytest.approx(intensity * total, rel=1e-9, abs=1e-12)
        f_y, f_x, intensity = written_out(given[row, 1], 3)
        for h in range(HEIGHT):
            for w in range(WIDTH):
                total = sum(f_y[i][h] * float(patch[row, i, 1, j]) * f_x[j][w] for i in range(3) for j in range(3))
                added = float(drawn[row, h, 1, w] - canvas[row, h, 1, w])
                assert added == pytest.approx(total / intensity, rel=1e-9, abs=1e-12)


def test_windows_have_right_gradients() -> None:
    grid = WindowGrid(SIDES, height=HEIGHT, width=WIDTH)

    def both(given: Tensor, x: Tensor, patch: Tensor) -> tuple[Tensor, Tensor]:
        windows = grid.place(given)
        filters = grid.filters(windows)
        seen = read_window(x, *grid.by_window(filters)[0])
        patch = patch / windows.intensity_BV[:, 1:, None, None]
        drawn = write_window(x, patch, *grid.by_window(filters)[1])
        return seen * windows.intensity_BV[:, :1, None, None], drawn

    torch.manual_seed(2)
    x, patch = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, HEIGHT, 2, WIDTH), (2, 3, 2, 3)))
    assert torch.autograd.gradcheck(both, (numbers().requires_grad_(), x.requires_grad_(), patch.requires_grad_()))


def test_a_filter_sums_to_one_wherever_the_window_is() -> None:
    grid = WindowGrid((3, 1), height=6, width=4)
    for far in (0.0, 50.0, -1e4):
        for log in (0.0, -80.0, 80.0):
            filters = grid.filters(grid.place(torch.full((1, 2, 5), far).index_fill(2, torch.tensor([2, 3]), log)))
            for window in (0, 1):
                for bank in grid.by_window(filters)[window]:
                    torch.testing.assert_close(bank.sum(-1), torch.ones(bank.shape[:2]))


def test_a_narrow_window_of_the_pixels_own_stride_copies_the_picture() -> None:
    grid = WindowGrid((6,), height=6, width=6)
    given = torch.tensor([[[0.0, 0.0, -9.0, 0.0, 0.0]]])  # stride (6 - 1) / (6 - 1): a place for every pixel
    filters = grid.filters(grid.place(given))
    x = torch.rand(1, 6, 1, 6)
    torch.testing.assert_close(read_window(x, *grid.by_window(filters)[0]), x)
    black = torch.zeros_like(x)
    torch.testing.assert_close(write_window(black, x, *grid.by_window(filters)[0]), x)


def test_windows_of_no_places_are_refused() -> None:
    with assert_refused(OptionError, 1):
        WindowGrid((0, 3), height=5, width=5)
    with assert_refused(ShapeError, "[B, 2, 5]"):
        WindowGrid(SIDES, height=5, width=5).place(torch.zeros(1, 1, 5))


def test_noise_of_a_picture_is_splitmix_and_its_own() -> None:
    key = 12_345
    ours = uniform_by_key(torch.tensor([key]), 6)[0].numpy()
    theirs = _splitmix(key, 6)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2.0**-51)
    pictures = torch.randint(0, 256, (50, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    keys = content_keys(pictures, 7)
    assert len(set(keys.tolist())) == 50
    assert torch.equal(content_keys(pictures[[4, 9]], 7), keys[[4, 9]])
    assert not set(keys.tolist()) & set(content_keys(pictures, 8).tolist())
    swapped = pictures[:1].flip(1)
    assert content_keys(swapped, 7).item() != keys[0].item()


def _splitmix(key: int, count: int) -> list[float]:
    """The same in Python's whole numbers."""
    made = []
    for place in range(1, count + 1):
        state = (key + place * 0x9E3779B97F4A7C15) % 2**64
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
        made.append((state ^ (state >> 31)) / 2**64)
    return made


def test_noise_of_many_pictures_is_uniform_and_normal() -> None:
    keys = content_keys(torch.arange(200, dtype=torch.uint8)[:, None].expand(-1, 3), 0)
    u, z = uniform_by_key(keys, 100).numpy(), normal_by_key(keys, 100, skip=100).numpy()
    assert np.abs(np.histogram(u, 10, (0, 1))[0] - 2_000).max() < 4 * math.sqrt(2_000)
    assert abs(z.mean()) < 4 / math.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * math.sqrt(2 / z.size)
    assert abs(np.corrcoef(z[:-1].ravel(), z[1:].ravel())[0, 1]) < 4 / math.sqrt(z.size)
    assert 2.5 < np.abs(z).max() < 6


def test_fresh_windows_see_what_stands_in_the_middle() -> None:
    grid = WindowGrid((2, 5), height=28, width=28)
    picture = torch.zeros(1, 28, 1, 28)
    picture[:, 8:20, :, 8:20] = 1.0
    seen = {}
    for name, numbers in (("first", grid.first()), ("zeros", torch.zeros(2, 5))):
        filters = grid.by_window(grid.filters(grid.place(numbers[None])))
        seen[name] = read_window(picture, *filters[0])
    assert float(seen["first"].min()) > 0.2
    assert float(seen["zeros"].max()) < 1e-6  # the four corners
    windows = grid.place(grid.first()[None])
    torch.testing.assert_close(windows.deviation_BV, windows.stride_BV / 2)
