"""Plain text to models of a pre-tokenised corpus: pairs, scores, prompts and answers as people write them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import thereafter
from thereafter import instruments
from thereafter.cli import app
from thereafter.language_model import LanguageModel

NAMES = ("Raymond", "Dana", "Curtis", "Monica")
NOUNS = ("guard", "actor", "lawyer", "dancer", "teacher", "pilot", "waiter", "driver")
VERBS = (
    ("is selling", "are selling"),
    ("sells", "sell"),
    ("has sold", "have sold"),
    ("isn 't buying", "aren 't buying"),
)
THINGS = ("this sketch", "these sketches", "that well @-@ known book", "the lady 's car", "1 @,@ 000 plates")


def one_pair(draw: random.Random) -> tuple[str, str]:
    """An agreement pair in the form of a pre-tokenised corpus: the right sentence and the wrong one."""
    plural = draw.random() < 0.5
    if not plural and draw.random() < 0.3:
        subject = draw.choice(NAMES)
    else:
        subject = ("These " if plural else "This ") + draw.choice(NOUNS) + "s" * plural
        if draw.random() < 0.3:
            subject += " near the " + draw.choice(NOUNS) + draw.choice(("", "s"))
    verbs, rest = draw.choice(VERBS), draw.choice(THINGS) + draw.choice((" .", " , too .", " !"))
    return f"{subject} {verbs[plural]} {rest}", f"{subject} {verbs[not plural]} {rest}"


def plain(text: str) -> str:
    """The same as people write it, by string operations alone."""
    for mark, joined in ((" @-@ ", "-"), (" @,@ ", ","), (" ,", ","), (" .", "."), (" !", "!"), (" '", "'")):
        text = text.replace(mark, joined)
    return text


_DRAW = random.Random(5)
TRAIN = "".join(f"{one_pair(_DRAW)[0]}\n" for _ in range(3000))
TEST = [one_pair(_DRAW) for _ in range(400)]


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return thereafter.train(text=TRAIN, tokens="word", order=5)


@pytest.fixture(scope="module")
def run(lm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lm.save(tmp_path_factory.mktemp("runs") / "sentences")


def pair_file(folder: Path, name: str, pairs: list[tuple[str, str]]) -> Path:
    path = folder / f"{name}.tsv"
    path.write_text("".join(f"{good}\t{bad}\n" for good, bad in pairs))
    return path


def test_plain_pairs_are_judged_as_those_set_off_by_spaces(lm: LanguageModel, tmp_path: Path) -> None:
    formed = TEST
    spaced = instruments.pair_table(lm, str(pair_file(tmp_path, "spaced", formed)))
    as_people = [(plain(good), plain(bad)) for good, bad in formed]
    written = instruments.pair_table(lm, str(pair_file(tmp_path, "plain", as_people)))
    assert abs(written.accuracy - spaced.accuracy) <= 0.005
    assert written.accuracy > 0.6
    np.testing.assert_array_equal(written.logp_K2, spaced.logp_K2)
    # what this is for: as they are, nearly all of them end in an unknown word
    lm.as_written = True
    try:
        unread = instruments.pair_table(lm, str(pair_file(tmp_path, "unread", as_people)))
    finally:
        lm.as_written = False
    assert sum(bool(one) for one, _ in unread.unknown) > 0.9 * len(TEST)


def test_a_score_says_what_was_rewritten_and_what_is_unknown(lm: LanguageModel, tmp_path: Path) -> None:
    formed = "".join(f"{good}\n" for good, _ in TEST[:50])
    as_people = plain(formed)
    want, got = lm.score(text=formed), lm.score(text=as_people)
    assert (got.nats, got.bytes, got.tokens, got.unknown) == (want.nats, want.bytes, want.tokens, want.unknown)
    assert want.written == ""
    assert "apart by spaces" in got.written
    assert got.unknown_share == pytest.approx(got.unknown / (got.tokens - got.lines))
    path = tmp_path / "plain.txt"
    path.write_text(as_people)
    assert lm.score(str(path)).nats == want.nats
    loud = str(lm.score(text="Zebras quabble quietly ."))
    assert "% of the tokens are unknown" in loud


def test_the_style_is_kept_in_the_run_and_old_runs_tell_it_by_their_words(lm: LanguageModel, run: Path) -> None:
    loaded = thereafter.load(run)
    assert isinstance(loaded, LanguageModel)
    assert loaded.style == lm.style
    assert loaded.style is not None
    assert loaded.style.glue
    old = dict(lm.config["text"])
    del old["style"]
    style = LanguageModel(lm.trained.__class__(lm.model, lm.tokenizer, {**lm.config, "text": old}, [])).style
    assert style is not None
    assert style.rewritten("Well-known, too.") == lm.style.rewritten("Well-known, too.") if lm.style else False
    book = thereafter.train(text='He came, saw, and "won". It\'s done!\n' * 40, order=2)
    assert book.style is None
    assert book.config["text"]["style"] == {}


def test_prompts_are_read_and_continuations_written_as_people_do(lm: LanguageModel) -> None:
    assert lm.next("These guards, too") == lm.next("These guards , too")
    assert lm.encode("Raymond isn't").tolist() == lm.encode("Raymond isn 't").tolist()
    text = lm.generate("These guards, too", 30, temperature=0)
    assert text.startswith("These guards, too")
    assert " ." not in text
    assert " ," not in text
    assert "".join(["These guards, too", *lm.stream_text("These guards, too", 30, temperature=0)]) == text
    (one,) = lm.generate("These guards, too", 30, temperature=0, return_log_probs=True)
    assert one.text == text
    assert len(one.tokens) == 30
    assert (
        lm.rank(["This guard sells these sketches.", "This guard sell these sketches."])[0][0]
        == "This guard sells these sketches."
    )
    spaced = dict(lm.rank(["This guard sells these sketches ."]))["This guard sells these sketches ."]
    assert lm.rank(["This guard sells these sketches."])[0][1] == spaced


def test_traces_and_instruments_read_the_same(lm: LanguageModel) -> None:
    assert lm.trace("This guard sells these sketches.").tokens == lm.trace("This guard sells these sketches .").tokens


def test_commands_say_it_and_the_switch_turns_it_off(run: Path, tmp_path: Path) -> None:
    def ask(*words: str) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.output

    scored = ask("score", str(run), "--text", "This guard sells these sketches.")
    assert "written" in scored
    assert "unknown        0 (0.0 %)" in scored
    as_is = ask("score", str(run), "--text", "This guard sells these sketches.", "--as-written")
    assert "\nwritten" not in as_is
    assert "caution        20.0 % of the tokens are unknown" in as_is
    facts = json.loads(ask("score", str(run), "--text", "This guard sells these sketches.", "--json"))
    assert facts["unknown_share"] == 0
    assert "read as 'This guard sells these sketches .'" in ask(
        "rank", str(run), "This guard sells these sketches.", "This guard sell these sketches ."
    )
    assert "read as" not in ask("rank", str(run), "This guard sells these sketches.", "--as-written")
    assert "% of the tokens are unknown" in ask("rank", str(run), "Quabbling zebras")
    assert "read as" in ask("next", str(run), "These guards, too")
    assert "read as" in ask("generate", str(run), "These guards, too", "--temperature", "0")
    assert "read as" not in ask("generate", str(run), "These guards, too", "--as-written", "--seed", "1")
    assert "read as" in ask(
        "inspect", "trace", str(run), "This guard sells these sketches.", "--out", str(tmp_path / "t.npz")
    )
    pairs = pair_file(tmp_path, "two", [("This guard sells these sketches.", "This guard sell these sketches.")])
    assert "read as" in ask("inspect", "pairs", str(run), str(pairs))
    assert "read as" not in ask("inspect", "pairs", str(run), str(pairs), "--as-written")
