"""What follows from a processor's figures: rules for several sets of them, and the same loops compiled for each."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from refusals import assert_refused
from thereafter.base import compiled
from thereafter.base.processor import PANEL, Processor, Vectors, read_vectors, tiling, tiling_for
from thereafter.base.storage import take_lock
from thereafter.errors import OptionError
from thereafter.kernels.cpu import plan

AVX512, AVX2, NEON, SSE = Vectors(64, 32), Vectors(32, 16), Vectors(16, 32), Vectors(16, 16)
OTHERS = [name for name in ("16x32", "32x16", "64x32") if Vectors.from_text(name).bytes != tiling().vectors.bytes]
"""Than this machine's."""

compiles = pytest.mark.skipif(not compiled.available(), reason="numba is not here")


@pytest.mark.parametrize(
    ("vectors", "level_1", "tile", "depth"),
    [
        (AVX512, 32 << 10, (6, 4), 128),
        (AVX512, 48 << 10, (6, 4), 192),
        (AVX2, 32 << 10, (6, 2), 256),
        (NEON, 64 << 10, (6, 4), 512),
        (SSE, 32 << 10, (6, 2), 512),
    ],
    ids=str,
)
def test_a_tile_by_vectors_registers_and_cache(
    vectors: Vectors, level_1: int, tile: tuple[int, int], depth: int
) -> None:
    made = tiling_for(vectors, level_1)
    assert ((made.rows(PANEL), made.width(PANEL)), made.depth) == (tile, depth)
    assert f"{tile[0]} rows x {tile[1]} vectors, {depth} rows" in made.lines()["tiles"]


@pytest.mark.parametrize("registers", [8, 12, 16, 24, 32, 64])
@pytest.mark.parametrize("size", [16, 32, 64])
def test_every_tile_fits_the_registers(size: int, registers: int) -> None:
    made = tiling_for(Vectors(size, registers), 1 << 10)  # a cache of next to nothing
    assert made.depth >= 64
    for panel in range(1, PANEL + 1):
        rows, width = made.rows(panel), made.width(panel)
        assert panel % width == 0
        assert rows >= 1
        assert rows * width + width + 1 <= registers


def test_machine_code_of_different_figures_is_kept_apart() -> None:
    keys = {tiling_for(vectors, level_1).key for vectors in (AVX512, AVX2, NEON, SSE) for level_1 in (16384, 32768)}
    assert len(keys) == 8


def test_vectors_are_read_or_named() -> None:
    assert read_vectors("aarch64", {}) == Vectors(16, 32, "aarch64")
    assert read_vectors("x86_64", {"avx": True, "avx512f": True}) == Vectors(64, 32, "LLVM: AVX-512")
    assert read_vectors("x86_64", {"avx": True, "avx512f": False}) == Vectors(32, 16, "LLVM: AVX")
    assert read_vectors("x86_64", {"avx": False}) == Vectors(16, 16, "LLVM: SSE")
    assert "assumed" in read_vectors("riscv64", {}).source
    assert Vectors.from_text(" 32x16 ") == Vectors(32, 16, "THEREAFTER_VECTORS")
    for wrong in ("32", "x", "32x", "24x16", "128x32", "16x4", "16x999", "-16x32"):
        with assert_refused(OptionError, "THEREAFTER_VECTORS"):
            Vectors.from_text(wrong)


def machine(monkeypatch: pytest.MonkeyPatch, level_2: int, threads: int) -> None:
    """One with such a cache, and such a number of threads."""
    monkeypatch.setattr(plan, "processor", lambda: Processor("an architecture", "a name", caches={"L2": level_2}))
    monkeypatch.setattr(plan, "threads", lambda: threads)


def matrix(gates: int, columns: int, units: int) -> int:
    """Bytes in float32."""
    return 4 * gates * units * columns


@compiles
@pytest.mark.parametrize(
    ("level_2", "threads", "rows", "gates", "units", "by_rows"),
    [
        (1 << 20, 2, 32, 4, 256, True),  # just fills the cache
        (800 << 10, 2, 32, 4, 256, False),
        (512 << 10, 2, 32, 4, 256, False),
        (512 << 10, 2, 32, 3, 200, True),
        (2 << 20, 2, 20, 4, 1150, False),
        (1 << 20, 2, 3, 4, 128, False),  # too few rows
        (1 << 20, 2, 4, 4, 128, True),
        (1 << 20, 64, 32, 4, 128, False),  # fewer parts of rows than threads
        (1 << 20, 1, 2, 4, 128, True),
    ],
)
def test_rows_or_units_by_cache_and_threads(
    level_2: int, threads: int, rows: int, gates: int, units: int, by_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, level_2, threads)
    assert plan.shares_rows(rows, matrix(gates, units, units)) == by_rows
    assert plan.shares_rows(rows, matrix(gates, plan.most_units(gates), plan.most_units(gates))) >= by_rows
    assert not plan.shares_rows(rows, matrix(gates, plan.most_units(gates) + 1, plan.most_units(gates) + 1))


