"""Recurrent layers on a GPU: what our door adds to cuDNN, and what the plain loop costs where cuDNN has no such cell.

    PYTHONPATH=src python benchmarks/recurrent_gpu.py      numpy and torch are enough

Forward + backward in milliseconds, medians of device events, input = hidden.
"""

from __future__ import annotations

import statistics
import sys

import torch

from thereafter import nn
from thereafter.kernels.scan import KERNELS

SIZES = [(64, 70, 1150), (128, 128, 512), (64, 256, 1024), (16, 1024, 768), (64, 512, 256)]


def milliseconds(module: torch.nn.Module, x: torch.Tensor, repeats: int = 15) -> float:
    def once() -> None:
        module.zero_grad(set_to_none=True)
        module(x)[0].sum().backward()

    for _ in range(3):
        once()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        once()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def main() -> int:
    if not torch.cuda.is_available():
        print("no GPU here")
        return 2
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    for name in KERNELS:
        print(f"  {name:<10} {KERNELS.load(name).status()}")
    print("batch, steps, hidden      dtype     LSTM torch / ours   GRU torch / ours    peephole (reference loop)")
    for batch, steps, hidden in SIZES:
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            x = torch.randn(batch, steps, hidden, device="cuda", dtype=dtype, requires_grad=True)
            made = {"batch_first": True, "device": "cuda", "dtype": dtype}
            row = []
            for kind in ("LSTM", "GRU"):
                theirs = getattr(torch.nn, kind)(hidden, hidden, **made)
                ours = getattr(nn, kind)(hidden, hidden, **made)
                ours.load_state_dict(theirs.state_dict())
                row.append(f"{milliseconds(theirs, x):7.2f} / {milliseconds(ours, x):7.2f}")
            loop = ""
            if dtype == torch.bfloat16 and steps <= 256:
                loop = f"{milliseconds(nn.LSTM(hidden, hidden, peephole=True, **made), x, repeats=3):.1f}"
            print(f"{(batch, steps, hidden)!s:<24}  {str(dtype)[6:]:<9} {row[0]}   {row[1]}   {loop}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
