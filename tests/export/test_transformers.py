"""GPT-2 both ways: what is written computes what the model does, and what transformers wrote is read as it means it."""

from __future__ import annotations

import json
import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.errors import ExportError, FormatError, OptionError
from thereafter.export.check import check_encoder
from thereafter.export.gpt2 import TARGET
from thereafter.export.plan import plan_of
from thereafter.language_model import LanguageModel
from thereafter.models.build import build
from thereafter.models.settings import TransformerSettings
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.training.kinds import Trained

ROOT = Path(__file__).parents[2]
TEXT = "The cat sat on the mat; the dog didn't.\n\n  Two   spaces, café 12345 and\n a line é😀.\n" * 4
READ = ("char", "bpe")
WRITTEN = ("gelu_new", "gelu")
SETTINGS = TransformerSettings(hidden=24, layers=2, heads=3, inner=2, context=32, dropout=0.0)


def model_of(tokens: str = "char", context: str = "stream", **options: Any) -> LanguageModel:
    """A Transformer that was never trained, with gains and biases that are no ones and zeros."""
    tokenizer = TOKENIZERS.load(tokens).fit(lambda: [TEXT], max_size=300 if tokens == "bpe" else None)
    torch.manual_seed(3)
    settings = replace(SETTINGS, **options)
    about: Any = {"vocabulary_size": len(tokenizer.vocabulary), "context": context, "line_end": tokenizer.line_end_id}
    model = build("transformer", settings, **about).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.copy_(torch.randn_like(weight) * 0.3 + (name.endswith("weight") and 1))
    text = {"tokens": tokens, "context": context, "lower": False, "letters_only": False}
    config = {"model": "transformer", "source": {"name": "text"}, "text": text, "transformer": vars(model.settings)}
    return LanguageModel(Trained(model, tokenizer, config))


@pytest.mark.parametrize(
    "tokens", core(["char", "byte", "prose", "bpe", "wordpiece", "unigram"], ["prose", "bpe", "unigram"])
)
def test_odd_texts_are_encoded_by_tokenizer_json_as_by_ours(tokens: str, tmp_path: Path) -> None:
    for lower in (False, True):
        lm = model_of(tokens)
        lm.config["text"]["lower"] = lower
        plan = plan_of(lm)
        runner = TARGET.runner(plan, TARGET.write(plan, tmp_path / str(lower), int8=False))
        assert check_encoder(lm, runner) == 200


def log_probs(lm: LanguageModel, ids: list[int]) -> np.ndarray:
    """log p before the first token and after each, [T + 1, V]."""
    state = lm.model.start(1)
    rows = [np.asarray(lm.model.predict(state))[0]]
    for token in ids:
        logp_1V, state = lm.model.step(np.array([token]), state)
        rows.append(np.asarray(logp_1V)[0])
    return np.stack(rows)


