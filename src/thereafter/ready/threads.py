"""One thread for small trainings, whatever the machine has.

The models here do so little in a step that a second thread wins a tenth to a half on a machine with nothing else to do,
and beside another busy process loses ten times that: threads wait for each other at the end of every operation. With
one, the last bits do not depend on the number of cores either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch works on one thread; afterwards on as many as before."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
