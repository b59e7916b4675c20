"""What TorchScript is answered: it cannot compile recurrent layers that choose a kernel while they run."""

from __future__ import annotations

from typing import NoReturn

from torch import nn

from thereafter.errors import OptionError


class Unscriptable(nn.Module):
    """A module that `torch.jit.script` refuses in a sentence; `torch.jit.trace` takes it."""

    def __prepare_scriptable__(self) -> NoReturn:
        """What torch.jit.script asks of every module before it looks into it."""
        raise OptionError(
            f"{type(self).__name__} cannot be compiled by torch.jit.script: it chooses its kernel while it runs; "
            "try torch.export.export(layer, ...) or torch.jit.trace(layer, x), or `thereafter export` for a model"
        )
