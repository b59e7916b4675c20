"""Whether first questions are answered, however soon after the start they come: nothing is timed.

    python benchmarks/cold_starts.py questions [--starts 100] [--against CHECKOUT]
    python benchmarks/cold_starts.py studio [--starts 50] [--panels 0] [--against CHECKOUT]

`questions`: in each of many fresh processes two threads ask an n-gram model and an LSTM through `thereafter.load`, the
second up to a second after the first. Every other process has loaded both before. An answer is right if it is the one
that a process with one thread gives.

`studio`: each start is a `thereafter studio` in a process of its own. The page is opened in chromium up to 12 s after
the port answers: first the Keyboard panel, which asks four models, then the others, at each start from another one on;
every second visitor clicks through them before looking at any. A start is whole if every panel shows its picture and no
error, and the terminal shows no traceback. `--panels 6` visits the keyboard and six others per start.

Every second studio has no ready models yet, every fifth process no compiled kernels. `--against` measures another
checkout of the package. Exits with 1 unless all starts are whole.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from first_start import SHOWN, browsing
from thereafter.base.storage import cache_folder
from thereafter.ready import models as ready
from thereafter.ready import shipped

HERE = Path(__file__).resolve().parents[1]
AWAITED = HERE / "tests" / "studio" / "awaited.js"
APART, LATEST = 1.0, 12.0  # seconds between two questions, and from the first answer of a port to its visitor
PATIENCE = 300.0
FIRST = "keyboard"
LOADING = "the studio is still loading"
PROMPT = "the teachers near the farmer"
ASKING = """
import faulthandler, json, sys, threading, time, traceback
import thereafter
faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)
folder, apart, names, loaded, prompt = json.loads(sys.argv[1])
models = {name: thereafter.load(f"{folder}/{name}") for name in names} if loaded else {}
answers = {}
def ask(name):
    try:
        lm = models.get(name) or thereafter.load(f"{folder}/{name}")
        answers[name] = [(token, round(p, 6)) for token, p in lm.next(prompt, k=5)]
    except Exception:
        answers[name] = traceback.format_exc().splitlines()[-1]
threads = [threading.Thread(target=ask, args=[name]) for name in names]
for thread in threads:
    thread.start()
    time.sleep(apart)
for thread in threads:
    thread.join()
print(json.dumps(answers))
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["questions", "studio"])
    options.add_argument("--starts", type=int)
    options.add_argument("--panels", type=int, default=0, metavar="N", help="panels per start (default: all)")
    options.add_argument("--after", type=float, nargs="+", metavar="S", help="when to visit, in turns")
    options.add_argument("--first", type=int, default=0, metavar="N", help="number of the first start")
    options.add_argument("--against", type=Path, default=HERE, metavar="CHECKOUT")
    chosen = options.parse_args()
    os.environ["PYTHONPATH"] = str(chosen.against.resolve() / "src")
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "numba"))
    starts = chosen.starts or (100 if chosen.what == "questions" else 50)
    numbers = range(chosen.first, chosen.first + starts)
    faults = questions(numbers) if chosen.what == "questions" else studios(numbers, chosen.panels, chosen.after)
    broken: Counter[str] = Counter()
    whole = 0
    for at, sentences in faults:
        whole += not sentences
        broken.update(set(sentences))
        print(f"start {at}: {'; '.join(sorted(set(sentences))) or 'whole'}", flush=True)
    print(f"\n{whole} of {starts} starts whole")
    for sentence, times in broken.most_common():
        print(f"{times:4d}  {sentence}")
    return 0 if whole == starts else 1


def questions(numbers: range) -> Iterator[tuple[str, list[str]]]:
    """The faults of each process, beside how far apart its questions were."""
    with tempfile.TemporaryDirectory() as folder:
        for model in ready.READY:
            if model.name in ("ngram", "lstm") and not shipped.unpack(model, Path(folder)):
                ready.make(model, Path(folder))
        right = {name: _answers(folder, 0, [name], loaded=False)[name] for name in ("ngram", "lstm")}
        assert not any(isinstance(answer, str) for answer in right.values()), right
        for at in numbers:
            apart, (names, loaded) = APART * (at * 37 % 100) / 99, ORDERS[at % len(ORDERS)]  # any few are spread out
            with _kernels(empty=at % 5 == 4):
                answers = _answers(folder, apart, names, loaded=loaded)
            wrong = [name for name in names if answers.get(name) != right[name]]
            faults = [f"{name}: {answers.get(name, answers.get('died'))}" for name in wrong]
            yield f"{at}, {apart:.2f} s apart, {names[0]} first{', loaded before' * loaded}", faults


