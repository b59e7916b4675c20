"""Byte-level WordPiece: a form is cut from its left into the longest pieces of the vocabulary."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from thereafter.base.config import Table
from thereafter.text.tokenizers.byte_level import ByteLevelTokenizer, check_numbered
from thereafter.text.tokenizers.pieces import byte_alphabet
from thereafter.text.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from tokenizers.models import Model
    from tokenizers.trainers import Trainer


class WordPieceTokenizer(ByteLevelTokenizer):
    """`max_size` pieces, learned from frequent pairs; `min_count` is how often a pair must be seen.

    There is no mark for pieces inside a word: the space before a word belongs to its first piece, and the 256 bytes
    are pieces, so that nothing is unknown and every text comes back. Schuster and Nakajima, "Japanese and Korean Voice
    Search", 2012; the greedy cut is that of Devlin et al., "BERT", 2019.
    """

    name: ClassVar[str] = "wordpiece"
    longest_form: ClassVar[int] = 100  # the search for the longest piece takes the cube of the length of a form

    @classmethod
    def _new_model(cls, library: ModuleType) -> Model:
        return _model(library, {})

    @classmethod
    def _new_trainer(cls, library: ModuleType, size: int, min_count: int | None) -> Trainer:
        trainer: Trainer = library.trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=2 if min_count is None else min_count,
            show_progress=False,
            special_tokens=[],
            initial_alphabet=sorted(byte_alphabet()),
            continuing_subword_prefix="",
        )
        return trainer

    def _model_identity(self, model: Table) -> object:
        return None  # the pieces say it all

    @classmethod
    def _stored_model(cls, library: ModuleType, model: Table) -> Model:
        return _model(library, check_numbered(cls.name, model.get("vocab")))


def _model(library: ModuleType, pieces: dict[str, int]) -> Model:
    # the unknown piece is named and never met: a form is in bytes, and each of them is a piece
    model: Model = library.models.WordPiece(
        vocab=pieces, unk_token=UNKNOWN, max_input_chars_per_word=1 << 20, continuing_subword_prefix=""
    )
    return model
