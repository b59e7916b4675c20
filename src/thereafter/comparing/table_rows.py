"""A comparison as the rows of a table: a model a row, numbers instead of words."""

from __future__ import annotations

from thereafter.base.tabular import Row
from thereafter.comparing.mean_spread import MeanSpread
from thereafter.comparing.rows import Compared


def table_rows(comparison: Compared) -> list[Row]:
    """Means over seeds with their spreads; a column for each figure of a probe, empty for models not asked."""
    rows = []
    for one in comparison.rows:
        first = one.first
        rows.append(
            {"model": one.name, "tokens": first.tokens, "seeds": len(one.trials)}
            | _figure("bits_per_byte", one.bits_per_byte)
            | _figure("perplexity", one.perplexity)
            | {"parameters": first.parameters, "tokens_per_second": one.tokens_per_second}
            | {"seconds_to_next_token": one.latency, "bytes_of_files": first.size}
            | {"seconds_of_training": one.seconds, "tokens_seen": one.seen}
        )
    for probed in comparison.probes():
        for table in probed.probe.tables(probed.results):
            for column in table.columns:
                name = f"{probed.probe.name}_{column.label}"
                shares = {one.name: probed.accuracy(one, column.count) for one in probed.rows}
                for row in rows:
                    row |= _figure(name, shares.get(str(row["model"]), MeanSpread(float("nan"))))
    if comparison.pairs is not None:
        for row in rows:
            row |= comparison.pairs.row_of(str(row["model"]))
    return rows


def _figure(name: str, value: MeanSpread) -> Row:
    return {name: value.mean, f"{name}_spread": value.spread}
