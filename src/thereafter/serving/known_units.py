"""Units of a model that are known to carry something: `units.json` in its folder, a property to the name of a unit.

    {"number": "l0.c[17]", "quotes": "l0.c[11]"}

The file is made once, by whoever has searched the model, and panels open on what it names. It may come from somebody
else: anything but a small plain file of such names counts as none.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from thereafter.ready.units import UNITS
from thereafter.storage import open_plain

MOST = 20
"""Units a file may name."""
_LONGEST = 4_000  # bytes of the file
_UNIT = re.compile(r"l[0-9]{1,2}\.[hc]\[[0-9]{1,5}\]")
_PROPERTY = re.compile(r"[a-z][a-z0-9-]{0,39}")


def known_units(run: Path) -> dict[str, str]:
    """The units a run folder names, by property; {} where it has no such file, or one that is not as it should be."""
    try:
        with open_plain(run / UNITS, links=False) as file:
            content = file.read(_LONGEST + 1)
        units = json.loads(content) if len(content) <= _LONGEST else None
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(units, dict) or len(units) > MOST:
        return {}
    sound = all(
        _PROPERTY.fullmatch(name) and isinstance(unit, str) and _UNIT.fullmatch(unit) for name, unit in units.items()
    )
    return units if sound else {}


def stamp(run: Path) -> tuple[int, int]:
    """Changes when the file does."""
    try:
        facts = (run / UNITS).lstat()
    except OSError:
        return 0, 0
    return facts.st_mtime_ns, facts.st_size