def oracle(jobs: list[list[Any]]) -> None:
    """All that is asked of transformers, in one process: it takes seconds to be imported."""
    named = os.environ.get("THEREAFTER_ORACLES")
    python = Path(named) if named else ROOT / ".oracles" / "bin" / "python"
    there = "import importlib.util, sys; sys.exit(importlib.util.find_spec('transformers') is None)"
    if not python.exists() or subprocess.run([python, "-c", there], capture_output=True).returncode:
        pytest.skip("SKIPPED LOUDLY: the oracle transformers is not installed; run `make oracles`")
    script = ROOT / "tests" / "oracles" / "gpt2_checkpoint.py"
    done = subprocess.run([python, script, json.dumps(jobs)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What transformers reads of our folders, by tokens, and writes itself, by activation, each with its answer."""
    place = tmp_path_factory.mktemp("gpt2")
    jobs: list[list[Any]] = []
    for tokens in READ:
        lm = model_of(tokens)
        lm.export(place / tokens, "transformers", check_steps=50)  # transformers itself says what they compute
        ids = lm.tokenizer.encode(TEXT)[:30].tolist()
        jobs.append(["read", str(place / tokens), str(place / f"{tokens}.json"), ids, TEXT])
    for name in WRITTEN:
        jobs.append(["write", str(place / name), str(place / f"{name}.json"), name, TEXT])
    oracle(jobs)
    return place


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": "bpe", "positions": "learned", "tied": False},
        {"tokens": "word", "context": "line", "layers": 1},
    ],
    ids=str,
)
def test_a_folder_that_was_written_computes_what_the_model_does(options: dict[str, Any], tmp_path: Path) -> None:
    lm = model_of(**options)
    written = lm.export(tmp_path / "gpt2", "transformers")
    assert written.checked.largest < 1e-4
    assert written.checked.steps >= 200
    files = {path.name for path in (tmp_path / "gpt2").iterdir()}
    tokenizer = {"tokenizer.json", "tokenizer_config.json"}
    assert files - tokenizer == {"config.json", "model.safetensors"}
    assert (files >= tokenizer) == (options.get("tokens") != "word")
    assert written.facts["a text begins with"] == f"the token {len(lm.tokenizer.vocabulary)} (<s>)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"norm": "post"}, "norm='post'.*try training with norm='pre'"),
        ({"head": "adaptive", "cutoffs": (10,), "tied": False}, "adaptive softmax.*try training with head='full'"),
    ],
    ids=str,
)
def test_options_that_gpt2_has_not(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=words):
        model_of(**options).export(tmp_path / "gpt2", "transformers")
    with assert_refused(ExportError, "--int8"):
        model_of().export(tmp_path / "gpt2", "transformers", int8=True)
    counted = thereafter.train(text=TEXT, order=2)
    with assert_refused(ExportError, "ngram"):
        counted.export(tmp_path / "gpt2", "transformers")
    assert not (tmp_path / "gpt2").exists()


@pytest.mark.wide
@pytest.mark.oracle
@pytest.mark.parametrize("tokens", READ)
def test_transformers_loads_what_was_written(tokens: str, folders: Path) -> None:
    lm = model_of(tokens)
    ids = lm.tokenizer.encode(TEXT)[:30].tolist()
    theirs = json.loads((folders / f"{tokens}.json").read_text())
    assert theirs["class"] == "GPT2LMHeadModel"
    assert theirs["ids"] == lm.tokenizer.encode(TEXT).tolist()
    ours_TV, theirs_TR = log_probs(lm, ids), np.array(theirs["log_probs"])
    np.testing.assert_allclose(theirs_TR[:, :-1], ours_TV, atol=2e-5)
    assert (theirs_TR[:, -1] < -1_000).all()


@pytest.mark.oracle
@pytest.mark.parametrize("activation", WRITTEN)
def test_what_transformers_wrote_is_read(activation: str, folders: Path, tmp_path: Path) -> None:
    folder = folders / activation
    theirs = json.loads((folders / f"{activation}.json").read_text())
    lm = thereafter.load(folder)
    assert isinstance(lm, LanguageModel)
    assert lm.tokenizer.encode(TEXT).tolist() == theirs["whole"]
    pieces = [TEXT[at : at + 7] for at in range(0, len(TEXT), 7)]
    assert np.concatenate(list(lm.tokenizer.encode_stream(pieces))).tolist() == theirs["whole"]
    ids, logp_TV = theirs["ids"], np.array(theirs["log_probs"])
    np.testing.assert_allclose(log_probs(lm, ids), logp_TV, atol=1e-5)
    nats = -sum(logp_TV[at, token] for at, token in enumerate(ids[:20]))
    score = lm.score(text=lm.tokenizer.decode(ids[:20]))
    assert score.nats == pytest.approx(nats, abs=1e-3)
    assert len(lm.trace("The cat sat").tokens) == len(lm.tokenizer.encode("The cat sat"))
    assert lm.generate("The cat", 8, seed=1).startswith("The cat")
    assert math.isclose(sum(p for _, p in lm.next("The", k=335)), 1, abs_tol=0.2)
    with assert_refused(OptionError, "folder"):
        lm.save(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    for change, words in (
        ({"model_type": "llama"}, "architecture 'llama'; expected 'gpt2'"),
        ({"n_embd": 10**9, "n_head": 1}, "expected"),
        ({"n_layer": "two"}, "n_layer is two; expected a whole number"),
        ({"n_layer": 10**9}, "expected fewer layers"),
        ({"n_head": 5}, "expected a multiple"),
        ({"activation_function": "relu"}, "activation_function is 'relu'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "expected False"),
        ({"vocab_size": 10**12}, "expected"),
    ):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises((FormatError, OptionError), match=words):
            thereafter.load(folder)
    (folder / "config.json").write_text("[" * 100_000)
    with assert_refused(FormatError, "JSON"):
        thereafter.load(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {"a": [1]}, "merges": 3}}')
    with assert_refused(FormatError):
        thereafter.load(folder)
    (folder / "tokenizer.json").unlink()
    with assert_refused(FormatError, "tokenizer.json"):
        thereafter.load(folder)
    (folder / "model.safetensors").write_bytes(b"\x80\x04.")
    with assert_refused(FormatError, "safetensors"):
        thereafter.load(folder)