@pytest.mark.parametrize(
    ("level_2", "rows", "by_rows", "inputs", "units", "inside"),
    [
        (1 << 20, 64, True, 128, 128, True),
        (256 << 10, 64, True, 128, 128, False),
        (1 << 20, 32, True, 256, 256, False),
        (2 << 20, 32, True, 256, 256, True),
        (2 << 20, 32, False, 256, 256, True),  # half of each of two caches
        (1 << 20, 32, False, 256, 256, False),
        (1 << 20, 32, False, 30, 1150, True),  # W is little beside the pre-activations
        (1 << 20, 15, True, 30, 30, False),
    ],
)
def test_the_input_inside_or_before_the_steps(
    level_2: int, rows: int, by_rows: bool, inputs: int, units: int, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, level_2, 2)
    assert plan.input_inside(rows, matrix(4, inputs + units, units), by_rows, inputs) == inside


@compiles
def test_what_follows_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 1 << 20, 2)
    assert "2 threads own rows of a batch of 4 or more" in plan.lines()["sharing"]
    assert "LSTM up to 256 units, GRU up to 295 units, RNN up to 512 units (float32)" in plan.lines()["sharing"]
    assert "16 rows in 4" in plan.lines()["parts"]
    machine(monkeypatch, 1 << 20, 64)
    assert "64 threads own rows of a batch of 512 or more" in plan.lines()["sharing"]
    monkeypatch.setattr(compiled, "missing", lambda: "numba is not here")
    assert plan.lines() == {}


CODE = """
import numpy as np
from thereafter.kernels.loops import recurrence, vectors
from thereafter.kernels.loops.team import PRODUCT
from thereafter.kernels.loops.tiles import product
from thereafter.base.processor import tiling

task = np.zeros(PRODUCT + 1, np.int64)
task[PRODUCT] = product(np.dtype(np.float32)).address
random = np.random.default_rng(0)
for gates, units, columns, rows in [(4, 37, 150, 13), (3, 20, 33, 5), (4, 16, 64, 1), (3, 70, 130, 16), (1, 9, 7, 2)]:
    width = gates * units
    weight, a, start, dz = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((width, columns), (rows, columns), (rows, width), (rows, width))
    )
    packed = np.full(recurrence.packed_size(width, columns, units, 4), np.nan, np.float32)
    spare = np.empty(recurrence.spare_size(rows, 4), np.float32)
    z, d = np.empty_like(start), a.copy()
    recurrence.pack_gates(weight, units, packed, 0, units)
    recurrence.gates_product(task, 0, a, units, packed, start, z, 0, units, spare)
    recurrence.pack_columns(weight, packed, 0, columns, 0, 1)
    recurrence.columns_product(task, 1, dz, packed, d, 0, columns, spare)
    np.testing.assert_allclose(z, start + a @ weight.T, rtol=0, atol=1e-4)
    np.testing.assert_allclose(d, a + dz @ weight, rtol=0, atol=1e-4)
print(tiling().vectors.bytes, tiling().vectors.registers, tiling().depth)
"""


@compiles
@pytest.mark.wide
@pytest.mark.parametrize("named", OTHERS)
def test_products_compiled_for_other_vectors_and_caches(named: str) -> None:
    """In a process of its own: figures are settled when the loops are compiled. Panels are longer than a part."""
    env = os.environ | {"THEREAFTER_VECTORS": named, "THEREAFTER_CACHES": "L1d=8K,L2=512K"}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=env)
    asked, depth = Vectors.from_text(named), 128 if named.startswith("16x") else 64
    assert done.stdout.split() == [str(number) for number in (asked.bytes, asked.registers, depth)], done.stderr


@compiles
def test_what_another_process_compiles_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thereafter.kernels.loops.tiles import types

    def nothing_at_all(address: int) -> None:
        pass

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    other = take_lock(compiled.kernel_folder() / "nothing_at_all.lock")
    assert other is not None
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(compiled.c_function, types.void(types.int64), nothing_at_all)
        with pytest.raises(TimeoutError):
            made.result(0.2)
        other.release()
        assert made.result(60).address
    assert not list(tmp_path.rglob("*.lock"))
    assert len(list(tmp_path.rglob("*nothing_at_all*.nbc"))) == 1
