"""How many files of the package a training passes before its first step, and how often it opens its source.

    python benchmarks/call_path.py [-v]

A text by an LSTM and a table by a forecaster, from the command line. The second run of the process is counted: modules
are imported and loops compiled by then. A change of file: a function is entered in another file than the one that ran
last; what a line in a loop calls counts once. `-v` lists the files, those entered most often first.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

import thereafter
from thereafter.__main__ import main

PACKAGE = str(Path(thereafter.__file__).parent) + os.sep
ERRANDS = (("book.txt", "--model lstm"), ("sales.csv", "--task forecast --target sold --model gru"))


class FirstStepError(Exception):
    """The training is about to make its first step."""


class CallPath:
    """A profile function for `sys.setprofile`: how often each file is entered."""

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self._file, self._calls = "", set[tuple[object, ...]]()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back
        if event == "return" and caller is not None:
            frame = caller
        elif event != "call":
            return
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE):
            call = (caller and (caller.f_code, caller.f_lineno), frame.f_code)
            if event == "call" and file != self._file and call not in self._calls:
                self.entered[file.removeprefix(PACKAGE)] += 1
                self._calls.add(call)
            self._file = file


class Opens:
    """Counts how often one file is opened, by Python or by a library."""

    def __init__(self, path: Path) -> None:
        self.count, self._path = 0, str(path)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | os.PathLike) and os.fspath(arguments[0]) == self._path:
            self.count += 1


def train(words: list[str], profile: CallPath | None = None) -> None:
    """Run the command until its training begins the first step."""

    def stop(training: object) -> None:
        sys.setprofile(None)  # what is closed on the way out comes after the first step
        raise FirstStepError

    sys.argv = ["thereafter", "train", *words]
    with (
        thereafter.watching(before_step=stop),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        sys.setprofile(profile)
        with contextlib.suppress(FirstStepError, SystemExit):
            main()
        sys.setprofile(None)


def write_sources(folder: Path) -> None:
    (folder / "book.txt").write_text("the cat sat on the mat and looked at the bird that sang.\n" * 4_000)
    days = [f"{2020 + day // 336}-{1 + day // 28 % 12:02}-{1 + day % 28:02},{10 + day % 7}" for day in range(1_000)]
    (folder / "sales.csv").write_text("\n".join(["date,sold", *days, ""]))


if __name__ == "__main__":
    verbose = "-v" in sys.argv
    with tempfile.TemporaryDirectory() as name:
        write_sources(Path(name))
        for source, options in ERRANDS:
            path = Path(name, source)
            words = [str(path), *options.split(), "--out"]
            train([*words, f"{name}/warm-{source}"])
            write_sources(Path(name))  # what is remembered of a file does not hold for a newer one
            profile, opens = CallPath(), Opens(path)
            sys.addaudithook(opens)
            train([*words, f"{name}/measured-{source}"], profile)
            changes = profile.entered.total()
            sys.stdout.write(
                f"{source} {options}: {len(profile.entered)} files, {changes} changes, {opens.count} opens\n"
            )
            if verbose:
                sys.stdout.writelines(f"{count:7} {file}\n" for file, count in profile.entered.most_common())
