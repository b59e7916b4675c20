"""Run by `torch_tools.py`, twice: one of two processes that train together over gloo.

torch_tools_worker.py FOLDER RANK LAYER ...      rank 0 writes FOLDER/rows.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from torch_tools import batch, failed, made, off


def work(folder: str, rank: int, names: list[str]) -> None:
    """One of two processes: the gradients of half a batch, averaged, against those of the whole batch alone."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh = torch.distributed.init_device_mesh("cpu", (2,))
    x = batch(4, 6)[0]
    rows: dict[str, dict[str, str]] = {}
    for name in names:
        alone = made(name)
        alone(x)[0].square().mean().backward()
        expected = [weight.grad for weight in alone.parameters()]
        rows[name] = {}
        for tool, wrap in (
            ("DDP", lambda layer: DistributedDataParallel(layer)),
            ("FSDP", lambda layer: fully_shard(layer, mesh=mesh)),
        ):
            try:
                layer = wrap(made(name))
                layer(x[2 * rank : 2 * rank + 2])[0].square().mean().backward()
                grads = [weight.grad for weight in layer.parameters()]
                grads = [grad.full_tensor() if hasattr(grad, "full_tensor") else grad for grad in grads]
                rows[name][tool] = f"{off(grads, expected):.1g}"
            except Exception as error:
                rows[name][tool] = failed(error)
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    work(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
