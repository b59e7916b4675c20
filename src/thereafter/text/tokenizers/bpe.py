"""Byte-level byte pair encoding: the most frequent pair of pieces becomes a piece, again and again."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from thereafter.config import Table
from thereafter.text.tokenizers.byte_level import ByteLevelTokenizer, check_numbered, damage_error
from thereafter.text.tokenizers.pieces import byte_alphabet

if TYPE_CHECKING:
    from tokenizers.models import Model
    from tokenizers.trainers import Trainer


class BpeTokenizer(ByteLevelTokenizer):
    """`max_size` pieces; `min_count` is how often a pair must be seen to be merged.

    Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units", 2016.
    """

    name: ClassVar[str] = "bpe"

    @classmethod
    def _new_model(cls, library: ModuleType) -> Model:
        model: Model = library.models.BPE()
        return model

    @classmethod
    def _new_trainer(cls, library: ModuleType, size: int, min_count: int | None) -> Trainer:
        trainer: Trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=2 if min_count is None else min_count,
            show_progress=False,
            special_tokens=[],
            initial_alphabet=sorted(byte_alphabet()),
        )
        return trainer

    def _model_identity(self, model: Table) -> object:
        return model["merges"]

    @classmethod
    def _stored_model(cls, library: ModuleType, model: Table) -> Model:
        pieces = check_numbered(cls.name, model.get("vocab"))
        restored: Model = library.models.BPE(vocab=pieces, merges=_check_merges(model.get("merges"), pieces))
        return restored


def _check_merges(listed: object, pieces: dict[str, int]) -> list[tuple[str, str]]:
    if not isinstance(listed, list):
        raise damage_error("bpe", "it has no merges")
    merges: list[tuple[str, str]] = []
    for entry in listed:
        pair = tuple(entry.split(" ")) if isinstance(entry, str) else tuple(entry) if isinstance(entry, list) else ()
        if len(pair) != 2 or not all(isinstance(part, str) and part in pieces for part in pair):
            raise damage_error("bpe", f"{entry!r} is not a merge of two of its pieces")
        if pair[0] + pair[1] not in pieces:
            raise damage_error("bpe", f"the merge {entry!r} makes no piece")
        merges.append((pair[0], pair[1]))
    return merges
