"""Faults seeded by hand: which of them `make test`, `make test-all` and `make test-changed` catch.

    python tests/reach/faults.py [NAME ...] [--set test|all|changed] [--copy FOLDER]

Each fault is one edit of one file. It is made in a copy of the repository, and the tests that `map.json` says it can
reach are run there, those of the same room first, until one fails. An hour or more for all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from reaching import MAP, Reach

ROOT = Path(__file__).parents[2]
MARKS = {"test": "not slow and not wide", "all": "not slow", "changed": "not slow"}


@dataclass(frozen=True)
class Fault:
    """An edit of a file of the package that makes it wrong: `before` stands in it once."""

    name: str
    file: str
    before: str
    after: str


FAULTS = (
    # cells
    Fault(
        "lstm-gates-swapped",
        "cells/lstm.py",
        "new_BH = f_BH * c_BH + i_BH * g_BH",
        "new_BH = i_BH * c_BH + f_BH * g_BH",
    ),
    Fault(
        "gru-mixes-the-wrong-way", "cells/gru.py", "(1 - z_BH, z_BH)\n        h_BH", "(z_BH, 1 - z_BH)\n        h_BH"
    ),
    # kernels
    Fault(
        "lstm-loop-forget-gradient", "kernels/loops/lstm.py", "df = dc * old * f * (1.0 - f)", "df = dc * old * f * f"
    ),
    Fault(
        "gru-loop-reset-gradient",
        "kernels/loops/gru.py",
        "dn * u * (r * (1.0 - r)), dn * r",
        "dn * u * (r * (1.0 - r)), dn",
    ),
    Fault(
        "scan-gradient-one-step-off",
        "kernels/plain.py",
        "h_BH.unsqueeze(1), h_BTH[:, :-1]",
        "h_BTH[:, :1], h_BTH[:, :-1]",
    ),
    # layers
    Fault(
        "attention-sees-padding",
        "layers/attention.py",
        "masked_softmax(scores_BTS, mask_BS)",
        "masked_softmax(scores_BTS, None)",
    ),
    Fault("learned-state-is-not-used", "layers/inputs.py", 'if kind == "learned":', 'if kind == "learnt":'),
    # models
    Fault(
        "window-one-token-short",
        "models/feedforward.py",
        "seen_BS[:, tokens_BT.shape[1] :].clone()",
        "seen_BS[:, tokens_BT.shape[1] - 1 : -1].clone()",
    ),
    Fault(
        "cache-keeps-other-rows",
        "models/cache.py",
        "CacheState(self.inner.select(index), words_BN[:, empty:], keys)",
        "CacheState(self.inner.select(index), self.words_BN[: len(words_BN), empty:], keys)",
    ),
    # n-grams
    Fault(
        "absolute-discount",
        "ngram/smoothing.py",
        "(n1 / (n1 + 2 * n2),), False",
        "(n1 / (n1 + n2),), False",
    ),
    Fault(
        "cutoff-one-too-many",
        "ngram/smoothing.py",
        ".count > cutoffs[order - 1]",
        ".count >= cutoffs[order - 1]",
    ),
    # decoding
    Fault(
        "nucleus-one-token-more",
        "decoding/sampling.py",
        "sums[..., :-1] < top_p * sums[..., -1:]",
        "sums[..., :-1] <= top_p * sums[..., -1:]",
    ),
    Fault(
        "beams-not-normalised-by-length",
        "decoding/beam.py",
        "math.pow(max(1, self.length), length_penalty)",
        "math.pow(max(1, self.length + 1), length_penalty)",
    ),
    # evaluation
    Fault("wilson-interval", "evaluation/bootstrap.py", "z**2 / (4 * n_X**2)", "z**2 / (2 * n_X**2)"),
    Fault(
        "smape-is-a-share",
        "series/forecasting/score.py",
        "mean_of_known(200 * np.divide",
        "mean_of_known(2 * np.divide",
    ),
    # inspection
    Fault(
        "jacobians-in-the-wrong-order",
        "inspection/jacobians.py",
        "whole_SS = whole_SS @ all_TSS[end - back]",
        "whole_SS = all_TSS[end - back] @ whole_SS",
    ),
    Fault(
        "probe-in-another-base",
        "inspection/probing.py",
        "np.log(np.exp(logits_NC).sum(axis=1, keepdims=True))",
        "np.log2(np.exp(logits_NC).sum(axis=1, keepdims=True))",
    ),
    # training
    Fault(
        "clipping-forgets-the-scale",
        "training/weights.py",
        "((norm + 1e-6) / largest).clamp(min=1.0) * scaled",
        "((norm + 1e-6) / largest).clamp(min=1.0)",
    ),
    Fault("warm-up-never-ends", "training/control.py", "base * min(1.0, at.step / warmup)", "base * at.step / warmup"),
    Fault(
        "split-counts-characters-twice",
        "training/finding.py",
        "            at += len(chunk)\n",
        "            at += len(piece)\n",
    ),
    # runs
    Fault(
        "a-run-has-two-writers",
        "runs/folder.py",
        "    if lock is None:\n        raise _busy(run, storage.lock_owner(path))\n",
        "",
    ),
    Fault("log-of-half-a-line", "runs/folder.py", 'if raw.endswith(b"\\n") else None', "if raw.strip() else None"),
    # series
    Fault(
        "split-off-by-a-horizon",
        "series/table.py",
        "return rows - test - valid, rows - test, rows",
        "return rows - test - valid + 1, rows - test, rows",
    ),
    Fault(
        "learned-from-validation",
        "series/table.py",
        "[: int(self.ends_S3[series, 0])]",
        "[: int(self.ends_S3[series, 1])]",
    ),
    # data
    Fault("scaler-of-the-sample", "data/codecs.py", "numbers.std()", "numbers.std(ddof=len(numbers) > 1)"),
    Fault(
        "parts-of-named-files",
        "data/finding.py",
        "if file not in chosen and own and own[0].part in missing:",
        "if file not in chosen and own:",
    ),
    # text
    Fault(
        "lines-lose-their-last",
        "text/reading.py",
        '    if last := "".join(unfinished):\n        yield last\n',
        '    if last := "".join(unfinished[:1]):\n        yield last\n',
    ),
    Fault(
        "rare-words-uncounted",
        "text/tokenizers/base.py",
        "count >= min_count and form not in reserved",
        "count > min_count and form not in reserved",
    ),
    # images
    Fault("permuted-by-another-seed", "vision/pictures/codec.py", "PERMUTATION = 92916", "PERMUTATION = 92917"),
    Fault(
        "columns-first-pictures-are-read-as-rows",
        "vision/pictures/archives.py",
        'begin, shape, "F" if fortran else "C")',
        'begin, shape, "C")',
    ),
    # tasks
    Fault(
        "thinned-windows-lose-the-last",
        "series/table.py",
        "np.linspace(0, len(windows) - 1, most)",
        "np.linspace(0, len(windows) - 2, most)",
    ),
    Fault(
        "forecast-after-the-gap",
        "series/table.py",
        "int(observed_ends(table)[series])",
        "int(observed_ends(table)[series]) - 1",
    ),
    # comparing
    Fault(
        "spread-of-the-population",
        "comparing/differences.py",
        "statistics.stdev(samples)",
        "statistics.pstdev(samples)",
    ),
    Fault("match-in-thousands", "comparing/budget.py", '"m": 1_000_000', '"m": 1_024_000'),
    # figures
    Fault(
        "caption-not-escaped", "figures/figure.py", "caption = escape(figure.caption)", "caption = str(figure.caption)"
    ),
    Fault("table-cell-not-escaped", "base/tabular.py", "html.escape(_readable(value))", "_readable(value)"),
    # export
    Fault(
        "c-trie-search",
        "export/c/templates.c",
        "return low < end && word[low] == w ? low : 0;",
        "return low < end ? low : 0;",
    ),
    Fault(
        "page-title-not-escaped",
        "export/html/target.py",
        'html.escape(title.encode("utf-8", "replace").decode())',
        'title.encode("utf-8", "replace").decode()',
    ),
    # serving
    Fault("guesses-are-free", "serving/guard.py", "0.0 if record.wrong <= FREE", "0.0 if record.wrong >= 0"),
    Fault("nested-bodies", "serving/guard.py", "            self.level -= 1\n", "            self.level = 0\n"),
    # studio
    Fault("page-shows-percent-as-share", "studio/page/parts/numbers.js", "short(100 * share)", "short(share)"),
    Fault(
        "page-hides-a-failing-model",
        "studio/page/parts/dom.js",
        "return answers.filter((one) => !one.error);",
        "return answers;",
    ),
    # the terminal and what all share
    Fault("terminal-obeys-a-stranger", "base/progress.py", "\\x7f-\\x9f", "\\x7f"),
    Fault("packages-imported-without-a-lock", "base/packages.py", "    with _importing:\n", "    if package:\n"),
)


@contextmanager
def seeded(copy: Path, fault: Fault) -> Iterator[None]:
    """The copy with the fault in it."""
    path = copy / "src" / "thereafter" / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.before) != 1:
        raise SystemExit(
            f"{fault.name}: {fault.before!r} stands {text.count(fault.before)} times in {fault.file}, not once"
        )
    path.write_text(text.replace(fault.before, fault.after), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def nearest_first(files: list[str], fault: Fault) -> list[str]:
    """The tests of its own file and room before the others, without those that look for the text of a fault."""
    room, name = fault.file.split("/")[0].removesuffix(".py"), Path(fault.file).stem
    files = [file for file in files if not file.startswith("tests/reach/")]
    return sorted(files, key=lambda file: (f"test_{name}" not in file, f"tests/{room}/" not in file, file))


def failing(copy: Path, files: list[str], marks: str) -> str | None:
    """The first test that fails; None if all pass. Few files at first, since pytest collects all of them."""
    conftests = {"tests/studio", "tests/tasks"}
    groups: dict[str, list[str]] = {}
    for file in files:  # two folders have a conftest.py of one name
        folder = str(Path(file).parent)
        groups.setdefault(folder if folder in conftests else "", []).append(file)
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    for group in groups.values():
        for begin, end in pairwise((0, 2, 10, *range(40, len(group) + 40, 40))):
            if begin >= len(group):
                break
            words = [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-m",
                marks,
                "-p",
                "no:cacheprovider",
                *group[begin:end],
            ]
            done = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True)
            if done.returncode not in (0, 5):
                lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return lines[0] if lines else f"exit status {done.returncode}: {done.stdout[-300:]}"
    return None


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", help="faults by name; all of them without any")
    options.add_argument("--set", choices=MARKS, default="test")
    options.add_argument("--copy", type=Path, required=True, help="a copy of the repository, to be spoilt")
    given = options.parse_args()
    missed = 0
    # read once, before any fault is made: a fault adds no edge, and what is unknown could only choose more
    reach = Reach(json.loads(MAP.read_text(encoding="utf-8")))
    for fault in FAULTS:
        if given.names and fault.name not in given.names:
            continue
        begun = time.monotonic()
        chosen, _ = reach.selected([f"src/thereafter/{fault.file}"])
        files = nearest_first(list(chosen), fault)
        with seeded(given.copy, fault):
            caught = failing(given.copy, files, MARKS[given.set])
        missed += caught is None
        seconds = time.monotonic() - begun
        sys.stdout.write(f"{fault.name}: {len(files)} files, {seconds:.0f} s: {caught or 'NOT CAUGHT'}\n")
        sys.stdout.flush()
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
