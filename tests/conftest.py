"""What all tests share: where the corpora are, a cache of their own, quiet and seeded hypothesis."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from leftovers import changes, seed_everything, traces
from shuffling import shuffled
from slowest import SlowestFiles
from stand_ins import write_corpora
from thereafter.base.storage import cache_folder
from thereafter.data.catalogue import CARDS, CorpusCard
from where import find_data

# Tests are handed out by files (and in this order, by --no-loadscope-reorder). Those of a few slow tests come first: at
# the end a core would wait for one of them.
FIRST = (
    "test_kill.py",
    "test_team.py",
    "test_anew.py",
    "test_train_panel.py",
    "test_recipes.py",
    "test_jobs.py",
    "test_start.py",
)
CLASSIC = find_data()  # before any test changes the variable that names it
collect_ignore = ["oracles"]  # scripts for the oracles' own interpreter

settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


# Compiled kernels are slow to make: tests keep them where the user's own are, whatever cache a test is given.
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "numba"))


# The same for every process that a test starts, where tests run side by side: two threads that wait for a busy core are
# many times slower than one. Tests about threads say how many they want.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


# A shell that starts the tests in the background has them ignore Ctrl-C, and every process they start would ignore it,
# too: what stops a training could not be tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _make_experiments_importable() -> None:
    """`claimed`, the experiments of tests/claims, stands beside the script that prints the table of docs/claims.md.
    That folder cannot be on the path: its tasks.py would hide tests/tasks."""
    folder = Path(__file__).parents[1] / "benchmarks" / "claimed"
    spec = importlib.util.spec_from_file_location(
        "claimed", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["claimed"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


_make_experiments_importable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file named `..._widely.py` holds nothing that `make test` runs: it is not even imported there."""
    return True if collection_path.name.endswith("_widely.py") and "not wide" in config.option.markexpr else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of a file, in another order")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # of several processes the one that hears of all tests
        config.pluginmanager.register(SlowestFiles(), "slowest files")
    if (recording := sys.modules.get("recording")) is not None:  # see tests/reach
        config.pluginmanager.register(recording.Recorder(Path(os.environ[recording.VARIABLE])).hooks(), "recorder")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """At the end, beside what failed: a quiet run prints no header."""
    seed = config.getoption("shuffle")
    if seed is not None:
        terminalreporter.write_line(f"shuffled: --shuffle {seed} gives this order again")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("shuffle")
    if seed is None:
        items.sort(key=lambda item: item.path.name not in FIRST)
    else:
        items[:] = shuffled(items, seed)


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    """A test that changes what others see fails itself, and not a later one that nobody suspects."""
    before = traces()
    yield
    left = changes(before, traces())
    assert not left, "the test leaves behind: " + "; ".join(left)


@pytest.fixture(autouse=True)
def _own_cache(_no_leftovers: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or litters the user's cache, compiled kernels excepted."""
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Every test starts from the same seeds, and with one thread: its tensors are tiny and tests run side by side, so a
    second thread would only wait for the first.

    A hook and no fixture, so that it holds for the models, too, that the tests of a file share.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    seed_everything()


# Corpora. A test that pins a figure of a public one asks for `data` and is marked `corpus`. Whatever holds for any text
# asks for `corpora_folder` and runs on generated files as well: without the classic ones those figures alone are lost.


def classic_corpora(lost: str) -> Path:
    """The folder of classic corpora; a test that needs it skips, loudly, where it is not, and says what is lost."""
    if CLASSIC is None:
        pytest.skip(f"SKIPPED LOUDLY: no corpora; {lost}; set THEREAFTER_DATA to a folder holding ptb/, sst2/, ...")
    return CLASSIC


def _settings_of_torch(torch: Any) -> dict[str, Any]:
    """What one test could change for all that come after it in the same process."""
    return {
        "threads": torch.get_num_threads(),
        "oneDNN": torch.backends.mkldnn.enabled,
        "default type": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "anomalies": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "flushing": float(torch.tensor(1e-40) * 1.0),  # 0 where numbers as small as this are taken for 0
    }


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    """A test that leaves torch set otherwise than it was fails; seeds are free, torch's generator is put back."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before, drawn = _settings_of_torch(torch), torch.get_rng_state()
    yield
    torch.set_rng_state(drawn)
    after = _settings_of_torch(torch)
    changed = [f"{name} was {before[name]}, is {after[name]}" for name in before if before[name] != after[name]]
    if changed:
        torch.set_num_threads(before["threads"])
        torch.backends.mkldnn.enabled = before["oneDNN"]
        torch.set_default_dtype(before["default type"])
        torch.set_grad_enabled(before["gradients"])
        torch.use_deterministic_algorithms(before["deterministic"])
        pytest.fail(f"the test leaves torch changed: {'; '.join(changed)}")


@pytest.fixture
def bfloat16() -> Iterator[None]:
    """For tests that multiply in bfloat16 themselves: torch's own products where oneDNN has none on this processor."""
    import torch

    from thereafter.kernels.switches import sparing_onednn

    with sparing_onednn(torch.bfloat16):
        yield


@pytest.fixture
def data(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of classic corpora, with THEREAFTER_DATA pointing to it."""
    marker = request.node.get_closest_marker("corpus")
    if marker is None:
        pytest.fail("a test on classic corpora alone is marked `corpus`, with the figure it pins; try corpora_folder")
    folder = classic_corpora(f"not checked: {marker.args[0]}")
    monkeypatch.setenv("THEREAFTER_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, CorpusCard]]:
    """A folder of generated corpora, and the cards that describe them."""
    folder = tmp_path_factory.mktemp("stand-ins")
    return folder, write_corpora(folder)


@pytest.fixture(scope="session")
def classic_folder() -> Path:
    """The folder of the classic corpora; skips where they are not here."""
    return classic_corpora("checked on generated files alone")


@pytest.fixture(scope="module", params=["stand-in", "classic"])
def corpora_on_disk(request: pytest.FixtureRequest) -> Path:
    """A folder with every named corpus as files: generated ones, then the classic ones where they are here."""
    if request.param == "classic":
        return request.getfixturevalue("classic_folder")
    return request.getfixturevalue("stand_ins")[0]


@pytest.fixture
def corpora_folder(corpora_on_disk: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with THEREAFTER_DATA pointing to it, so that corpora are found by name."""
    if corpora_on_disk != CLASSIC:
        for name, card in request.getfixturevalue("stand_ins")[1].items():
            monkeypatch.setitem(CARDS, name, card)
    monkeypatch.setenv("THEREAFTER_DATA", str(corpora_on_disk))
    return corpora_on_disk
