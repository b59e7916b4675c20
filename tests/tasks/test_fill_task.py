"""Filling blanks from end to end: the word after a blank is read, the word itself never is, padding changes nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import ANIMALS, sentences

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError, SourceError
from thereafter.tasks.fill import FILLING, ClozeSentence, FillBatch, Filled, Filler, FillerSettings

SMALL: dict[str, Any] = {"embed": 16, "hidden": 16, "rate": 0.02, "dropout": 0.0, "seed": 1, "epochs": 10, "batch": 8}


def network(**settings: Any) -> Filler:
    torch.manual_seed(5)
    return Filler(FillerSettings(embed=6, hidden=5, **settings), words=9).eval()


def batch_of(*rows: list[int], blanks: list[int] | None = None) -> FillBatch:
    longest = max(map(len, rows))
    words_BT = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return FillBatch(words_BT, torch.tensor([len(row) for row in rows]), torch.tensor(blanks) if blanks else None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same network from both sides and from the left alone."""
    folder = tmp_path_factory.mktemp("fill")
    source = sentences(folder / "train.txt")
    for sides in ("both", "left"):
        thereafter.train(source, task="fill", out=folder / sides, sides=sides, **SMALL)
    return {sides: folder / sides for sides in ("both", "left")}


def test_a_word_told_by_the_word_after_it_is_found_from_both_sides_and_not_from_the_left(
    tmp_path: Path, runs: dict[str, Path]
):
    test = sentences(tmp_path / "test.txt", 60, seed=2)
    both, left = thereafter.load(runs["both"]), thereafter.load(runs["left"])
    for verb, animal in ANIMALS.items():
        ((best, p), *others) = both.predict(f"the ___ {verb} and the cow mooed")
        assert best == animal
        assert p > 0.9
        assert sum(q for _, q in others) < 0.1
        ((_, guess), *_) = left.predict(f"the ___ {verb} and the cow mooed")
        assert guess < 0.5
    found, worse = both.score(test), left.score(test)
    assert found.perplexity < 1.1
    assert found.accuracy > 0.98
    # from the left nothing can do better than one animal of four; all other words can be known
    words = test.read_text().split()
    animals = sum(word in ANIMALS.values() for word in words)
    assert worse.words == len(words)
    assert worse.perplexity == pytest.approx(4 ** (animals / len(words)), rel=0.05)
    assert worse.accuracy < 0.85
    assert worse.accuracy_5 > 0.98
    assert "from the left alone" in str(worse)
    assert [answer[0][0] for answer in both.predict(["the cat ___", "the ___ barked"])] == ["purred", "dog"]


@pytest.mark.parametrize("sides", ["both", "left", "right"])
@pytest.mark.parametrize("layers", [1, 2])
def test_no_word_is_told_from_itself_and_each_from_all_others_on_its_sides(sides: str, layers: int):
    """What is told of a place never changes with the word there; with any word on a side that counts it does."""
    net = network(sides=sides, layers=layers)
    words = [2, 3, 4, 5, 6]
    g_TE = net.features(batch_of(words))[0]
    for changed in range(len(words)):
        other = [*words[:changed], 8, *words[changed + 1 :]]
        differs_T = (net.features(batch_of(other))[0] - g_TE).abs().amax(1) > 1e-7
        expected = [
            t != changed and (sides == "both" or (changed < t if sides == "left" else changed > t)) for t in range(5)
        ]
        assert differs_T.tolist() == expected


def test_one_pass_tells_what_a_pass_for_each_blank_tells():
    """All words at once, against every word in turn taken out and filled from the rest."""
    net = network(layers=2)
    words = [2, 3, 4, 5, 6, 3]
    told = net.judge(batch_of(words))
    for place, word in enumerate(words):
        blank = [*words[:place], 1, *words[place + 1 :]]
        p_V = net.fill(batch_of(blank, blanks=[place]))[0]
        with torch.no_grad():
            logp_V = net.head.log_prob(net.features(batch_of(blank))[0, place])
        assert float(told.nats_N[place]) == pytest.approx(-float(logp_V[word]), abs=1e-6)
        assert p_V[:2].tolist() == [0.0, 0.0]
        assert float(p_V.sum()) == pytest.approx(1.0)
        assert p_V.sort(descending=True, stable=True).indices.tolist().index(word) == int(told.rank_N[place])
    with torch.no_grad():
        assert float(net.nats(batch_of(words))) == pytest.approx(float(told.nats_N.sum()), rel=1e-6)


