"""What a visitor of the studio can get wrong, beyond the errors of the library."""

from __future__ import annotations

from thereafter.errors import ThereafterError


class NotThereError(ThereafterError):
    """A model, a training or a comparison that is not there, or no longer."""


class StartingError(ThereafterError):
    """Asked before what is needed has been loaded."""


class EndingError(ThereafterError):
    """Asked while the studio ends."""


class GoneError(ThereafterError):
    """Whoever asked has gone; nobody reads this."""
