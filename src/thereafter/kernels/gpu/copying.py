"""Weights and batches in the order that the programs read, and back, each copy one program (code/copying.py).

torch's operators take two to five passes over memory for one of them (zeros, then a copy for each gate), and move
numbers of odd rows two bytes at a time. `PlainCopies` of tests/kernels/gpu_twins.py is the twin.

Shapes: T steps, B rows filled up to P, I inputs filled up to J, H units filled up to K, G gates of the cell. Blocks:
[4, K, .], gate by gate. Slices: [K / own, 4, own, .], what one block of a launch owns lies together. There are three
blocks in the place of four where `FilledUnits.places` has no more.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from thereafter.kernels.gpu.launch import Argument, Constants, launch, multiples_in

_ROWS, _COLUMNS, _SIDE, _WARPS = 8, 256, 64, 4
Places = tuple[int | None, ...]
"""For each block the cell's own gate that stands there, or none."""


class FilledUnits(NamedTuple):
    """A cell's `units` and the number they are filled up to; and where its gates stand among the blocks."""

    units: int
    to: int
    places: Places

    @property
    def order(self) -> tuple[int, ...]:
        """For each gate of the cell, the block it stands at."""
        return tuple([place for _, place in sorted((g, place) for place, g in enumerate(self.places) if g is not None)])

    @property
    def whole(self) -> bool:
        """Whether blocks are the cell's own gates, with nothing filled up."""
        return self.places == tuple(range(len(self.places))) and self.units == self.to


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


