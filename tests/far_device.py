"""A device that is not there: tensors that say they lie elsewhere and refuse to be mixed with those of the host.

A `Far` tensor holds a plain one, computes by it, and says that it lies on torch's device `meta`, which every build of
torch has. An operation that is given both kinds raises, as it would on a GPU, and so does `.numpy()`; numbers without
dimensions and indices of the host may be mixed in. So code that forgets a device fails here, on a machine without a
GPU. What a GPU computes is not imitated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

FAR = torch.device("meta")
_aten = torch.ops.aten
_CROSSING = {_aten._to_copy.default, _aten.copy_.default}
_INDEXING = {_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default, _aten._index_put_impl_.default}
_INDEXING |= {_aten._pack_padded_sequence.default}  # lengths lie on the host for every device


class Far(torch.Tensor):
    """A tensor on the device that is not there."""

    near: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, near: torch.Tensor) -> Far:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            near.size(),
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            device=FAR,
        )

    def __init__(self, near: torch.Tensor) -> None:
        self.near = near

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})


class _FarAway(TorchDispatchMode):
    """Inside the block tensors that are asked for on the far device are made there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})


class _Read(TorchFunctionMode):
    """Lists and pinned memory, which torch has for tensors of its own alone."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.tolist and isinstance(args[0], Far):
            return args[0].near.tolist()
        if func is torch.Tensor.__getitem__ and isinstance(args[0], Far):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            args = (args[0], tuple(torch.tensor(one) if isinstance(one, list) else one for one in index))
        if func is torch.tensor and torch.device((kwargs or {}).get("device") or "cpu") == FAR:
            return torch.tensor(*args, **{**kwargs, "device": "cpu"}).to(FAR)  # torch would give it no numbers
        return args[0] if func is torch.Tensor.pin_memory else func(*args, **(kwargs or {}))


class _NearGenerator(torch.Generator):
    """Draws on the host, whatever device it is for."""

    def __new__(cls, device: object = None) -> _NearGenerator:
        return super().__new__(cls, device="cpu")


def _compute(func: Any, args: Any, kwargs: Any) -> Any:
    flat, _ = tree_flatten((args, kwargs))
    far = [one for one in flat if isinstance(one, Far)]
    near = [one for one in flat if isinstance(one, torch.Tensor) and not isinstance(one, Far) and one.dim()]
    if far and near and func not in _CROSSING and not (func in _INDEXING and isinstance(args[0], Far)):
        raise RuntimeError(f"{func} was given tensors of two devices; of the host: {[tuple(n.shape) for n in near]}")
    asked = kwargs.get("device")
    to_far = bool(far) if asked is None else torch.device(asked) == FAR
    if func is _aten.copy_.default:
        to_far = isinstance(args[0], Far)
    if asked is not None and to_far:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    wrappers = {id(one.near): one for one in far}
    inner, named = tree_map(lambda one: one.near if isinstance(one, Far) else one, (args, kwargs))
    result = func(*inner, **named)
    if torch.Tag.inplace_view in func.tags and isinstance(args[0], Far):
        with no_dispatch():
            func(*args, **kwargs)  # its own shape too
    if not to_far:
        return result

    def wrapped(one: object) -> object:
        plain = isinstance(one, torch.Tensor) and not isinstance(one, Far)
        return one if not plain else wrappers[id(one)] if id(one) in wrappers else Far(one)

    if func is _aten._pack_padded_sequence.default:
        return Far(result[0]), result[1]  # sizes stay on the host
    return tree_map(wrapped, result)


@contextmanager
def far_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Inside the block there is a far device, to which networks can be moved."""
    with monkeypatch.context() as patched:
        patched.setattr(torch.__future__, "_overwrite_module_params_on_conversion", True)
        # tensors of inference mode cannot be wrapped
        patched.setattr(torch, "inference_mode", lambda on=True: torch.no_grad() if on else torch.enable_grad())
        patched.setattr(torch, "Generator", _NearGenerator)
        enabled = torch.is_autocast_enabled
        patched.setattr(torch, "is_autocast_enabled", lambda kind="cpu": kind != FAR.type and enabled(kind))
        autocast = torch.autocast
        patched.setattr(torch, "autocast", lambda kind, *a, **k: autocast("cpu" if kind == FAR.type else kind, *a, **k))
        with _FarAway(), _Read():
            yield FAR
