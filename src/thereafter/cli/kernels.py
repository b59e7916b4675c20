"""`thereafter kernels`."""

from __future__ import annotations

import typer

from thereafter.base.tabular import Row
from thereafter.cli.app import app
from thereafter.cli.tables import AsCsv, AsJson, print_rows


@app.command()
def kernels(as_csv: AsCsv = False, as_json: AsJson = False) -> None:
    """List the kernels of recurrent layers: which run on this machine, and why the others do not.

    Also what is known about the processor, where each figure comes from, and what follows from them: the tiles that
    products are made of, and what the threads of a scan share. THEREAFTER_VECTORS=16x32 (bytes x registers) and
    THEREAFTER_CACHES=L1d=64K,L2=1M take the place of what was read.

    Example: thereafter kernels
    """
    import numpy  # noqa: F401, torch would import it, and lose a Ctrl-C that falls into that
    import torch

    from thereafter.base import spinning
    from thereafter.base.processor import processor, usable
    from thereafter.base.tiling import tiling
    from thereafter.kernels import onednn
    from thereafter.kernels.scan import KERNELS, sharing_lines

    lines = {name: KERNELS.load(name).status() for name in KERNELS}
    lines |= processor().lines() | tiling().lines()
    lines["threads"] = f"torch uses {torch.get_num_threads()} of {usable()} processors"
    lines["waiting"] = spinning.line()
    lines |= sharing_lines()
    lines["bfloat16"] = onednn.status()
    rows: list[Row] = [{"name": name, "status": text} for name, text in lines.items()]
    if print_rows(rows, as_csv=as_csv, as_json=as_json):
        return
    for name, text in lines.items():
        typer.echo(f"{name:<10} {text}")