class CopyPrograms:
    """Ways of bringing arrays into order. Where an array lies as it is wanted, it is returned itself."""

    def slices(self, weight: Tensor, how: FilledUnits, columns: int, own: int, kind: torch.dtype) -> Tensor:
        """A cell's matrix [G H, I] slice by slice, [4 K, J]; empty blocks, rows and columns are 0.

        With all units in one slice these are blocks.
        """
        lies_so = how.whole and own == how.to and weight.shape[1] == columns
        if lies_so and weight.dtype == kind and _usable(weight):
            return weight
        target = weight.new_empty(len(how.places) * how.to, columns, dtype=kind)
        _copy_gates(weight.contiguous(), target, how.places, own, how.units, how.units)
        return target

    def turned(self, weight: Tensor, how: FilledUnits, kind: torch.dtype) -> Tensor:
        """A recurrent matrix [G H, H] transposed, [K, 4 K]."""
        weight = weight.contiguous()
        places = len(how.places)
        target = weight.new_empty(how.to, places * how.to, dtype=kind)
        numbers = _places(how.places)
        numbers |= {"source_units": how.units, "source_columns": weight.shape[1], "units": how.to}
        tiles = places * (how.to // _SIDE) ** 2
        _copy("turn_gates", weight, target, numbers, {"PLACES": places, "SIDE": _SIDE}, tiles)
        return target

    def gates(self, blocks: Tensor, how: FilledUnits, columns: int, kind: torch.dtype) -> Tensor:
        """[4 K, J] back to [G H, I]."""
        if how.whole and blocks.shape[1] == columns and blocks.dtype == kind:
            return blocks
        order = how.order
        target = blocks.new_empty(len(order) * how.units, columns, dtype=kind)
        # as many places as gates, in one slice
        _copy_gates(blocks, target, order, how.units, how.to, how.units)
        return target

    def rows(self, array_TBI: Tensor, rows: int, columns: int, kind: torch.dtype) -> Tensor:
        """[T, B, I] as [T, P, J]."""
        if array_TBI.shape[1:] == (rows, columns) and array_TBI.dtype == kind and _usable(array_TBI):
            return array_TBI
        target = array_TBI.new_empty(len(array_TBI), rows, columns, dtype=kind)
        _copy_rows(array_TBI, target)
        return target

    def first(self, state_BH: Tensor, into_PK: Tensor) -> None:
        """A state into the place of a step, filled up."""
        _copy_rows(state_BH.unsqueeze(0), into_PK.unsqueeze(0))

    def sliced_columns(self, array_TBG: Tensor, how: FilledUnits, rows: int, own: int) -> Tensor:
        """Numbers of all gates [T, B, G H] as [T, P, S, 4, own]."""
        target = array_TBG.new_empty(len(array_TBG), rows, how.to // own, 4, own)
        _copy_columns(array_TBG, target.flatten(2), how.places, own, how.units, how.units)
        return target

    def gate_columns(self, blocks_TP4K: Tensor, how: FilledUnits, rows: int) -> Tensor:
        """The way back from blocks: [T, P, 4, K] to [T, B, G H]."""
        order = how.order
        target = blocks_TP4K.new_empty(len(blocks_TP4K), rows, len(order) * how.units)
        _copy_columns(blocks_TP4K.flatten(2), target, order, how.units, how.to, how.units)
        return target


_BEGINS = ("step_stride", "row_stride", "source_columns", "columns", "source_units", "units", "own")
"""Numbers that say where a row begins."""
_TILE: Constants = {"ROWS": _ROWS, "COLUMNS": _COLUMNS}


def _usable(array: Tensor) -> bool:
    return array.is_contiguous() and array.data_ptr() % 16 == 0


def _tiles(rows: int, columns: int) -> int:
    return -(-rows // _ROWS) * -(-columns // _COLUMNS)


def _places(gates: Places) -> dict[str, int]:
    """The gate at each of four places, -1 for none."""
    return {f"place{place}": -1 if g is None else g for place, g in enumerate((*gates, None, None, None)[:4])}


def _copy_rows(source: Tensor, target: Tensor) -> None:
    source = _with_whole_rows(source)
    steps, rows, columns = target.shape
    numbers = _strides(source) | {"source_columns": source.shape[2], "steps": steps, "rows": rows, "columns": columns}
    _copy("copy_rows", source, target, numbers, _TILE, _tiles(steps * rows, columns))


def _copy_columns(source: Tensor, target: Tensor, gates: Places, own: int, source_units: int, units: int) -> None:
    source = _with_whole_rows(source)
    steps, rows, columns = target.shape
    numbers = _places(gates) | {"source_units": source_units, "units": units} | _strides(source)
    numbers |= {"steps": steps, "rows": rows, "columns": columns}
    constants: Constants = {"PLACES": len(gates), "OWN": own, **_TILE}
    _copy("copy_columns", source, target, numbers, constants, _tiles(steps * rows, columns))


def _copy_gates(source: Tensor, target: Tensor, gates: Places, own: int, source_units: int, units: int) -> None:
    rows, columns = target.shape
    numbers = _places(gates)
    numbers |= {"source_units": source_units, "source_columns": source.shape[1], "rows": rows, "places": len(gates)}
    numbers |= {"own": own, "columns": columns, "units": units}
    _copy("copy_gates", source, target, numbers, _TILE, _tiles(rows, columns))


def _with_whole_rows(source: Tensor) -> Tensor:
    return source if source.stride(2) == 1 else source.clone(memory_format=torch.contiguous_format)


def _strides(source: Tensor) -> dict[str, int]:
    return {"step_stride": source.stride(0), "row_stride": source.stride(1), "source_rows": source.shape[1]}


def _copy(
    name: str, source: Tensor, target: Tensor, numbers: dict[str, int], constants: Constants, blocks: int
) -> None:
    if target.numel():
        arguments: dict[str, Argument] = {"source": source, "target": target, **numbers}
        # what the compiler knows to be even it reads two numbers at a time; counts of rows and steps would only mean
        # more programs to compile
        aligned = multiples_in({"source": source} | {name: numbers[name] for name in numbers if name in _BEGINS})
        launch("copying", name, arguments, constants, warps=_WARPS, blocks=blocks, aligned=aligned)
