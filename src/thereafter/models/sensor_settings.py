"""The options that networks which look at small parts of a picture or a screen have in common."""

from __future__ import annotations

from dataclasses import dataclass

from thereafter.errors import OptionError
from thereafter.models.forecasting.settings import cells
from thereafter.models.settings import check_choice, check_share, check_size


@dataclass(frozen=True)
class SensorSettings:
    """A glimpse, what reads it, and how places are drawn while training."""

    patch: int = 8
    """Pixels on the side of a glimpse."""
    scales: int = 1
    """Scales of a glimpse, each twice as wide as the one before."""
    cell: str = "lstm"
    """The kind of its recurrent layer: `cells()`."""
    hidden: int = 256
    """Units of the recurrent layer."""
    read: int = 128
    """Units for what is seen, and as many for where."""
    deviation: float = 0.2
    """The standard deviation of places from their mean while training; what is looked at is 2 wide."""
    dropout: float = 0.0
    """The share of what answers are made of that is dropped while training."""

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, tuple(cells()))
        for name in ("patch", "scales", "hidden", "read"):
            check_size(name, vars(self)[name])
        if self.scales > 6 or self.patch > 256:
            raise OptionError(
                f"patch is {self.patch} and scales is {self.scales}; expected at most 256 pixels and 6 scales; the "
                f"widest window has {self.patch} x 2^{self.scales - 1} pixels on a side"
            )
        if not 0.0 < self.deviation <= 2.0:
            raise OptionError(f"deviation is {self.deviation!r}; expected above 0, at most 2; try 0.2")
        check_share("dropout", self.dropout)
