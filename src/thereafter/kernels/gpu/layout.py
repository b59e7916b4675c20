"""Weights and batches in the order that the programs read, and back: as plain torch, the twin of `copying`.

Shapes: T steps, B rows filled up to P, I inputs filled up to J, H units filled up to K, G gates of the cell. Blocks:
[4, K, .], gate by gate. Slices: [K / own, 4, own, .], what one block of a launch owns lies together.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from thereafter.kernels.gpu.four_blocks import Places


class FilledUnits(NamedTuple):
    """A cell's `units` and the number they are filled up to; and where its gates stand among four blocks."""

    units: int
    to: int
    places: Places


class Copies(Protocol):
    """Ways of bringing arrays into order. Where an array lies as it is wanted, it is returned itself."""

    def blocks(self, weight: Tensor, how: FilledUnits, columns: int, kind: torch.dtype) -> Tensor:
        """A cell's matrix [G H, I] as [4 K, J]; empty blocks, rows and columns are 0."""

    def slices(self, weight: Tensor, how: FilledUnits, columns: int, own: int, kind: torch.dtype) -> Tensor:
        """The same slice by slice, [4 K, J]."""

    def turned(self, weight: Tensor, how: FilledUnits, kind: torch.dtype) -> Tensor:
        """A recurrent matrix [G H, H] transposed, [K, 4 K]."""

    def gates(self, blocks: Tensor, how: FilledUnits, columns: int, kind: torch.dtype) -> Tensor:
        """[4 K, J] back to [G H, I]."""

    def rows(self, array_TBI: Tensor, rows: int, columns: int, kind: torch.dtype) -> Tensor:
        """[T, B, I] as [T, P, J]."""

    def first(self, state_BH: Tensor, into_PK: Tensor) -> None:
        """A state into the place of a step, filled up."""

    def sliced_columns(self, array_TBG: Tensor, how: FilledUnits, rows: int, own: int) -> Tensor:
        """Numbers of all gates [T, B, G H] as [T, P, S, 4, own]."""

    def gate_columns(self, blocks_TP4K: Tensor, how: FilledUnits, rows: int) -> Tensor:
        """The way back from blocks: [T, P, 4, K] to [T, B, G H]."""


class PlainCopies:
    """By torch's own operators, on any device."""

    def blocks(self, weight: Tensor, how: FilledUnits, columns: int, kind: torch.dtype) -> Tensor:
        return in_blocks(weight.to(kind), how.places, how.units, how.to, columns).flatten(0, 1)

    def slices(self, weight: Tensor, how: FilledUnits, columns: int, own: int, kind: torch.dtype) -> Tensor:
        return in_slices(in_blocks(weight.to(kind), how.places, how.units, how.to, columns), own)

    def turned(self, weight: Tensor, how: FilledUnits, kind: torch.dtype) -> Tensor:
        return turned(in_blocks(weight.to(kind), how.places, how.units, how.to, how.to))

    def gates(self, blocks: Tensor, how: FilledUnits, columns: int, kind: torch.dtype) -> Tensor:
        return from_blocks(blocks.view(4, how.to, -1), how.places, how.units, columns).to(kind)

    def rows(self, array_TBI: Tensor, rows: int, columns: int, kind: torch.dtype) -> Tensor:
        return filled(array_TBI.to(kind), rows, columns)

    def first(self, state_BH: Tensor, into_PK: Tensor) -> None:
        into_PK.copy_(filled(state_BH, *into_PK.shape))

    def sliced_columns(self, array_TBG: Tensor, how: FilledUnits, rows: int, own: int) -> Tensor:
        steps, batch, _ = array_TBG.shape
        gates = array_TBG.reshape(steps, batch, -1, how.units)
        blocks = array_TBG.new_zeros(steps, rows, 4, how.to)
        for place, gate in enumerate(how.places):
            if gate is not None:
                blocks[:, :batch, place, : how.units] = gates[:, :, gate]
        return blocks.view(steps, rows, 4, how.to // own, own).transpose(2, 3).contiguous()

    def gate_columns(self, blocks_TP4K: Tensor, how: FilledUnits, rows: int) -> Tensor:
        return blocks_TP4K[:, :rows, order(how.places), : how.units].flatten(2)


def in_blocks(weight: Tensor, places: Places, units: int, to: int, columns: int) -> Tensor:
    """A cell's matrix [G H, I] as [4, K, J]; empty blocks, rows and columns are 0."""
    gates = weight.reshape(-1, units, weight.shape[1])
    blocks = weight.new_zeros(4, to, columns)
    for place, gate in enumerate(places):
        if gate is not None:
            blocks[place, :units, : weight.shape[1]] = gates[gate]
    return blocks


def from_blocks(blocks: Tensor, places: Places, units: int, columns: int) -> Tensor:
    """The way back, [4, K, J] to [G H, I]."""
    return torch.cat([blocks[place, :units, :columns] for place in order(places)])


def in_slices(blocks: Tensor, own: int) -> Tensor:
    """[4, K, J] as [4 K, J], slice by slice."""
    units, columns = blocks.shape[1:]
    return blocks.view(4, units // own, own, columns).transpose(0, 1).reshape(4 * units, columns)


def turned(blocks: Tensor) -> Tensor:
    """[4, K, K] as the transposed matrix [K, 4 K]."""
    return blocks.flatten(0, 1).t().contiguous()


def order(places: Places) -> list[int]:
    """For each gate of the cell, the block it stands at."""
    return [place for _, place in sorted((gate, place) for place, gate in enumerate(places) if gate is not None)]


def filled(array: Tensor, rows: int, columns: int) -> Tensor:
    """An array with its last two axes filled up with zeros to these sizes; contiguous."""
    *more, given_rows, given_columns = array.shape
    if (given_rows, given_columns) == (rows, columns):
        whole = array.contiguous()
        # programs read 16 bytes at a time; a weight within a larger buffer may begin anywhere
        return whole.clone() if whole.data_ptr() % 16 else whole
    wide = array.new_zeros(*more, rows, columns)
    wide[..., :given_rows, :given_columns] = array
    return wide
