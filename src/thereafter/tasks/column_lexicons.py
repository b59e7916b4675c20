"""Several columns of labels and their numbers: the digit of a clip and its direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import FormatError
from thereafter.tasks.lexicon import Lexicon

_DAMAGED = "the labels of this run are damaged; expected a list of labels for each column; try training again"


class ColumnLexicons:
    """Numbers for the labels of each column: see `data.codecs.Codec`.

    >>> columns = ColumnLexicons({"digit": ["1", "7"], "direction": ["E", "N"]})
    >>> columns.encode({"direction": "N", "digit": "1"}).tolist(), columns.size
    ([0, 1], 4)
    """

    codec: ClassVar[str] = "label-columns"

    def __init__(self, forms: Mapping[str, Sequence[str]]) -> None:
        self.columns = {name: Lexicon(labels, opened=False) for name, labels in forms.items()}

    @classmethod
    def fit(cls, columns: Mapping[str, Sequence[str]]) -> ColumnLexicons:
        """The labels that each column has, sorted."""
        return cls({name: sorted(set(labels)) for name, labels in columns.items()})

    @property
    def names(self) -> list[str]:
        """The columns in order."""
        return list(self.columns)

    @property
    def forms(self) -> dict[str, list[str]]:
        """The labels of each column."""
        return {name: lexicon.forms for name, lexicon in self.columns.items()}

    @property
    def counts(self) -> tuple[int, ...]:
        """How many labels each column has."""
        return tuple(len(lexicon) for lexicon in self.columns.values())

    @property
    def size(self) -> int:
        return sum(self.counts)

    def encode(self, labels: Mapping[str, str]) -> NDArray[np.int64]:
        """The number of the label in each column; all must be known."""
        return np.array([lexicon.encode([labels[name]])[0] for name, lexicon in self.columns.items()], np.int64)

    def encode_rows(self, rows: Sequence[Mapping[str, str]]) -> NDArray[np.int64]:
        """The numbers of several examples at once, [examples, columns]."""
        columns = [lexicon.encode(row[name] for row in rows) for name, lexicon in self.columns.items()]
        return np.stack(columns, axis=1)

    def decode(self, numbers: NDArray[np.generic]) -> dict[str, str]:
        """The label of each column."""
        pairs = zip(self.columns.items(), np.asarray(numbers).tolist(), strict=True)
        return {name: lexicon.forms[int(number)] for (name, lexicon), number in pairs}

    def to_json(self) -> Table:
        return {"columns": self.forms}

    @classmethod
    def from_json(cls, stored: Table) -> ColumnLexicons:
        columns = stored.get("columns")
        if not isinstance(columns, dict) or not columns:
            raise FormatError(_DAMAGED)
        for labels in columns.values():
            if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
                raise FormatError(_DAMAGED)
        return cls(columns)
