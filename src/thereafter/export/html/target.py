"""The target `html`: one page, run in a browser for the check where there is one, else by numpy.

A page holds a description as JSON, and the numbers as one piece of bytes.

Shapes: V words.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base import packages
from thereafter.base.config import Table
from thereafter.export.html.kernel import kernel
from thereafter.export.plan import NgramPlan, Plan, RecurrentPlan, SoftmaxPlan, WordingPlan, arrays_of
from thereafter.export.steps.interpreter import Interpreter, as_stored, rounded
from thereafter.export.steps.lowering import OpBlock, Program, lower
from thereafter.export.targets import FLOAT16, Opening, Runner, WrittenFiles
from thereafter.models.base import Floats, Ids
from thereafter.text.tokenizers import TOKENIZERS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright


T = TypeVar("T")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_READY = "() => window.thereafter || document.getElementById('error')?.hidden === false"
_AS_TEXT = """
  const bytes = new Uint8Array(asked.buffer, asked.byteOffset, asked.byteLength), parts = [];
  for (let at = 0; at < bytes.length; at += 8192) parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  return btoa(parts.join(""));
"""
_NONE = Opening()
MOST = 120_000_000
"""The most bytes of weights: the text of a page has half as many characters as a browser takes."""


@dataclass(frozen=True)
class HtmlTarget:
    """One page. Weights are in 16 bits with a scale for each 32, or in 8 with a scale for each row."""

    opening: Opening = _NONE

    ending: ClassVar[str] = ".html"
    program: ClassVar[str] = "Chromium"
    tolerance: ClassVar[float] = FLOAT16

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        if int8 and isinstance(plan, NgramPlan):
            return "an n-gram has no weights to round to int8; try it without --int8"
        size = sum(array.size for array in arrays_of(plan)) * (4 if isinstance(plan, NgramPlan) else 1 if int8 else 2)
        if size > MOST:
            return f"the model needs {size:,} bytes; a page has at most {MOST:,}; try --int8, or a smaller model"
        return refused_wording(plan.wording)

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        bits = 8 if int8 else 16
        packed = pack_trie(plan) if isinstance(plan, NgramPlan) else pack_program(lower(plan), bits)
        description: Table = {
            **packed.about,
            "arrays": packed.arrays,
            "words": describe_wording(plan.wording),
            "caption": caption(plan, bits),
            "prompt": self.opening.prompt,
            "from": self.opening.source,
        }
        path.write_text(page_text(path.stem, description, b"".join(packed.pieces)), encoding="utf-8", newline="\n")
        state = 4 if isinstance(plan, NgramPlan) else 4 * sum(packed.about["state"].values())
        facts: dict[str, object] = {"state bytes": state, "bytes of weights": packed.size}
        if self.opening.prompt:
            facts["opens on"] = f"{self.opening.prompt!r}, from {self.opening.source}"
        if not isinstance(plan, NgramPlan) and browser_path() is None:
            facts["note"] = "no browser is here: numpy ran the page's weights, its script was not run"
        return WrittenFiles((path,), facts)

    def opening_on(self, opening: Opening) -> HtmlTarget:
        return replace(self, opening=opening)

    def runner(self, plan: Plan, written: WrittenFiles) -> Runner | None:
        browser = browser_path()
        if browser is not None:
            return InBrowser(written.paths[0], browser)
        if isinstance(plan, NgramPlan):
            return None
        bits = 8 if '"bits":8' in written.paths[0].read_text(encoding="utf-8") else 16
        return Interpreter(as_stored(lower(plan), bits))


def caption(plan: Plan, bits: int) -> str:
    """What the page says of its model in one line."""
    words = f"{plan.wording.size:,} {plan.wording.tokens} tokens"
    if isinstance(plan, NgramPlan):
        return f"{plan.order}-gram · {words} · {len(plan.word) - 2:,} n-grams"
    size = sum(array.size for array in arrays_of(plan) if array.dtype == np.float32)
    if isinstance(plan.head, SoftmaxPlan) and plan.head.tied:
        size -= plan.head.matrix.size  # the word vectors
    sizes = ""
    if isinstance(plan, RecurrentPlan):
        sizes = " · " + " + ".join(str(layer.lane.hidden_size) for layer in plan.layers) + " units"
    return f"{plan.kind}{sizes} · {words} · {size:,} weights in {bits} bits"


def browser_path() -> str | None:
    """A browser that can be driven: Chromium or Chrome, with playwright's package to speak to it."""
    if not packages.installed("playwright"):
        return None
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


