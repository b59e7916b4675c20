"""A GPT-2 checkpoint of transformers as a trained model: `config.json`, `model.safetensors` and `tokenizer.json`.

The arrays are GPT-2's (Radford et al. 2019), turned and scaled into ours: E = wte / sqrt(H), since ours multiplies word
vectors by sqrt(H); maps [in, out] become [out, in]. `<s>`, with which every text begins here, is the checkpoint's
`bos_token_id` (`<|endoftext|>`). Nothing in the folder is executed; sizes are checked before memory is taken.

Shapes: V words, H features, C positions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from thereafter.base.config import Table
from thereafter.base.storage import map_arrays, open_plain
from thereafter.errors import FormatError
from thereafter.layers.transformer import Block
from thereafter.models.build import build
from thereafter.models.neural import NeuralModel
from thereafter.models.settings import TransformerSettings
from thereafter.runs.folder import FORMAT, is_file
from thereafter.text.tokenizers.subword import Gpt2Tokenizer
from thereafter.training.kinds import Trained
from thereafter.training.weights import check_counts, restored

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
_APPROXIMATE = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
_ALWAYS: Table = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_LARGEST = {CONFIG: 4_000_000, TOKENIZER: 400_000_000}
Arrays = Mapping[str, NDArray[np.generic]]


def is_gpt2(folder: Path) -> bool:
    """Whether a folder looks like a checkpoint of transformers."""
    return is_file(folder / CONFIG) and not is_file(folder / "config.toml")


def read(folder: Path) -> Trained:
    """The model of a GPT-2 folder; FormatError for any other checkpoint, with what was expected."""
    config = _read_json(folder / CONFIG)
    model = read_network(folder)
    tokenizer = _tokenizer(folder, model.vocabulary_size)
    about: Table = {"tokens": tokenizer.name, "context": "stream", "lower": False, "letters_only": False}
    source: Table = {"name": str(config.get("_name_or_path") or folder.name)}
    settings = _settings(config, folder / CONFIG)
    own = {"hidden": settings.hidden, "layers": settings.layers, "heads": settings.heads, "context": settings.context}
    table: Table = {"format": FORMAT, "model": "transformer", "source": source, "text": about, "transformer": own}
    return Trained(model, tokenizer, table)


def read_network(folder: Path) -> NeuralModel:
    """The network alone, without a tokenizer."""
    config = _read_json(folder / CONFIG)
    settings = _settings(config, folder / CONFIG)
    if not is_file(folder / WEIGHTS):
        raise FormatError(
            f"{folder} has no {WEIGHTS}; expected a GPT-2 checkpoint in one safetensors file; try "
            "model.save_pretrained(folder, max_shard_size='100GB') in transformers"
        )
    arrays, _ = map_arrays(folder / WEIGHTS)
    size = _number(config, "vocab_size", folder / CONFIG)
    bos = config.get("bos_token_id")
    start = bos if isinstance(bos, int) and 0 <= bos < size else size - 1
    check_counts(settings, len(arrays))
    try:
        own = _own_arrays({name.removeprefix("transformer."): one for name, one in arrays.items()}, settings, start)
    except (KeyError, ValueError, IndexError) as error:
        raise FormatError(f"{folder / WEIGHTS} is not GPT-2: no array {error} as expected; try another") from error
    epsilon = _epsilon(config, folder / CONFIG)
    model = restored(partial(build, "transformer", settings, vocabulary_size=size), own)
    for norm in model.modules():
        if isinstance(norm, nn.LayerNorm):
            norm.eps = epsilon
        elif isinstance(norm, Block):
            norm.approximate = _APPROXIMATE[str(config.get("activation_function", "gelu_new"))]
    return model.eval()


def _settings(config: Table, path: Path) -> TransformerSettings:
    if config.get("model_type") != "gpt2":
        raise FormatError(
            f"{path} is of the architecture {str(config.get('model_type'))[:40]!r}; expected 'gpt2', which is all that "
            "can be read here; try transformers itself"
        )
    for name, value in _ALWAYS.items():
        if config.get(name, value) != value:
            raise FormatError(f"{path}: {name} is {str(config[name])[:40]}; expected {value}; try transformers itself")
    if str(config.get("activation_function", "gelu_new")) not in _APPROXIMATE:
        raise FormatError(
            f"{path}: activation_function is {str(config['activation_function'])[:40]!r}; expected one of "
            f"{', '.join(_APPROXIMATE)}; try transformers itself"
        )
    hidden = _number(config, "n_embd", path)
    inner = _number(config, "n_inner", path) if config.get("n_inner") is not None else 4 * hidden
    if inner % hidden:
        raise FormatError(f"{path}: n_inner is {inner}; expected a multiple of n_embd ({hidden})")
    return TransformerSettings(
        hidden=hidden,
        layers=_number(config, "n_layer", path),
        heads=_number(config, "n_head", path),
        inner=inner // hidden,
        positions="learned",
        context=_number(config, "n_positions", path),
        tied=False,
        dropout=0.0,
    )


def _number(config: Table, name: str, path: Path) -> int:
    value = config.get(name)
    if type(value) is not int or not 0 < value < 1 << 40:
        raise FormatError(f"{path}: {name} is {str(value)[:40]}; expected a whole number above 0; try another folder")
    return value


def _epsilon(config: Table, path: Path) -> float:
    value = config.get("layer_norm_epsilon", 1e-5)
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise FormatError(
            f"{path}: layer_norm_epsilon is {str(value)[:40]}; expected a number from 0 to 1; try another folder"
        )
    return float(value)


def _own_arrays(theirs: Arrays, settings: TransformerSettings, start: int) -> dict[str, NDArray[np.generic]]:
    """Our arrays by our names; KeyError names the array that is not there."""

    def wide(name: str) -> NDArray[np.float32]:
        return np.asarray(theirs[name]).astype(np.float32)

    wte_VH = wide("wte.weight")
    word_RH = np.concatenate([wte_VH, wte_VH[start : start + 1]]) / np.float32(math.sqrt(settings.hidden))
    head_VH = wide("lm_head.weight") if "lm_head.weight" in theirs else wte_VH
    own: dict[str, NDArray[np.generic]] = {"embedding.weight": word_RH, "positions.table_CH": wide("wpe.weight")}
    own |= {"head.weight": head_VH, "head.bias": np.zeros(len(head_VH), np.float32)}
    own |= {"norm.weight": wide("ln_f.weight"), "norm.bias": wide("ln_f.bias")}
    names = {
        "attn.c_attn": "attention.into",
        "attn.c_proj": "attention.out",
        "mlp.c_fc": "widen",
        "mlp.c_proj": "narrow",
    }
    for number in range(settings.layers):
        for name, ours in names.items():
            own[f"blocks.{number}.{ours}.weight"] = wide(f"h.{number}.{name}.weight").T
            own[f"blocks.{number}.{ours}.bias"] = wide(f"h.{number}.{name}.bias")
        for name, ours in (("ln_1", "norm_attention"), ("ln_2", "norm_forward")):
            own[f"blocks.{number}.{ours}.weight"] = wide(f"h.{number}.{name}.weight")
            own[f"blocks.{number}.{ours}.bias"] = wide(f"h.{number}.{name}.bias")
    return own


def _tokenizer(folder: Path, size: int) -> Gpt2Tokenizer:
    path = folder / TOKENIZER
    if not is_file(path):
        raise FormatError(
            f"{folder} has no {TOKENIZER}; expected one beside {WEIGHTS}; try tokenizer.save_pretrained(folder) in "
            "transformers"
        )
    model = _read_json(path).get("model")
    if not isinstance(model, dict) or model.get("type") not in (None, "BPE"):
        raise FormatError(f"{path} is no tokenizer of byte pairs; expected GPT-2's; try transformers itself")
    try:
        return Gpt2Tokenizer.of_pieces(model, size)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def _read_json(path: Path) -> Table:
    """A small file; a link is followed, since the cache of transformers is made of links."""
    try:
        with open_plain(path) as file:
            text = file.read(_LARGEST[path.name] + 1)
        if len(text) > _LARGEST[path.name]:
            raise FormatError(f"{path} has more than {_LARGEST[path.name]:,} bytes; expected fewer; try another folder")
        table = json.loads(text)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}; expected JSON; try another folder") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON ({str(error)[:100]}); try another folder") from error
    if not isinstance(table, dict):
        raise FormatError(f"{path} is not a table; expected the file of a checkpoint; try another folder")
    return table