ORDERS = list(itertools.product([["ngram", "lstm"], ["lstm", "ngram"]], [False, True]))


def _answers(folder: str, apart: float, names: list[str], *, loaded: bool) -> dict[str, Any]:
    """What each model answers in a fresh process."""
    asked = json.dumps([folder, apart, names, loaded, PROMPT])
    command = [sys.executable, "-c", ASKING, asked, str(PATIENCE)]
    done = subprocess.run(command, capture_output=True, text=True)
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {"died": done.stderr}


def studios(numbers: range, panels: int, after: Sequence[float] | None) -> Iterator[tuple[str, list[str]]]:
    """The faults of each start of a studio, beside when it was visited."""
    names = [name for name in SHOWN if name != FIRST]
    with browsing() as browser, tempfile.TemporaryDirectory() as kept:
        for at in numbers:
            spread = LATEST * (at * 7 % 50) / 49  # any few starts have early and late visitors
            delay = after[at % len(after)] if after else spread
            begin = at * (panels or 1) % len(names)
            visited = [FIRST, *(names[begin:] + names[:begin])[: panels or len(names)]]
            with tempfile.TemporaryDirectory() as empty, _kernels(empty=at % 5 == 4):
                faults = visit(browser, Path(empty if at % 2 else kept), delay, visited, hasty=at % 4 > 1)
            yield f"{at}, visited after {delay:.1f} s{', hastily' * (at % 4 > 1)}, {', '.join(visited)}", faults


def visit(browser: Any, cache: Path, delay: float, panels: list[str], *, hasty: bool) -> list[str]:
    """Start a studio, visit the panels, end it; what went wrong."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as runs, tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, "-m", "thereafter", "studio", "--no-browser", "--port", "0", "--runs", runs]
        environment = os.environ | {"THEREAFTER_CACHE": str(cache)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            address = re.search(r"http://[^\s/]+", process.stdout.readline())
            assert address is not None
            time.sleep(delay)
            context = browser.new_context(viewport={"width": 1280, "height": 800}, base_url=address.group())
            context.add_init_script(path=AWAITED)
            page = context.new_page()
            page.set_default_timeout(1000 * PATIENCE)
            page.on("pageerror", lambda error: faults.append(f"page: {error}"))
            page.on("response", lambda answer: faults.extend([f"status {answer.status}"] * (answer.status >= 500)))
            for panel in panels if hasty else []:
                page.goto(f"/#{panel}")
                page.wait_for_timeout(400)
            for panel in panels:
                faults += [f"{panel}: {fault}" for fault in look(page, panel)]
            context.close()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
        errors.seek(0)
        faults += [f"terminal: {line.strip()}" for line in errors if re.match(r"\w*(\.\w+)*(Error|Exception)\b", line)]
    return [fault for fault in faults if fault != "status 503"]  # while the studio loads; the page asks again


def look(page: Any, panel: str) -> list[str]:
    """Open a panel and wait until it shows its picture and nothing is to come; the errors it shows."""
    page.goto(f"/#{panel}")
    ended = time.monotonic() + PATIENCE
    resting = 0
    while resting < 3 and time.monotonic() < ended:
        page.wait_for_timeout(100)
        shown = page.locator(f'.place[data-panel="{panel}"] :is({SHOWN[panel]})').first.is_visible()
        sentences = _errors(page)
        if any(LOADING in sentence for sentence in sentences):  # the panel asks again when the studio has loaded
            resting = 0
        else:
            resting = resting + 1 if (shown or sentences) and not page.evaluate("window.awaited()") else 0
    return _errors(page) or ([] if resting else ["nothing to see"])


def _errors(page: Any) -> list[str]:
    """The sentences of errors that a visitor can read."""
    sentences: list[str] = page.locator(".error").all_text_contents()
    status = page.locator("#status").text_content() or ""
    return [text for text in sentences if text.strip()] + [status] * ("cannot" in status or "went wrong" in status)


@contextmanager
def _kernels(*, empty: bool) -> Iterator[None]:
    """Compiled kernels kept from before, or none yet."""
    before = os.environ["NUMBA_CACHE_DIR"]
    with tempfile.TemporaryDirectory() as folder:
        if empty:
            os.environ["NUMBA_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ["NUMBA_CACHE_DIR"] = before


if __name__ == "__main__":
    sys.exit(main())
