"""One file of a page: style and script inside it, and a policy that allows these two and no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path

from thereafter.config import Table
from thereafter.export.html.kernel import kernel

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("numbers", "cells", "operations", "model", "trie", "tokenizers", "reader", "pictures", "main")
"""In the order in which they need each other."""
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_LONE = re.compile("[\ud800-\udfff]")
_DESCRIPTION = re.compile(r'id="description">(.*?)</script>', re.DOTALL)
_WEIGHTS = re.compile(r'id="weights">(.*?)</script>', re.DOTALL)


def joined_script() -> str:
    """The modules as one: what they import from each other stands above."""
    parts = [(PAGE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", part)) for part in parts)


def policy(style: str, script: str) -> str:
    """Nothing is loaded from anywhere: the style and the script are known by their hashes.

    'wasm-unsafe-eval' lets the page compile the WebAssembly it holds, and nothing else.
    """
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}' 'wasm-unsafe-eval'; "
        "base-uri 'none'; form-action 'none'"
    )


def page_text(title: str, description: Table, weights: bytes) -> str:
    """The page."""
    style, script = (PAGE / "page.css").read_text(encoding="utf-8"), joined_script()
    parts = {
        "policy": policy(style, script),
        "title": html.escape(title.encode("utf-8", "replace").decode()),
        "style": style,
        "description": _json(description),
        "kernel": base64.b64encode(kernel()).decode(),
        "weights": base64.b64encode(weights).decode(),
        "script": script,
    }
    template = (PAGE / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\}", lambda name: parts[name[1]], template)


def _json(description: Table) -> str:
    """JSON without "<", so that no form of a vocabulary can end the element it stands in, nor a lone surrogate."""
    text = json.dumps(description, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return _LONE.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def read_page(text: str) -> tuple[Table, bytes]:
    """The description and the weights of a page that was written here."""
    description, weights = _DESCRIPTION.search(text), _WEIGHTS.search(text)
    if description is None or weights is None:
        raise ValueError("the page has no description or no weights")
    about: Table = json.loads(description[1])
    return about, base64.b64decode(weights[1])
