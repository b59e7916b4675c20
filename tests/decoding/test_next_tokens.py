"""The next tokens after a text: after a space those of the next word, against the distribution before that space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import OptionError
from thereafter.text.tokenizers import TOKENIZERS

TEXT = "I went to the sea.\nI went to a shop, to the (old) mill.\n" * 12


@pytest.mark.parametrize("tokens", ["prose", "bpe"])
def test_after_a_space_the_next_word_is_predicted(tokens: str) -> None:
    lm = thereafter.train(text=TEXT, tokens=tokens, order=4, **({"vocabulary": 300} if tokens == "bpe" else {}))
    p_V = lm.distribution("I went to")
    pieces = [lm.tokenizer.piece(number) for number in range(lm.tokenizer.size)]
    spaced = {piece[1:]: p for piece, p in zip(pieces, p_V, strict=True) if piece[:1] == " " and piece.strip()}
    unknown = None if lm.tokenizer.unknown_id is None else pieces[lm.tokenizer.unknown_id]
    assert unknown is None or not unknown.startswith(" ")
    expected = sorted(spaced.items(), key=lambda pair: -pair[1])[:3]
    got = lm.next("I went to ", k=3)
    assert [text for text, _ in got] == [text for text, _ in expected]
    np.testing.assert_allclose([p for _, p in got], [p / sum(spaced.values()) for _, p in expected], rtol=1e-6)
    assert got[0][0] == "the"


@pytest.mark.parametrize("tokens", list(TOKENIZERS))
def test_elsewhere_it_is_the_distribution(tokens: str) -> None:
    lm = thereafter.train(text=TEXT, tokens=tokens, order=3, **({"vocabulary": 300} if "p" in tokens[1:] else {}))
    for prompt in (
        "I went to",
        "I went\n ",
        "I went  ",
        "",
        "I went to " if tokens in ("word", "char", "byte") else "I",
    ):
        p_V = lm.distribution(prompt)
        known = [number for number in np.argsort(-p_V, kind="stable").tolist() if number != lm.tokenizer.unknown_id]
        assert [p for _, p in lm.next(prompt, 4)] == pytest.approx(p_V[known[:4]].tolist(), rel=1e-6)
    with assert_refused(OptionError, "k", 0):
        lm.next("I", 0)


def test_the_command_appends_the_word_without_another_space(tmp_path: Path) -> None:
    run = str(thereafter.train(text=TEXT, order=4).save(tmp_path / "run"))
    rows = CliRunner().invoke(app, ["next", run, "I went to ", "-k", "1", "--json"], catch_exceptions=False).stdout
    assert '"text": "the"' in rows
    assert '"append": "the"' in rows
