"""Texts that are easily encoded wrongly: the check compares a file's own encoder with the tokenizer over them."""

from __future__ import annotations

import numpy as np

from thereafter.text.tokenizers.base import Tokenizer

COUNT = 200
SEED = 11
_MOST_PIECES = 400
_LONG_WORDS = 8
_LONG = 3000
_REPEATED = 400

_TEXTS = (
    "",
    " ",
    "\n",
    "\r",
    "\r\n",
    "\n\r\n\r",
    "one\r\ntwo\rthree\n\nfour\r\r\nfive",
    "\ufeff",
    "\ufeffThe first line\r\n",
    "\ufeff\ufeffTwo marks, and one \ufeff inside",
    "THE CAT SAT, 12 YEARS OLD; it ran_away -- or DID it?",
    "don't can't WON'T it\u2019s \u201cquoted\u201d\u2014dash\u2026",
    "İSTANBUL Iıi İİ İ\u0307",
    "STRASSE Straße ẞ ß",
    "ΟΔΟΣ ΟΔΟΣ. Σ ΣΣ \u0391Σ\u0391 \u0391\u0301Σ\u0301 \u0391.Σ \u0391Σ'\u0391",
    "ΣΙΣΥΦΟΣ\r\nΜέγαΣ\u00ad αΣ:β αΣ\U0001f600",
    "Ǆ ǅ ǆ \u212a \u212b \u2126 ᾈ ﬃ \u2160\u2161 Ⓐ \U00010400 \u10a0 \u13a0 \uff21",
    "e\u0301 E\u0301 a\u0328\u0301 \u0301 alone z\u0351\u036b\u0343",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f \U0001f44d\U0001f3fd",
    "漢字 ひら カタ 한국어 ไทย नमस्ते Русский עברית العربية",
    "1 ² ½ Ⅷ ٣ १ \uff15 ① 一 12,345.67 1e-5",
    "a\tb\vc\fd\x1ce\x1df\x1eg\x1fh\x85i\u00a0j\u1680k\u2003l\u2028m\u2029n\u202fo\u205fp\u3000q\u200br",
    "\x01\x02\x07\x08\x1b[31mred\x1b[0m\x7f\x80\x9f",
    "</s> <s> <unk> <UNK> <0xE2> </S> a</s> <s>b",
    "___ a_b __init__ _1_ \u203f",
    "\ue000 \uf8ff \uffff \ufffd \U000e0001 \U0010ffff \U000f0000",
    "A" * _LONG,
    "aB1İ" * (_LONG // 4),
    "Σ" * 50 + "\u0301" * 50 + "Σ",
    " " * 200 + "\n" * 50 + "\r" * 50,
    "x\u0308" * 100 + "!" * 100,
)
_MARKS = ("\r\n", "\r", "\n", " ", "  ", "\t", "\ufeff", ".", "'", "-", "_", "7", "²", "\u00ad", "\u0301", "\u200d")
_LETTERS = ("A", "z", "İ", "ı", "ß", "ẞ", "É", "Σ", "σ", "ς", "\u0391", "Ж", "漢", "ก", "א", "\U00010428")
_OTHERS = ("\U0001f600", "\U0001f3fd", "\ufffd", "\u2028", "</s>", "<unk>")


def odd_texts(tokenizer: Tokenizer) -> list[str]:
    """`COUNT` texts: those above, then marks, letters and pieces of a vocabulary in any case, drawn together."""
    drawing = np.random.default_rng(SEED)
    chosen = drawing.permutation(tokenizer.size)[:_MOST_PIECES].tolist()
    pieces = [piece for id in chosen if "\0" not in (piece := tokenizer.piece(id))]
    words = [word for piece in pieces for word in (piece, piece.upper(), piece.title())]
    longest = sorted((piece.strip() for piece in pieces), key=len)[-_LONG_WORDS:]
    sorts = [sort for sort in (_MARKS, _LETTERS, _OTHERS, words) if sort]
    texts = dict.fromkeys([*_TEXTS, *(word[-1:] + word * (_REPEATED // (1 + len(word))) for word in longest)])
    while len(texts) < COUNT:
        drawn = [sorts[drawing.integers(len(sorts))] for _ in range(drawing.integers(5, 40))]
        texts["".join(sort[drawing.integers(len(sort))] for sort in drawn)] = None
    return list(texts)
