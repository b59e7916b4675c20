"""Importing the modules of text loads no heavy package."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, thereafter.text.reading, thereafter.text.encoded, thereafter.text.tokenizers.base\n"
        "import thereafter.text.tokenizers.subword\n"
        "assert not {'torch', 'numba', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
