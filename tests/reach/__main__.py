"""Which test files a change can reach.

    python tests/reach [--since COMMIT]      their names, one per line: what `make test-changed` runs
    python tests/reach why FILE              which test files a file of the package reaches
    python tests/reach record [WORDS]        run the tests (or pytest with these words) and write map.json anew

What is selected, and why: `reaching.py`. How a recording is made: `recording.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
from collections import defaultdict
from pathlib import Path

from reaching import MAP, ROOT, Reach, all_test_files, as_bits, changed_since, digest, git, modules


def record(words: list[str], folder: Path) -> int:
    """Run pytest with the recording switched on, then write the map."""
    place = Path(sysconfig.get_paths()["purelib"]) / "reach.pth"
    here = str(Path(__file__).parent)
    place.write_text(
        f"import os, sys; 'THEREAFTER_REACH' in os.environ and (sys.path.insert(0, {here!r}), "
        f"__import__('recording').begin(), sys.path.remove({here!r}))\n",
        encoding="utf-8",
    )
    try:
        own = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *words]
        environment = os.environ | {"THEREAFTER_REACH": str(folder)}
        code = subprocess.run([sys.executable, "-m", "pytest", *own], cwd=ROOT, env=environment).returncode
    finally:
        place.unlink()
    write_map(folder)
    return code


def write_map(folder: Path) -> None:
    """What the processes of a recording noted, as the map."""
    by_test: dict[str, set[str]] = defaultdict(set)
    for path in folder.glob("*.json"):
        for test, names in json.loads(path.read_text(encoding="utf-8")).items():
            by_test[test.partition("::")[0]] |= set(names)
    for path in folder.glob("started/*"):
        for file in path.glob("**/*.txt"):
            by_test[path.name.replace("+", "/")] |= set(file.read_text(encoding="utf-8").splitlines())
    ran = {t: {n.partition(":")[0] for n in names if not n.startswith("file:")} for t, names in by_test.items()}
    tracked = set(git("ls-files").splitlines())
    read = {t: {n[5:] for n in names if n.startswith("file:")} & tracked for t, names in by_test.items()}
    names, files = sorted(modules()), sorted(set().union(*read.values()))
    rows = {
        test: [as_bits(names.index(n) for n in ran[test] if n in modules()), as_bits(map(files.index, read[test]))]
        for test in sorted(by_test)
    }
    written = {"modules": {name: digest(modules()[name]) for name in names}, "files": files, "tests": rows}
    MAP.write_text(json.dumps(written, indent=0) + "\n", encoding="utf-8")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("verb", nargs="?", choices=("files", "why", "record", "write"), default="files")
    options.add_argument("words", nargs="*")
    options.add_argument("--since", default="HEAD", help="the commit with which the files are compared")
    options.add_argument("--notes", type=Path, default=ROOT / ".pytest_cache" / "reach", help="notes of a recording")
    given, more = options.parse_known_args()
    if given.verb == "record":
        return record([*given.words, *more], given.notes.absolute())
    if given.verb == "write":
        write_map(given.notes)
        return 0
    reach = Reach(json.loads(MAP.read_text(encoding="utf-8")))
    changed = given.words if given.verb == "why" else changed_since(given.since)
    chosen, everything = reach.selected(changed)
    told = (
        f"everything, because of {everything}" if everything else f"{len(chosen)} of {len(all_test_files())} test files"
    )
    sys.stderr.write(f"{len(changed)} changed files reach {told}\n")
    sys.stdout.write("".join(f"{name}\n" for name in sorted(chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
