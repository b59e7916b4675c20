"""The table of `make bench`: it runs at the sizes of a toy, its rows can be read, and no endless loop outlives it."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "benchmarks" / "processor_table.py"
LOOP = """
import time
from endless import endless_loops
with endless_loops() as pids:
    print(*pids, flush=True)
    time.sleep(60)
"""


def is_at_work(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """What the smallest table prints, and the folder that it was written into."""
    folder = tmp_path_factory.mktemp("benchmarks")
    (folder / "README.md").write_text("# Benchmarks\n\nBefore.\n", encoding="utf-8")
    env = os.environ | {"THEREAFTER_ORACLES": str(folder / "none"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, TABLE, "--tiny", "--only", "elman,ngram,busy"]
    command += ["--json", folder / "rows.json", "--write", folder]
    return subprocess.run(command, env=env, capture_output=True, text=True), folder


@pytest.mark.wide
def test_the_table_has_every_row_with_what_is_required(printed: tuple[subprocess.CompletedProcess[str], Path]):
    done, folder = printed
    whole = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    rows = {row["figure"]: row for row in whole["figures"]}
    elman, share = rows["Elman (2, 3, 4, 80) against best torch"], rows["LSTM, projected (2, 3, 4, 80) beside a loop"]
    assert (elman["required"], share["required"], share["aim"]) == (1.0, 0.4, 0.5)
    assert rows["Elman against best torch, geometric mean"]["required"] == 1.4
    for row in rows.values():
        assert row["got"] > 0
        assert row["ok"] == (row["got"] >= row["required"])
        ratio = f"{row['got'] / row['required']:.2f}"
        verdict = "ok" if row["ok"] else "MISSED"
        lines = [line.split() for line in done.stdout.splitlines() if line.startswith(row["figure"])]
        assert lines[-1][len(row["figure"].split()) :][0] == f"{row['got']:.2f}"
        assert ratio in lines[-1]
        assert verdict in lines[-1]
    assert list(whole["absent"]) == ["ngram"]  # named, and the parts after it are there
    assert done.returncode == 2, done.stderr
    assert "*** NOT MEASURED: ngram: " in done.stdout


@pytest.mark.wide
def test_a_run_is_kept_for_its_kind_of_machine(printed: tuple[subprocess.CompletedProcess[str], Path]):
    _, folder = printed
    whole = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert page.startswith("# Benchmarks\n\nBefore.\n\n")
    assert page.count(f"<!-- figures: {whole['machine']} -->") == page.count("<!-- end of figures -->") == 1
    figures = [
        "Elman against best torch",
        "Elman against best torch, geometric mean",
        "LSTM, projected beside a loop",
        "Elman beside a loop",
    ]
    assert list(rows_of(page)) == figures
    (diary,) = (folder / "diary").iterdir()
    kept = diary.read_text(encoding="utf-8")
    assert kept.count(whole["machine"]) == 1
    for row in whole["figures"]:
        assert f"| {row['figure']} | {row['got']:.2f} |" in kept


def rows_of(page: str) -> dict[str, list[str]]:
    """The cells of the rows of all tables, by the first."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    return {first: rest for first, *rest in lines if first not in ("figure", "---")}


def test_a_part_measured_again_takes_the_place_of_its_own_rows():
    spec = importlib.util.spec_from_file_location("recorded", TABLE.with_name("recorded.py"))
    assert spec is not None
    assert spec.loader is not None
    recorded = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "recorded", recorded)
        spec.loader.exec_module(recorded)
    row = {"required": 1.0, "aim": None, "ok": True, "beside": ""}
    sizes = [row | {"figure": f"GRU ({n}, 2) against torch", "got": 1.0 + n, "time": "first"} for n in (1, 2)]
    other = row | {"figure": "Elman against torch", "got": 1.5, "time": "first"}
    x86, arm = (recorded.Run(machine, "facts", "2026-11-17 12:00") for machine in ("x86, 2 cores", "arm, 2 cores"))
    page = recorded.with_table("text\n", x86, [*sizes, other])
    page = recorded.with_table(page, arm, [other])
    again = recorded.with_table(page, x86, [sizes[0], sizes[1] | {"got": 0.5, "ok": False, "time": "second"}])
    ours, theirs = again.split("<!-- figures: arm, 2 cores -->")
    assert rows_of(ours) == {
        "GRU against torch": ["2.00, 0.50", "1.0", "", "**MISSED**", "second"],
        "Elman against torch": ["1.50", "1.0", "", "ok", "first"],
    }
    assert theirs == page.split("<!-- figures: arm, 2 cores -->")[1]


@pytest.mark.parametrize(
    "end", [*(pytest.param(one, marks=pytest.mark.wide) for one in (signal.SIGINT, signal.SIGTERM)), signal.SIGKILL]
)
def test_no_endless_loop_outlives_the_benchmark(end: signal.Signals):
    command = [sys.executable, "-c", LOOP]
    with subprocess.Popen(
        command, cwd=TABLE.parent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as benchmark:
        assert benchmark.stdout is not None
        pids = [int(pid) for pid in benchmark.stdout.readline().split()]
        assert len(pids) == 1
        assert is_at_work(pids[0])
        benchmark.send_signal(end)
        benchmark.wait(60)
    until = time.monotonic() + 60
    while is_at_work(pids[0]) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_at_work(pids[0])
