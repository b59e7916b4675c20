"""Which kernel computes a chain of tags: the plain loop of `chain.py`, or the programs of `gpu/crf.py`."""

from __future__ import annotations

from thereafter.kernels.chain import Chain, ChainKernel, ChainLoop


def chain_kernel(chain: Chain) -> ChainKernel:
    """What computes a chain: programs where it is on a GPU that has them, else the plain loop."""
    if chain.emissions_BTK.device.type == "cuda":
        from thereafter.kernels.gpu.crf import chains_on_gpu

        return chains_on_gpu(chain) or ChainLoop()
    return ChainLoop()
