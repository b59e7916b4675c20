"""The command `thereafter`, and `python -m thereafter`: the command line."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C has ended, as shells have it."""


def main() -> None:
    """Run a command. Ctrl-C while its modules are imported ends it without a word: nothing has begun yet."""
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, or another's to hear
    if listens:
        signal.signal(signal.SIGINT, _end)
    from thereafter import cli

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if not _interrupted(error):
            raise
        sys.exit(INTERRUPTED)


def _end(number: int, frame: FrameType | None) -> None:
    """At once: an exception that is raised in the middle of an import may be lost there, or come out as another."""
    os._exit(INTERRUPTED)


def _interrupted(error: BaseException | None) -> bool:
    """Whether an error comes from Ctrl-C: compiled modules whose import is broken off raise errors of their own."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


if __name__ == "__main__":
    main()
