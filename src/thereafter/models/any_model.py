"""A model of any kind, for code that passes its states on without looking into them."""

from __future__ import annotations

from typing import Any

from thereafter.models.base import SequenceModel

AnyModel = SequenceModel[Any]
"""A `SequenceModel` whose states are of some kind, always its own. Python has no "some": `Any` stands for it."""
