"""Pictures classified step by step: the task."""
