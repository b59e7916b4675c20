"""GPT-2 folders made by hand: settings that nobody meant are answered with a sentence, and cuts change no token."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.base.storage import write_arrays
from thereafter.errors import FormatError
from thereafter.text.tokenizers.byte_level import byte_alphabet
from thereafter.text.tokenizers.subword import Gpt2Tokenizer

HIDDEN, WORDS, PLACES = 4, 260, 6
CONFIG = {"model_type": "gpt2", "n_embd": HIDDEN, "n_layer": 1, "n_head": 2, "n_positions": PLACES, "vocab_size": WORDS}
SHAPES = {
    "wte.weight": (WORDS, HIDDEN),
    "wpe.weight": (PLACES, HIDDEN),
    "h.0.attn.c_attn.weight": (HIDDEN, 3 * HIDDEN),
    "h.0.attn.c_attn.bias": (3 * HIDDEN,),
    "h.0.attn.c_proj.weight": (HIDDEN, HIDDEN),
    "h.0.attn.c_proj.bias": (HIDDEN,),
    "h.0.mlp.c_fc.weight": (HIDDEN, 4 * HIDDEN),
    "h.0.mlp.c_fc.bias": (4 * HIDDEN,),
    "h.0.mlp.c_proj.weight": (4 * HIDDEN, HIDDEN),
    "h.0.mlp.c_proj.bias": (HIDDEN,),
} | {f"{name}.{part}": (HIDDEN,) for name in ("ln_f", "h.0.ln_1", "h.0.ln_2") for part in ("weight", "bias")}


def folder_of(path: Path, vocabulary: dict[str, int] | None = None, **changes: object) -> Path:
    path.mkdir(exist_ok=True)
    draw = np.random.default_rng(1)
    arrays = {name: draw.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    write_arrays(path / "model.safetensors", arrays)
    (path / "config.json").write_text(json.dumps(CONFIG | changes))
    model = {"type": "BPE", "vocab": vocabulary or dict(byte_alphabet()), "merges": []}
    (path / "tokenizer.json").write_text(json.dumps({"model": model}))
    return path


def test_a_folder_made_by_hand_is_read(tmp_path: Path) -> None:
    lm = thereafter.load(folder_of(tmp_path / "gpt2", layer_norm_epsilon=1e-6))
    assert isinstance(lm, thereafter.LanguageModel)
    assert lm.tokenizer.encode("ab").tolist() == [byte_alphabet()["a"], byte_alphabet()["b"]]


@pytest.mark.parametrize("epsilon", ["small", [1e-5], None, -1.0, float("nan"), 10**400])
def test_an_epsilon_that_is_no_small_number_is_named(epsilon: object, tmp_path: Path) -> None:
    with assert_refused(FormatError, "layer_norm_epsilon", 0, 1):
        thereafter.load(folder_of(tmp_path / "gpt2", layer_norm_epsilon=epsilon))


def test_pieces_that_the_network_has_no_vectors_for_are_refused(tmp_path: Path) -> None:
    numbered = dict(byte_alphabet()) | {f"<|more-{number}|>": number for number in range(256, WORDS + 5)}
    with assert_refused(FormatError, 265, 260):
        thereafter.load(folder_of(tmp_path / "gpt2", numbered))


def test_cuts_at_any_place_change_no_token_where_python_and_unicode_disagree_on_white_space() -> None:
    separator = "\x1c"  # white space to Python's \s, a mark to GPT-2
    (letter,) = (char for char, value in byte_alphabet().items() if value == ord(separator))
    model = {"vocab": dict(byte_alphabet()) | {f"!{letter}": 256}, "merges": [["!", letter]]}
    tokenizer = Gpt2Tokenizer.of_pieces(model, 257)
    text = f"wow!{separator} and\n  more!{separator}"
    whole = tokenizer.encode(text).tolist()
    assert whole.count(256) == 2
    for cut in range(len(text)):
        parts = tokenizer.encode_stream([text[:cut], text[cut:]])
        assert np.concatenate([*parts, np.empty(0, np.int32)]).tolist() == whole
