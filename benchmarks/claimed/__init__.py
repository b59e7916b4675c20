"""The experiments behind docs/claims.md, at any size: tests run them small, `benchmarks/claims.py` larger."""
