"""Wrong tokens cost time: after a few, the answer to each further one from the same address takes ever longer.

A right token never waits and is not counted, whoever guesses from the same address; behind a proxy that is everybody's.
So a guess is compared at once and only its answer is delayed: what keeps a token safe is its length.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

FREE = 10
"""Wrong tokens from one address that cost nothing: whoever mistypes does not wait."""
_FIRST, _LONGEST = 0.1, 2.0  # seconds that the next one takes; doubled each time
_LINE = 6.0  # seconds that an answer is delayed at most; who comes later is told at once to come back
_FORGET = 600.0  # seconds without a wrong token after which an address begins anew
_MOST = 1_000  # addresses that are remembered
_NETWORK = 64  # bits of an IPv6 address that a household has in common


@dataclass
class _Record:
    wrong: int = 0
    free_at: float = 0.0
    last: float = 0.0


class Attempts:
    """Wrong tokens by address."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    async def slow_down(self, address: str) -> int:
        """Count a wrong token and wait. Returns the seconds after which to come back if too many wait, else 0."""
        now, record = time.monotonic(), self._record(address)
        wait = max(0.0, record.free_at - now)
        if wait > _LINE:
            return math.ceil(wait - _LINE)
        record.wrong += 1
        record.last = now
        record.free_at = now + wait + _cost(record.wrong)
        if wait:
            await asyncio.sleep(wait)
        return 0

    def _record(self, address: str) -> _Record:
        key, now = _household(address), time.monotonic()
        record = self._records.get(key)
        if record is None or now - record.last > _FORGET:
            record = self._records[key] = _Record(last=now)
        self._records.move_to_end(key)
        while len(self._records) > _MOST:
            self._records.popitem(last=False)
        return record


def _cost(wrong: int) -> float:
    return 0.0 if wrong <= FREE else min(_LONGEST, _FIRST * 2.0 ** min(30, wrong - FREE - 1))


def _household(address: str) -> str:
    """An address as it is counted: of IPv6 its network, in which anybody can take as many addresses as they like."""
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, IPv6Address):
        return str(known.ipv4_mapped or ip_network((known, _NETWORK), strict=False))
    return str(known)
