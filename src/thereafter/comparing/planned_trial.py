"""One model with one seed of a comparison, and the files that keep what came of it.

Results of earlier versions have no sums by line, and pairs may be asked for later: both are measured then, of the
model in its run folder, without training it again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from thereafter.comparing.entries import Entry
from thereafter.comparing.line_sums import LineSums
from thereafter.comparing.pair_verdicts import AskedPairs, PairVerdicts
from thereafter.comparing.trial import Trial
from thereafter.comparing.trials import measure_lines
from thereafter.errors import FormatError
from thereafter.runs.folder import is_run
from thereafter.text.sources import Source
from thereafter.training import store


@dataclass(frozen=True)
class PlannedTrial:
    """One model with one seed, and where it is kept."""

    entry: Entry
    seed: int | None
    folder: Path

    @property
    def stem(self) -> str:
        return self.entry.stem if self.seed is None else f"{self.entry.stem}-seed{self.seed}"

    @property
    def label(self) -> str:
        """What it is called in notes."""
        return self.entry.name if self.seed is None else f"{self.entry.name}, seed {self.seed}"

    @property
    def run(self) -> Path:
        return self.folder / "runs" / self.stem

    @property
    def result(self) -> Path:
        return self.folder / "results" / f"{self.stem}.json"

    @property
    def lines(self) -> Path:
        """The file of its sums by line."""
        return self.folder / "results" / f"{self.stem}.npz"

    @property
    def pairs(self) -> Path:
        """The file of its answers to minimal pairs."""
        return self.folder / "results" / f"{self.stem}.pairs.json"

    def finished_trial(self) -> Trial | None:
        """What came of it, where it was finished before."""
        try:
            return Trial.from_dict(json.loads(self.result.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise FormatError(f"{self.result} cannot be read: {error}; try removing it: it is made again") from error

    def line_sums(self, test: Source) -> LineSums | None:
        """What each line of the test part costs it; measured where that was not kept, None where it cannot be."""
        try:
            return LineSums.load(self.lines)
        except FileNotFoundError:
            sums = measure_lines(store.load(self.run), test) if is_run(self.run) else None
            if sums is not None:
                sums.save(self.lines)
            return sums

    def pair_verdicts(self, asked: AskedPairs) -> PairVerdicts | None:
        """Its answers to these pairs; measured where they were not kept, None where its run is gone."""
        kept = PairVerdicts.load(self.pairs)
        if kept is not None and kept.sha256 == asked.sha256:
            return kept
        if not is_run(self.run):
            return None
        verdicts = asked.ask(store.load(self.run))
        verdicts.save(self.pairs)
        return verdicts
