"""A text read by a trained model for its surprisals: the same text, switches and walk as for its score."""

from __future__ import annotations

from dataclasses import replace

from thereafter.errors import CorpusError, OptionError, SourceError
from thereafter.evaluation.conditions import WordCounts
from thereafter.evaluation.scores import unknown_caution, unknown_share
from thereafter.evaluation.switches import Switches
from thereafter.evaluation.text_reading import TextReading, TokenCosts, check_top, read_costs, read_predictions, walk_of
from thereafter.models.base import NOT_NORMALISED, is_normalised
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training import mixing, roles
from thereafter.training.kinds import Trained
from thereafter.training.protocol import describe_changes


def read_surprisals(
    trained: Trained,
    text: Source,
    switches: Switches,
    tune: Source | None = None,
    *,
    detail: bool = False,
    top: int = 3,
    name: str | None = None,
    before: int | None = None,
    with_counts: bool = False,
) -> TextReading:
    """What each token of a text costs; with `detail` what was predicted before each, too. `name` is the model's.

    `before`: how many items are read before each, where items are read (`evaluation.text_reading`). `with_counts`:
    count the words of the training text too.
    """
    check_top(top)
    with mixing.switch_on(trained, switches, tune) as on:
        chunks, walk = walk_of(text, before)
        costs = read_costs(on.model, trained.tokenizer, chunks, name=text.name, walk=walk)
        # A second pass: log p of the whole pass and of single steps agree to rounding only, and sums are to be exact.
        predicted = read_predictions(on.model, costs.ids, top, costs.item_T, before) if detail else None
        notes = [
            mixing.describe_switches(trained, on, tune, text),
            roles.caveat(trained, text, tune),
            "" if is_normalised(on.model) else NOT_NORMALISED,
            unknown_caution(_unknown_share(costs, trained.tokenizer)),
            describe_changes(text),
            "" if text.rewriting is None else "the text was brought into the form of the training text",
        ]
    counts = None
    if with_counts:
        try:
            learned = (mixing.training_text(leaf) for _, leaf in roles.leaves(trained))
            sources = {source.text_hash(): source for source in learned}.values()
            counts = WordCounts.of_text(chunk for source in sources for chunk in source.chunks("counting words"))
        except (SourceError, CorpusError, OptionError) as error:
            notes.append(f"no log_frequency, which needs the training text: {error}")
    return TextReading(
        model=name or str(trained.config["model"]),
        text=text.name,
        tokenizer=trained.tokenizer,
        context=trained.context,
        costs=costs,
        predicted=predicted,
        notes=tuple(filter(None, notes)),
        written="" if text.rewriting is None else replace(text, rewriting=None).text(),
        before=before,
        rows=text.table_rows(),
        counts=counts,
    )


def _unknown_share(costs: TokenCosts, tokenizer: Tokenizer) -> float:
    """The share of unknown tokens; in `word` line ends are no words."""
    ends = int((costs.ids == tokenizer.line_end_id).sum()) if tokenizer.name == "word" else 0
    return unknown_share(int(costs.unknown_T.sum()), len(costs.ids) - ends)
