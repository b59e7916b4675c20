"""The functions of `parts.c`, each with those that it calls."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_HEAD = re.compile(r"^/\* --- (\w+)(?:: ([\w ]+))? \*/\n", re.MULTILINE)


@cache
def parts() -> dict[str, tuple[tuple[str, ...], str]]:
    """Each function by name: the functions it calls, and its text.

    >>> parts()["minlstm"][0]
    ('sigmoid', 'softplus')
    """
    text = (Path(__file__).parent / "parts.c").read_text(encoding="utf-8")
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {
        head[1]: (tuple((head[2] or "").split()), text[head.end() : end].strip() + "\n")
        for head, end in zip(heads, ends, strict=True)
    }


def functions(names: set[str]) -> str:
    """The text of these functions and of all they call, in the order of the file."""
    known, wanted = parts(), set(names)
    for name in names:
        wanted |= set(known[name][0])
    return "\n".join(text for name, (_, text) in known.items() if name in wanted)
