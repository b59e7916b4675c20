"""The same copies as `layout.PlainCopies`, each one program (code/copying.py): one pass over memory.

torch's operators take two to five passes for one of them (zeros, then a copy for each gate), and move numbers of odd
rows two bytes at a time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from thereafter.kernels.gpu.launch import Argument, Constants, launch
from thereafter.kernels.gpu.layout import FilledUnits, order

_ROWS, _COLUMNS, _SIDE, _WARPS = 8, 256, 64, 4


class CopyPrograms:
    """See `layout.Copies`."""

    def blocks(self, weight: Tensor, how: FilledUnits, columns: int, kind: torch.dtype) -> Tensor:
        whole = how.places == (0, 1, 2, 3) and how.units == how.to and weight.shape[1] == columns
        if whole and weight.dtype == kind and _usable(weight):
            return weight
        return self.slices(weight, how, columns, how.to, kind)

    def slices(self, weight: Tensor, how: FilledUnits, columns: int, own: int, kind: torch.dtype) -> Tensor:
        target = weight.new_empty(4 * how.to, columns, dtype=kind)
        places = [-1 if gate is None else gate for gate in how.places]
        _copy_gates(weight.contiguous(), target, places, 4, own, how.units, how.units)
        return target

    def turned(self, weight: Tensor, how: FilledUnits, kind: torch.dtype) -> Tensor:
        weight = weight.contiguous()
        target = weight.new_empty(how.to, 4 * how.to, dtype=kind)
        numbers = {f"place{place}": -1 if gate is None else gate for place, gate in enumerate(how.places)}
        numbers |= {"source_units": how.units, "source_columns": weight.shape[1], "units": how.to}
        tiles = 4 * (how.to // _SIDE) ** 2
        _copy("turn_gates", weight, target, numbers, {"SIDE": _SIDE}, tiles)
        return target

    def gates(self, blocks: Tensor, how: FilledUnits, columns: int, kind: torch.dtype) -> Tensor:
        places = order(how.places)
        if places == [0, 1, 2, 3] and how.units == how.to and blocks.shape[1] == columns and blocks.dtype == kind:
            return blocks
        target = blocks.new_empty(len(places) * how.units, columns, dtype=kind)
        # as many places as gates, in one slice
        _copy_gates(blocks, target, [*places, -1, -1, -1][:4], len(places), how.units, how.to, how.units)
        return target

    def rows(self, array_TBI: Tensor, rows: int, columns: int, kind: torch.dtype) -> Tensor:
        steps = len(array_TBI)
        if array_TBI.shape[1:] == (rows, columns) and array_TBI.dtype == kind and _usable(array_TBI):
            return array_TBI
        target = array_TBI.new_empty(steps, rows, columns, dtype=kind)
        _copy_rows(array_TBI, target)
        return target

    def first(self, state_BH: Tensor, into_PK: Tensor) -> None:
        _copy_rows(state_BH.unsqueeze(0), into_PK.unsqueeze(0))

    def sliced_columns(self, array_TBG: Tensor, how: FilledUnits, rows: int, own: int) -> Tensor:
        target = array_TBG.new_empty(len(array_TBG), rows, how.to // own, 4, own)
        places = [-1 if gate is None else gate for gate in how.places]
        _copy_columns(array_TBG, target.flatten(2), places, 4, own, how.units, how.units)
        return target

    def gate_columns(self, blocks_TP4K: Tensor, how: FilledUnits, rows: int) -> Tensor:
        places = order(how.places)
        target = blocks_TP4K.new_empty(len(blocks_TP4K), rows, len(places) * how.units)
        spare = [*places, -1, -1, -1][:4]
        _copy_columns(blocks_TP4K.flatten(2), target, spare, len(places), how.units, how.to, how.units)
        return target


_BEGINS = ("step_stride", "row_stride", "source_columns", "columns", "source_units", "units", "own")
"""Numbers that say where a row begins."""
_TILE: Constants = {"ROWS": _ROWS, "COLUMNS": _COLUMNS}


def _usable(array: Tensor) -> bool:
    return array.is_contiguous() and array.data_ptr() % 16 == 0


def _tiles(rows: int, columns: int) -> int:
    return -(-rows // _ROWS) * -(-columns // _COLUMNS)


def _copy_rows(source: Tensor, target: Tensor) -> None:
    if source.stride(2) != 1:
        source = source.clone(memory_format=torch.contiguous_format)
    steps, rows, columns = target.shape
    numbers = {
        "step_stride": source.stride(0),
        "row_stride": source.stride(1),
        "source_rows": source.shape[1],
        "source_columns": source.shape[2],
        "steps": steps,
        "rows": rows,
        "columns": columns,
    }
    _copy("copy_rows", source, target, numbers, _TILE, _tiles(steps * rows, columns))


def _copy_columns(
    source: Tensor, target: Tensor, places: list[int], count: int, own: int, source_units: int, units: int
) -> None:
    if source.stride(2) != 1:
        source = source.clone(memory_format=torch.contiguous_format)
    steps, rows, columns = target.shape
    numbers = {f"place{place}": gate for place, gate in enumerate(places)}
    numbers |= {"source_units": source_units, "units": units}
    numbers |= {"step_stride": source.stride(0), "row_stride": source.stride(1), "source_rows": source.shape[1]}
    numbers |= {"steps": steps, "rows": rows, "columns": columns}
    constants: Constants = {"PLACES": count, "OWN": own, **_TILE}
    _copy("copy_columns", source, target, numbers, constants, _tiles(steps * rows, columns))


def _copy_gates(
    source: Tensor, target: Tensor, places: list[int], count: int, own: int, source_units: int, units: int
) -> None:
    rows, columns = target.shape
    numbers = {f"place{place}": gate for place, gate in enumerate(places)}
    numbers |= {"source_units": source_units, "source_columns": source.shape[1], "rows": rows, "places": count}
    numbers |= {"own": own, "columns": columns, "units": units}
    _copy("copy_gates", source, target, numbers, _TILE, _tiles(rows, columns))


def _copy(
    name: str, source: Tensor, target: Tensor, numbers: dict[str, int], constants: Constants, blocks: int
) -> None:
    if not target.numel():
        return
    # what the compiler knows to be even it reads two numbers at a time; counts of rows and steps would only mean more
    # programs to compile
    begins = {"source": source.data_ptr()} | {key: value for key, value in numbers.items() if key in _BEGINS}
    aligned = tuple([(key, part) for key, value in begins.items() if value > 0 and (part := math.gcd(16, value)) > 1])
    arguments: dict[str, Argument] = {"source": source, "target": target, **numbers}
    launch("copying", name, arguments, constants, warps=_WARPS, blocks=blocks, together=False, aligned=aligned)
