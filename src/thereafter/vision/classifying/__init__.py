"""Pictures classified step by step: task, the examples of its files (`examples`), what it is compared with."""
