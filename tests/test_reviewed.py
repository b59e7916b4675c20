"""Faults that reviewers found once: each must stay mended."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import thereafter
from thereafter import nn
from thereafter.cli import main
from thereafter.errors import FormatError, OptionError, SourceError, StorageError
from thereafter.layers.dropout import keep_mask, weight_drop
from thereafter.ngram.estimate import estimate
from thereafter.storage import replacing


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "MinGRU"])
def test_second_derivatives_are_right_or_refused(kind: str):
    """A linear read-out once gave wrong second derivatives in silence."""
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    layer = getattr(nn, kind)(3, 5, batch_first=True, dtype=torch.float64, kernel="cpu")
    with pytest.raises(OptionError, match="kernel='reference'"):
        torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    layer.kernel = "reference"
    (first,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    first.pow(2).sum().backward()
    assert x.grad is not None
    assert float(x.grad.abs().sum()) > 0


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_autocast_on_a_cpu(kind: str):
    layer = getattr(nn, kind)(3, 5, batch_first=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(layer(torch.randn(2, 4, 3))[0].float()).all()


@pytest.mark.parametrize("batch", [1, 3])
def test_outputs_may_be_changed_in_place(batch: int):
    layer, x = nn.GRU(3, 5, batch_first=True), torch.randn(batch, 4, 3)
    plain = layer(x)[0]
    plain.sum().backward()
    expected = layer.weight_hh_l0.grad.clone()
    layer.zero_grad()
    changed = layer(x)[0]
    changed.mul_(2.0)
    changed.sum().backward()
    torch.testing.assert_close(layer.weight_hh_l0.grad, 2 * expected)


def test_evaluation_draws_no_random_numbers():
    layer = nn.LSTM(3, 5, zoneout=0.1, weight_drop=0.5, input_dropout=0.2).eval()
    before = torch.get_rng_state()
    layer(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("p", [1e-7, 1e-4, 0.3, 0.9999, 1 - 1e-7])
def test_weight_drop_keeps_the_mean(p: float):
    torch.manual_seed(0)
    dropped = weight_drop(torch.ones(1000, 1000), p, training=True)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=max(6 * math.sqrt(p / (1 - p)) / 1000, 1e-3))
    kept = keep_mask(torch.ones(1000, 1000), 0.3)
    assert float((kept == 0).float().mean()) == pytest.approx(0.3, abs=2e-3)


def test_a_discount_of_nothing_falls_back():
    """n1 : n2 : n3 = 4 : 1 : 1 makes D2 = 0, which would leave nothing for unseen words."""
    text = "".join(f"a{i} b{i}\n" for i in range(8)) + "a8 b8\n" * 2 + "a9 b9\n" * 3
    lm = thereafter.train(text=text, tokens="word", order=2, min_count=1)
    assert math.isfinite(lm.score(text="a8 b0\n").perplexity)


def test_token_ids_outside_the_vocabulary_are_refused():
    with pytest.raises(OptionError, match="expected 0 to 1"):
        estimate(np.array([0, 100_000_000, 1]), 2, order=3)


def test_arpa_keeps_what_it_can_say(tmp_path: Path):
    for tokens, context in (("word", "stream"), ("prose", "line")):
        lm = thereafter.train(text="a b\nc a\n" * 4, tokens=tokens, context=context, order=2)
        with pytest.raises(OptionError, match="ARPA file cannot say"):
            lm.to_arpa(tmp_path / "m.arpa")
    foreign = thereafter.train(text="\\xff \\x61 a \\x20b\n" * 3, tokens="word", order=2)
    again = thereafter.read_arpa(foreign.to_arpa(tmp_path / "w.arpa"))
    assert again.tokenizer.vocabulary.forms == foreign.tokenizer.vocabulary.forms
    words = thereafter.train(text="cat sat\n" * 3, tokens="word", order=2).to_arpa(tmp_path / "c.arpa")
    with pytest.raises(FormatError, match="--tokens word"):
        thereafter.read_arpa(words, tokens="char")


def test_a_score_reads_as_its_own_model_was_taught():
    lowered = thereafter.train(text="The Cat SAT\n" * 3, tokens="word", lower=True, order=2)
    other = thereafter.train(text="The Cat SAT\n" * 3, tokens="word", order=2)
    assert other.texts is not None
    assert lowered.score(other.texts).unknown == 0
    with pytest.raises(OptionError, match="text= has no parts"):
        lowered.score(text="a", part="valid")


def test_corpora_that_are_no_running_text_are_refused(corpora_folder: Path):
    for name in ("ud-english-ewt", "sst2", "multi30k", "eng-fra"):
        with pytest.raises(SourceError, match="not running text"):
            thereafter.train(name)


def test_the_run_folder_is_judged_before_the_training(tmp_path: Path):
    (tmp_path / "letter.txt").touch()
    for wrong in (tmp_path, tmp_path / "letter.txt", "a" * 5000, "a\0b"):
        with pytest.raises(StorageError):
            thereafter.train(text="a b a b", out=wrong)
    killed = tmp_path / "killed"
    killed.mkdir()
    (killed / ".weights.safetensors.abc.tmp").touch()
    assert thereafter.train(text="a b a b", out=killed)


def test_devices_and_links_are_written_to_not_replaced(tmp_path: Path):
    link, real = tmp_path / "link", tmp_path / "real"
    real.write_text("old")
    link.symlink_to(real)
    with replacing(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with replacing(pipe) as place:
        assert place == pipe
    assert not pipe.is_file()


def test_hostile_shapes_are_a_format_error(tmp_path: Path):
    folder = thereafter.train(text="a b a b", out=tmp_path / "run").save(tmp_path / "run")
    for shape in ([2**70, 0], [1] * 100):
        header = json.dumps({"word": {"dtype": "I32", "shape": shape, "data_offsets": [0, 4 * (0 in shape or 1)]}})
        body = len(header).to_bytes(8, "little") + header.encode() + (b"" if 0 in shape else b"\0" * 4)
        (folder / "weights.safetensors").write_bytes(body)
        with pytest.raises(FormatError):
            thereafter.load(folder)


@pytest.mark.parametrize("words", [["generate", "RUN", "--seed", "-1"], ["score", "a" * 5000, "x"], ["next", "a\0b"]])
def test_more_mistakes_are_one_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = str(thereafter.train(text="a b a b").save(tmp_path / "run"))
    monkeypatch.setattr(sys, "argv", ["thereafter", *(run if word == "RUN" else word for word in words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_json_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    run = str(thereafter.train(text="a b\n" * 3, tokens="word", smoothing="mle", order=2).save(tmp_path / "run"))
    monkeypatch.setattr(sys, "argv", ["thereafter", "score", run, "--text", "b a", "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["perplexity"] is None


def test_sizes_of_the_wrong_type_are_named():
    for sizes in ((3, 4.0), ("3", 4), (3, "4")):
        with pytest.raises(OptionError, match="expected"):
            nn.LSTM(*sizes)
