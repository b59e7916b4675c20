"""Beyond the next word: tasks that learn from whole examples, on the same cells, training loop and run folders.

A task (`task.py`) says how its examples are read, what stands in its lexicons, how examples become a batch, which
network learns from them, and how its answers are measured. `fitting` trains any of them, `store` keeps them.
"""

from thereafter.registry import Registry

TASKS = Registry(
    "task",
    {
        "tag": "thereafter.tasks.tagging:TAGGING",
        "classify": "thereafter.tasks.classifying:CLASSIFYING",
        "fill": "thereafter.tasks.filling:FILLING",
        "translate": "thereafter.tasks.translating:TRANSLATING",
    },
)

__all__ = ["TASKS"]
