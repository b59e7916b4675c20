"""What all tests share: where the corpora are, a cache of their own, quiet and seeded hypothesis."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from thereafter.folders import cache_folder
from where import find_data

# Tests are handed out by files (and in this order, by --no-loadscope-reorder). Those of a few slow tests come first: at
# the end a core would wait for one of them.
FIRST = ("test_kill.py", "test_team.py", "test_train_panel.py", "test_recipes.py", "test_jobs.py", "test_start.py")
collect_ignore = ["oracles"]  # scripts for the oracles' own interpreter

settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


# Compiled kernels are slow to make: tests keep them where the user's own are, whatever cache a test is given.
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "numba"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in FIRST)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or litters the user's cache, compiled kernels excepted."""
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Test tensors are tiny and tests run side by side: a second torch thread would only wait for the first."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of classic corpora, with THEREAFTER_DATA pointing to it."""
    folder = find_data()
    if folder is None:
        pytest.skip("SKIPPED LOUDLY: no corpora; set THEREAFTER_DATA to a folder holding ptb/, time-machine/, ...")
    monkeypatch.setenv("THEREAFTER_DATA", str(folder))
    return folder
