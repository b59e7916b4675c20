"""Where the corpora of the tests are."""

from __future__ import annotations

import os
from pathlib import Path


def find_data() -> Path | None:
    named = os.environ.get("THEREAFTER_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(named).expanduser() if named else beside
    return folder if folder.is_dir() else None
