"""The experiments stand beside the script that prints the table of docs/claims.md, at larger sizes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
