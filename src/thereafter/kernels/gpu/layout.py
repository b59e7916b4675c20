"""Weights and batches in the order that the programs read, and back.

Shapes: T steps, B rows filled up to P, I inputs filled up to J, H units filled up to K, G gates of the cell. Blocks:
[4, K, .], gate by gate. Slices: [K / own, 4, own, .], what one block of a launch owns lies together.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.kernels.gpu.four_blocks import Places


def in_blocks(weight: Tensor, places: Places, units: int, filled: int, columns: int) -> Tensor:
    """A cell's matrix [G H, I] as [4, K, J]; empty blocks, rows and columns are 0."""
    gates = weight.view(-1, units, weight.shape[1])
    blocks = weight.new_zeros(4, filled, columns)
    for place, gate in enumerate(places):
        if gate is not None:
            blocks[place, :units, : weight.shape[1]] = gates[gate]
    return blocks


def from_blocks(blocks: Tensor, places: Places, units: int, columns: int) -> Tensor:
    """The way back, [4, K, J] to [G H, I]."""
    order = sorted((gate, place) for place, gate in enumerate(places) if gate is not None)
    return torch.cat([blocks[place, :units, :columns] for _, place in order])


def in_slices(blocks: Tensor, own: int) -> Tensor:
    """[4, K, J] as [4 K, J], slice by slice."""
    units, columns = blocks.shape[1:]
    return blocks.view(4, units // own, own, columns).transpose(0, 1).reshape(4 * units, columns)


def turned(blocks: Tensor) -> Tensor:
    """[4, K, K] as the transposed matrix [K, 4 K]."""
    return blocks.flatten(0, 1).t().contiguous()


def filled(array: Tensor, rows: int, columns: int) -> Tensor:
    """An array with its last two axes filled up with zeros to these sizes; contiguous."""
    *more, given_rows, given_columns = array.shape
    if (given_rows, given_columns) == (rows, columns):
        return array.contiguous()
    wide = array.new_zeros(*more, rows, columns)
    wide[..., :given_rows, :given_columns] = array
    return wide
