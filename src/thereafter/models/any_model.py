"""A model of whatever kind, where nobody looks into its states."""

from __future__ import annotations

from typing import Any

from thereafter.models.base import SequenceModel

AnyModel = SequenceModel[Any]
"""A `SequenceModel` whose states are of some kind, always its own. Python cannot say "some": `Any` stands for it."""
