"""Ctrl-C before a training has begun: one line says that nothing was learned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


@contextmanager
def until_it_begins(folder: Path) -> Iterator[None]:
    """Ctrl-C while a source is still being read: say that nothing was learned. Later on the training itself says how to
    go on with it."""
    before = _written_at(folder)
    try:
        yield
    except KeyboardInterrupt:
        if _written_at(folder) == before:
            left = "nothing was written" if before is None else f"the run in {folder} is as it was"
            typer.echo(
                f"stopped while reading: nothing was learned yet and {left}; begin again with the same command",
                err=True,
            )
        raise


def _written_at(folder: Path) -> int | None:
    """When the run in a folder was begun; None where there is none."""
    from thereafter.runs.folder import CONFIG, is_run

    return (folder / CONFIG).stat().st_mtime_ns if is_run(folder) else None
