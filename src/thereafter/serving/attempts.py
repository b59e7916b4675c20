"""Wrong tokens cost time: after a few, each further one from the same address must wait its turn, ever longer.

A token is looked at only when its turn has come, so trying many at once, or giving up on the answer, wins nothing. A
right one waits in the same line, some seconds at most, and is let in; whoever has the cookie never waits, since that
cannot be guessed. Other addresses are not concerned.
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
_LINE = 6.0  # seconds that one may stand in line; who comes later has to come back
_FORGET = 600.0  # seconds without a wrong token after which an address begins anew
_MOST = 1_000  # addresses that are remembered
_NETWORK = 64  # bits of an IPv6 address that a household has in common


@dataclass
class _Record:
    wrong: int = 0
    free_at: float = 0.0
    last: float = 0.0


class Attempts:
    """Who has tried how often."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    async def turn(self, address: str) -> int:
        """Wait until a token from this address may be looked at; what is looked at counts as wrong until `forgive`.

        Returns the seconds after which to come back where the line is too long, else 0.
        """
        now, one = time.monotonic(), self._record(address)
        wait = max(0.0, one.free_at - now)
        if wait > _LINE:
            return math.ceil(wait - _LINE)
        one.wrong += 1
        one.last = now
        one.free_at = now + wait + _cost(one.wrong)
        if wait:
            await asyncio.sleep(wait)
        return 0

    def forgive(self, address: str) -> None:
        """The token was right."""
        one = self._record(address)
        one.wrong = max(0, one.wrong - 1)

    def _record(self, address: str) -> _Record:
        key, now = _household(address), time.monotonic()
        one = self._records.get(key)
        if one is None or now - one.last > _FORGET:
            one = self._records[key] = _Record(last=now)
        self._records.move_to_end(key)
        while len(self._records) > _MOST:
            self._records.popitem(last=False)
        return one


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
