"""A tokenizer as `tokenizer.json` of the library `tokenizers`, where that can say what ours does."""

from __future__ import annotations

import json

from thereafter.config import Table
from thereafter.export.parts import WordingPlan
from thereafter.packages import require
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.pieces import byte_alphabet

LEARNED = ("bpe", "wordpiece", "unigram")
START = "<s>"
_INLINE = "\t\v-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LETTERS = r"\p{L}\p{Nl}\p{No}"
PROSE = rf"\n| ?[{_LETTERS}]+| ?\p{{Nd}}+| ?[^\n{_LETTERS}\p{{Nd}}_{_INLINE}]+| ?_+|[{_INLINE}]+"
"""The pattern of `prose` as the library says it: its \\w and \\s are not Python's."""


def tokenizer_of(words: WordingPlan) -> Table | None:
    """The whole of `tokenizer.json`; None where the library has no such tokenizer.

    That is so for `word` tokens, whose line ends are no text, for `prose` over scripts without spaces, and for text of
    which letters alone are kept.
    """
    known = words.tokens in (*LEARNED, "char", "byte", "prose") and not words.tokenizer.get("scripts")
    if words.letters_only or not known:
        return None
    stored = _learned(words) if words.tokens in LEARNED else _made(words)
    stored["normalizer"] = {"type": "Sequence", "normalizers": _normalizers(words.lower)}
    start: Table = {"id": words.start, "content": START, "special": True}
    start |= {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return stored | {"added_tokens": [start]}


def _normalizers(lower: bool) -> list[Table]:
    """A text as it is read in training: no byte order mark, LF between lines, lower case with the final sigma."""
    changes = [(r"\A\uFEFF", ""), (r"\r\n?", "\n")]
    if lower:
        passed = r"\p{Case_Ignorable}*"
        cased = r"[\p{Cased}&&[^\p{Case_Ignorable}]]"
        changes.append((rf"{cased}{passed}\KΣ(?!{passed}{cased})", "ς"))
    replaced = [{"type": "Replace", "pattern": {"Regex": pattern}, "content": text} for pattern, text in changes]
    return [*replaced, *([{"type": "Lowercase"}] if lower else [])]


def _learned(words: WordingPlan) -> Table:
    """The engine of learned pieces, given the forms that Python splits a text into, long ones cut at fixed places."""
    stored: Table = words.tokenizer["tokenizers"]
    longest = TOKENIZERS.load(words.tokens).longest_form
    forms = [_split(PROSE), _split(rf"[\s\S]{{1,{longest}}}"), *stored["pre_tokenizer"]["pretokenizers"]]
    return stored | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": forms}}


def _split(pattern: str) -> Table:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


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
        pattern = PROSE if words.tokens == "prose" else r"[\s\S]"
        engine.pre_tokenizer = split(library.Regex(pattern), "isolated")
        engine.decoder = library.decoders.Fuse()
    made: Table = json.loads(engine.to_str())
    return made


def tokenizer_config(words: WordingPlan, context: int) -> Table:
    """tokenizer_config.json: which class reads tokenizer.json, and the token that a text begins with."""
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": START, "model_max_length": context}