def test_the_states_are_those_of_two_networks_that_read_towards_the_word():
    """By hand: the last state over the words before it, and that over the words after it, from the end."""
    net = network()
    words, border = [2, 3, 4, 5], 9
    for place in range(4):
        before = net.words(torch.tensor([[border, *words[:place]]]))
        after = net.words(torch.tensor([[border, *words[:place:-1]]]))
        f_H, b_H = net.before(before)[0][0, -1], net.after(after)[0][0, -1]
        g_E = net.join(torch.cat((f_H, b_H)))
        torch.testing.assert_close(net.features(batch_of(words))[0, place], g_E)


@pytest.mark.parametrize("settings", [{}, {"cell": "gru", "layers": 2}, {"sides": "right", "cell": "elman"}], ids=str)
def test_padding_changes_nothing(settings: dict[str, Any]):
    net = network(**settings)
    rows = ([2, 3, 4, 5, 6, 7, 8], [4], [7, 3, 2])
    together, g_BTE = net.judge(batch_of(*rows)), net.features(batch_of(*rows))
    nats, at = 0.0, 0
    for row, words in enumerate(rows):
        alone = net.judge(batch_of(words))
        torch.testing.assert_close(net.features(batch_of(words))[0], g_BTE[row, : len(words)])
        torch.testing.assert_close(alone.nats_N, together.nats_N[at : at + len(words)])
        assert alone.rank_N.tolist() == together.rank_N[at : at + len(words)].tolist()
        nats, at = nats + float(alone.nats_N.sum()), at + len(words)
    with torch.no_grad():
        assert float(net.nats(batch_of(*rows))) == pytest.approx(nats, rel=1e-5)
    p_BV = net.fill(batch_of(*rows, blanks=[3, 0, 2]))
    torch.testing.assert_close(p_BV[2:], net.fill(batch_of(rows[2], blanks=[2])))


def test_gradients_are_those_of_the_plain_cross_entropy():
    net = network(dropout=0.0).train()
    batch = batch_of([2, 3, 4], [5, 6])
    net.nats(batch).backward()
    found = {name: weight.grad.clone() for name, weight in net.named_parameters()}
    net.zero_grad()
    inside = batch.words_BT != 0
    z_NV = net.features(batch)[inside] @ net.words.weight[:9].T + net.head.bias
    torch.nn.functional.cross_entropy(z_NV, batch.words_BT[inside], reduction="sum").backward()
    for name, weight in net.named_parameters():
        torch.testing.assert_close(found[name], weight.grad)


def test_figures_add_up():
    found = Filled(4, 1, 4 * math.log(8.0), 1, 2) + Filled(4, 0, 4 * math.log(2.0), 3, 4)
    assert found.perplexity == pytest.approx(4.0)
    assert (found.accuracy, found.accuracy_5, found.unknown) == (0.5, 0.75, 1)
    assert str(found) == (
        "perplexity 4.00 over 8 words from both sides, 1 unknown; accuracy 50.00 %, in the first five 75.00 %"
    )


def test_any_text_is_read_a_sentence_a_line(tmp_path: Path):
    path = tmp_path / "text.txt"
    path.write_text("The cat sat.\n\n" + "so " * 1_000 + "\nmr. <unk> 's dog\n", encoding="utf-8")
    found = FILLING.read([path])
    assert found[0] == ClozeSentence(("the", "cat", "sat", "."))
    assert [len(one) for one in found[1:4]] == [400, 400, 200]
    assert found[4].words == ("mr", ".", "<unk>", "'s", "dog")
    assert "cat" in FILLING.codecs(found)["words"]  # the text has marked its rare words itself
    assert "cat" not in FILLING.codecs(found[:4])["words"]


def test_mistakes_are_sentences(tmp_path: Path, runs: dict[str, Path], corpora_folder: Path):
    model = thereafter.load(runs["both"])
    with assert_refused(OptionError, "the cat ___ on the mat"):
        model.predict("the cat purred")
    with assert_refused(OptionError, 2):
        model.predict("the ___ ___")
    with assert_refused(OptionError, "fill"):
        model.explain("the ___ barked")
    with assert_refused(OptionError, "sides", "up", "both", "left", "right"):
        thereafter.train(tmp_path / "none.txt", task="fill", sides="up")
    with assert_refused(SourceError, "sst2", "labelled", "fill"):
        thereafter.train("sst2", task="fill")
    path = tmp_path / "short.txt"
    path.write_text("one two\nthree four\n", encoding="utf-8")
    with pytest.raises(OptionError, match="no word is met twice"):
        thereafter.train(path, task="fill")
