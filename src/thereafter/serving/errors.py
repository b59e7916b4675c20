"""What can go wrong for a visitor of a server, beyond the errors of the library."""

from __future__ import annotations

from thereafter.errors import BusyError, ThereafterError


class NotThereError(ThereafterError):
    """A model, a training or a comparison that is not there, or no longer."""


class StartingError(ThereafterError):
    """Asked before what is needed has been loaded."""


class EndingError(ThereafterError):
    """Asked while the server ends."""


class FullError(BusyError):
    """Asked while as many wait as may; a little later there may be room."""


class AbandonedError(ThereafterError):
    """Whoever asked has gone before the work began; nobody reads this."""