class InBrowser:
    """The page in a headless browser with the network off: a `Runner` of one row.

    A thread of its own speaks to the browser: playwright runs once in a thread, and not where an event loop runs, as
    one does in a notebook.
    """

    name: ClassVar[str] = "Chromium"

    def __init__(self, path: Path, browser: str) -> None:
        self._thread = ThreadPoolExecutor(1, "browser")
        self._running: tuple[Playwright, Browser, Page] | None = None
        try:
            self._running = self._thread.submit(_started, browser).result()
            self.open(path)
        except BaseException:
            self.close()
            raise

    def ask(self, work: Callable[[Page], T]) -> T:
        """What `work` returns of the page, in the thread that may speak to it."""
        if self._running is None:
            raise RuntimeError("the browser has not begun")
        return self._thread.submit(work, self._running[2]).result()

    def open(self, path: Path) -> None:
        """Show a page, and wait until its model can be asked."""
        address = path.resolve().as_uri()
        self.ask(lambda page: page.goto(address))
        self.ask(lambda page: page.wait_for_function(_READY))

    def start(self, rows: int) -> Floats:
        """Begin anew; log p of every first token, [1, V]."""
        return self._numbers("thereafter.begin()")

    def step(self, token_B: Ids) -> Floats:
        """Read one token; log p of every token after it, [1, V]."""
        return self._numbers(f"thereafter.after({int(token_B[0])})")

    def _numbers(self, asked: str) -> Floats:
        """Floats of the page as one text: as a list of numbers they take 13 times as long on their way."""
        text = self.ask(lambda page: page.evaluate(f"() => {{ const asked = {asked}; {_AS_TEXT} }}"))
        return np.frombuffer(base64.b64decode(text), dtype="<f4")[None]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text by the page's own tokenizer."""
        asked = "(texts) => texts.map((text) => thereafter.tokenizer.encode(text))"
        tokens: list[list[int]] = self.ask(lambda page: page.evaluate(asked, list(texts)))
        return tokens

    def close(self) -> None:
        """End the browser."""
        if self._running is not None:
            driver, browser, _ = self._running
            self._thread.submit(browser.close).result()
            self._thread.submit(driver.stop).result()
        self._thread.shutdown()


def _started(browser: str) -> tuple[Playwright, Browser, Page]:
    """A browser without a network, and its empty page."""
    driver = packages.require("playwright.sync_api", "running a page").sync_playwright().start()
    shown = driver.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
    page = shown.new_context(offline=True, viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(120_000)
    return driver, shown, page


TARGET = HtmlTarget()


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


ENCODED = ("char", "byte", "word", "prose", "bpe", "wordpiece")
"""The tokenizers that the page has."""
_KINDS = {"f4": "float32", "i4": "int32", "i2": "int16", "i1": "int8"}


@dataclass
class Packed:
    """The description, and the arrays one after the other, each at a multiple of four bytes."""

    about: Table
    arrays: dict[str, Table] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0

    def put(self, name: str, values: NDArray[np.number]) -> None:
        """Add an array; little endian, as every browser has it."""
        laid = np.ascontiguousarray(values)
        code = f"{laid.dtype.kind}{laid.dtype.itemsize}"
        raw = laid.astype(laid.dtype.newbyteorder("<")).tobytes()
        self.arrays[name] = {"type": _KINDS[code], "shape": list(laid.shape), "at": self.size}
        padding = bytes(-len(raw) % 4)
        self.pieces += [raw, padding]
        self.size += len(raw) + len(padding)


def pack_program(program: Program, bits: int) -> Packed:
    """A neural model, its matrices in 16 or 8 bits (`steps.interpreter`)."""
    about: Table = {
        "form": "program",
        "bits": bits,
        "context": program.context,
        "buffers": dict(program.buffers),
        "body": [_block(block) for block in program.body],
        "head": _block(program.head),
        "state": {name: len(values) for name, values in program.state.items()},
        "matrices": list(program.matrices),
    }
    packed = Packed(about)
    for name, matrix in program.matrices.items():
        small = rounded(matrix, bits)
        packed.put(name, small.numbers)
        packed.put(f"{name}_scale", small.scale)
    for name, vector in program.vectors.items():
        packed.put(name, vector)
    for name, index in program.indices.items():
        packed.put(name, index)
    for name, values in program.state.items():
        if values.any():
            packed.put(f"{name}_at_first", values)
    return packed


def pack_trie(plan: NgramPlan) -> Packed:
    """An n-gram: the arrays of its trie as they are."""
    about: Table = {"form": "trie", "bits": 32, "order": plan.order, "first": plan.first, "uniform": plan.uniform}
    packed = Packed(about)
    for name in ("word", "logp", "suffix", "backoff", "first_child"):
        packed.put(name, vars(plan)[name])
    return packed


def describe_wording(wording: WordingPlan) -> Table:
    """The vocabulary and what its tokenizer needs beside it."""
    words: Table = {
        "size": wording.size,
        "start": wording.start,
        "restart": wording.restart,
        "unknown": wording.unknown,
        "tokens": wording.tokens,
        "lower": wording.lower,
        "forms": [] if wording.tokens == "byte" else list(wording.forms),
    }
    if wording.tokens in ("bpe", "wordpiece"):
        words["longest"] = TOKENIZERS.load(wording.tokens).longest_form
    if wording.tokens == "bpe":
        merges: list[str | list[str]] = wording.tokenizer["tokenizers"]["model"]["merges"]
        words["merges"] = [merge.split(" ") if isinstance(merge, str) else list(merge) for merge in merges]
    return words


def refused_wording(wording: WordingPlan) -> str | None:
    """Why the page has no such tokenizer; None where it has."""
    if wording.tokens not in ENCODED:
        return f"a page has no {wording.tokens} tokenizer; it has {', '.join(ENCODED)}; try --to onnx"
    if wording.tokenizer.get("scripts"):
        return "a page cannot cut scripts without spaces as this prose tokenizer does; try a model over char or bpe"
    if wording.letters_only:
        return "a page does not strip texts to letters, as this model's were; try a model without letters_only"
    return None


def _block(block: OpBlock) -> Table:
    ops = [
        {"op": op.name, "out": op.out, "inputs": dict(op.inputs), "arrays": dict(op.arrays), **dict(op.numbers)}
        for op in block.ops
    ]
    return {
        "name": block.name,
        "ops": ops,
        "buffers": dict(block.buffers),
        "shown": block.shown,
        "gates": list(block.gates),
    }
