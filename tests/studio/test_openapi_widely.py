"""More requests than in test_openapi.py, and to every verb: 6 in `make test-all`, 40 in `make test-slow`.

A file of its own: schemathesis draws requests while tests are collected, ten seconds for those of all verbs.
"""

from __future__ import annotations

import pytest
from test_openapi import VERBS, api, promise

__all__ = ["api"]

for name, (path, method) in VERBS.items():
    globals()[f"test_some_requests_to_{name}"] = pytest.mark.wide(promise(path, method, 6))
    globals()[f"test_many_requests_to_{name}"] = pytest.mark.slow(promise(path, method, 40))
