"""A tokenizer as `tokenizer.json` of the library `tokenizers`, where that can say what ours does."""

from __future__ import annotations

import json

from thereafter.config import Table
from thereafter.export.parts import WordingPlan
from thereafter.packages import require
from thereafter.text.tokenizers.pieces import byte_alphabet
from thereafter.text.tokenizers.prose import PATTERN

LEARNED = ("bpe", "wordpiece", "unigram")
START = "<s>"


def tokenizer_of(words: WordingPlan) -> Table | None:
    """The whole of `tokenizer.json`; None where the library has no such tokenizer.

    That is so for `word` tokens, whose line ends are no text, and for text of which letters alone are kept.
    """
    if words.letters_only or words.tokens not in (*LEARNED, "char", "byte", "prose"):
        return None
    stored = dict(words.tokenizer["tokenizers"]) if words.tokens in LEARNED else _made(words)
    if words.lower:
        stored["normalizer"] = {"type": "Lowercase"}
    start: Table = {"id": words.start, "content": START, "special": True}
    start |= {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return stored | {"added_tokens": [start]}


def _made(words: WordingPlan) -> Table:
    """The engine of a tokenizer that is not the library's own."""
    library = require("tokenizers", "writing tokenizer.json")
    split = library.pre_tokenizers.Split
    if words.tokens == "byte":
        engine = library.Tokenizer(library.models.BPE(vocab=dict(byte_alphabet()), merges=[]))
        engine.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        engine.decoder = library.decoders.ByteLevel()
    else:
        unknown = "" if words.unknown is None else words.forms[words.unknown]
        numbered = {form: number for number, form in enumerate(words.forms)}
        engine = library.Tokenizer(library.models.WordLevel(vocab=numbered, unk_token=unknown or "<unk>"))
        pattern = PATTERN if words.tokens == "prose" else r"[\s\S]"
        engine.pre_tokenizer = split(library.Regex(pattern), "isolated")
        engine.decoder = library.decoders.Fuse()
    made: Table = json.loads(engine.to_str())
    return made


def tokenizer_config(words: WordingPlan, context: int) -> Table:
    """tokenizer_config.json: which class reads tokenizer.json, and the token that a text begins with."""
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": START, "model_max_length": context}
