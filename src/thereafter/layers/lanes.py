"""A stack of recurrent layers as a list of lanes: one cell for each layer and direction.

The name of a lane, "l0" or "l2_reverse", ends the names of its weights, as in torch: weight_ih_l0, bias_hh_l2_reverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.cells.options import OptionValue
from thereafter.errors import OptionError

Sizes = int | Sequence[int | tuple[int, int]]


@dataclass(frozen=True)
class Lane:
    """One cell of a stack: its layer and its direction."""

    layer: int
    reverse: bool
    cell: Cell

    @property
    def name(self) -> str:
        return f"l{self.layer}_reverse" if self.reverse else f"l{self.layer}"

    def weight_names(self) -> dict[str, str]:
        """The cell's name of each weight, and the module's."""
        return {name: f"{name}_{self.name}" for name in self.cell.shapes()}


def build_lanes(
    kind: str, input_size: int, sizes: list[tuple[int, ...]], options: Mapping[str, OptionValue]
) -> list[tuple[Lane, ...]]:
    """The lanes of every layer: forward, and backward where a layer has two sizes."""
    cell_type = CELLS.load(kind)
    layers: list[tuple[Lane, ...]] = []
    width = input_size
    for layer, directions in enumerate(sizes):
        lanes = tuple(Lane(layer, bool(d), cell_type(width, size, **options)) for d, size in enumerate(directions))
        width = sum(lane.cell.output_size for lane in lanes)
        layers.append(lanes)
    return layers


def check_sizes(hidden_size: object) -> None:
    """Refuse what is neither a size nor a list of sizes."""
    if not isinstance(hidden_size, int | Sequence) or isinstance(hidden_size, str):
        raise OptionError(f"hidden_size is {hidden_size!r}; expected a positive integer, or a list with one a layer")


def layer_sizes(hidden_size: Sizes, num_layers: int, bidirectional: bool) -> list[tuple[int, ...]]:
    """One size for each layer and direction.

    >>> layer_sizes([4, (3, 2)], 2, bidirectional=True)
    [(4, 4), (3, 2)]
    """
    if num_layers < 1:
        raise OptionError(f"num_layers is {num_layers}; expected at least 1")
    listed = [hidden_size] * num_layers if isinstance(hidden_size, int) else list(hidden_size)
    if len(listed) != num_layers:
        raise OptionError(
            f"hidden_size lists {len(listed)} layers and num_layers is {num_layers}; expected as many; "
            "try leaving num_layers out"
        )
    sizes: list[tuple[int, ...]] = []
    for entry in listed:
        pair = tuple(entry) if isinstance(entry, Sequence) else (entry, entry)
        if len(pair) != 2 or not all(isinstance(size, int) and size > 0 for size in pair):
            raise OptionError(f"hidden_size holds {entry!r}; expected a positive integer, or a pair for two directions")
        if not bidirectional and not isinstance(entry, int):
            raise OptionError(f"hidden_size holds the pair {entry!r}; pairs need bidirectional=True")
        sizes.append(pair if bidirectional else pair[:1])
    return sizes
