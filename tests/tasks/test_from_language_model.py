"""The networks of tasks begin with the body of a language model: the same features, fresh heads, frozen layers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import FILLERS, KEYWORDS, Shell, assert_resumed_to_the_bit, labelled

import thereafter
from refusals import assert_refused
from stops import stopping_at
from thereafter.errors import OptionError, SourceError
from thereafter.tasks.classify import ClassBatch, Classifier, ClassifierSettings
from thereafter.tasks.lexicon import Lexicon, WordReading
from thereafter.tasks.tag.task import habits_of, reader_of
from thereafter.text.conll import split_sentence
from thereafter.training.watching import Training, watching

LM: dict[str, Any] = {"embed": 6, "sizes": (8, 6), "batch": 4, "steps": 8, "epochs": 1}
SMALL: dict[str, Any] = {"dropout": 0.1, "drop_words": 0.0, "batch": 8, "seed": 1}
STILL: dict[str, Any] = {"epochs": 1, "rate": 1e-30, "weight_decay": 0.0}
TAG: dict[str, Any] = {"letter_embed": 4, "letter_hidden": 4, "hidden": 6}


def train_language_model(folder: Path, name: str, **options: Any) -> Path:
    """A language model that knows all words of the toys but one."""
    text = labelled(folder / f"{name}.tsv", 80).read_text().replace("\tgood", "").replace("\tbad", "")
    book = folder / f"{name}.txt"
    book.write_text(text.replace("noon", "night"))
    options = {"model": "lstm", "tokens": "word", "min_count": 1} | LM | options
    thereafter.train(book, out=folder / name, **options)
    return folder / name


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_language_model(tmp_path_factory.mktemp("body"), "lm")


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return labelled(tmp_path_factory.mktemp("reviews") / "reviews.tsv", 120)


def tagged_films(path: Path) -> Path:
    rows = [[("the", "D"), ("film", "N"), ("was", "V"), (word, "A")] for word in KEYWORDS] * 30
    path.write_text("\n\n".join("\n".join("\t".join(pair) for pair in row) for row in rows) + "\n")
    return path


def features_of(model: Any, words: list[str]) -> torch.Tensor:
    """What the last layer of the language model says after each word, from a state that has read nothing."""
    ids = torch.tensor([[model.tokenizer.vocabulary.index[word] for word in words]])
    with torch.no_grad():
        features: torch.Tensor = model.model.eval().encode(ids, model.model.fresh(1))[0]
    return features


def test_an_untrained_body_reads_as_the_language_model_does(lm: Path, reviews: Path):
    model = thereafter.train(reviews, task="classify", start_from=lm, **STILL, **SMALL)
    body, words = thereafter.load(lm), ["the", "film", "was", KEYWORDS[0]]
    net: Any = model.net
    batch = model.task.batch([model.task.example(" ".join(words))], model.codecs)
    with torch.no_grad():
        ours = net.reader(net.words(batch.words_BT), lengths=batch.lengths_B)[0]
    torch.testing.assert_close(ours, features_of(body, words), rtol=0, atol=1e-6)
    assert model.config["classify"] | {"pooling": "concat"} == model.config["classify"]
    assert model.config["start"]["run"] == str(lm.absolute())


def test_new_words_begin_as_the_unknown_one_and_become_their_own(lm: Path, reviews: Path):
    model = thereafter.train(reviews, task="classify", start_from=lm, **STILL, **SMALL)
    lexicon: Any = model.codecs["words"]
    table = model.net.words.weight.detach()  # type: ignore[union-attr]
    vectors = thereafter.load(lm).model.embedding.weight.detach()  # type: ignore[union-attr]
    index = thereafter.load(lm).tokenizer.vocabulary.index
    assert lexicon.forms[-1] == "noon"
    assert torch.equal(table[lexicon.encode(["noon"])[0]], vectors[0])
    assert torch.equal(table[1], vectors[0])
    assert not table[0].any()
    for word in set(FILLERS) - {"noon"}:
        assert torch.equal(table[lexicon.encode([word])[0]], vectors[index[word]])
    assert "1 words new to it, met twice or more, get vectors of their own" in model.log[0]["notes"]
    learned = thereafter.train(reviews, task="classify", start_from=lm, epochs=2, **SMALL)
    own = learned.net.words.weight.detach()  # type: ignore[union-attr]
    assert not torch.equal(own[lexicon.encode(["noon"])[0]], own[1])


def test_it_learns_and_is_saved_and_loaded(lm: Path, reviews: Path, tmp_path: Path):
    model = thereafter.train(
        reviews, task="classify", start_from=lm, out=tmp_path / "run", epochs=5, rate=0.02, **SMALL
    )
    test = labelled(tmp_path / "test.tsv", 60, seed=2)
    assert model.score(test).accuracy > 0.97
    again = thereafter.load(tmp_path / "run")
    texts = ["The film was gripping.", "one dull film", "zebra"]
    assert again.predict(texts) == model.predict(texts)
    assert again.explain("one dull film,").words == ("one", "dull", "film", ",")
    assert again.baselines(test)[0][0] == "Naive Bayes"


@pytest.mark.parametrize("epochs", [1, 2, 3, 4])
def test_frozen_layers_do_not_change(lm: Path, reviews: Path, epochs: int):
    body = thereafter.load(lm)
    ours: dict[str, torch.Tensor] = {}

    def keep(training: Training) -> None:  # the last weights, which need not be the best
        ours.update({name: weight.detach().clone() for name, weight in training.model.named_parameters()})

    with watching(at_end=keep):
        options = SMALL | {"unfreeze": True, "layer_decay": 0.9}
        model = thereafter.train(reviews, task="classify", start_from=lm, epochs=epochs, **options)
    theirs = body.model.state_dict()  # type: ignore[union-attr]
    for name, weight in theirs.items():
        if name.startswith("layers."):
            layer = int(name.rpartition("_l")[2])
            frozen = layer < 3 - epochs
            assert torch.equal(weight, ours[name.replace("layers.", "reader.")]) == frozen, (epochs, name)
    known = model.codecs["words"].encode(["film"])[0]  # type: ignore[call-overload, union-attr]
    vector = theirs["embedding.weight"][body.tokenizer.vocabulary.index["film"]]
    assert torch.equal(ours["words.weight"][known], vector) == (epochs < 4)


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_it_is_resumed_to_the_bit(lm: Path, reviews: Path, tmp_path: Path, task: str):
    source = reviews if task == "classify" else tagged_films(tmp_path / "tags.tsv")
    options = SMALL | {"unfreeze": True, "layer_decay": 0.4, "epochs": 2} | (TAG if task == "tag" else {})
    assert_resumed_to_the_bit(tmp_path / "run", task, source, step=10, start_from=lm, **options)


def test_it_goes_on_without_the_language_model(lm: Path, reviews: Path, tmp_path: Path):
    whole = thereafter.train(reviews, task="classify", start_from=lm, epochs=2, **SMALL)
    shutil.copytree(lm, tmp_path / "lm")
    with stopping_at(0), pytest.raises(KeyboardInterrupt):
        thereafter.train(reviews, task="classify", start_from=tmp_path / "lm", out=tmp_path / "run", epochs=2, **SMALL)
    shutil.copytree(tmp_path / "run", tmp_path / "killed")
    (tmp_path / "killed" / "state.safetensors").unlink()
    again = thereafter.resume(tmp_path / "killed")  # from the language model
    shutil.rmtree(tmp_path / "lm")
    resumed = thereafter.resume(tmp_path / "run")  # from the first snapshot
    for name, weight in whole.net.state_dict().items():
        assert torch.equal(weight, resumed.net.state_dict()[name]), name
        assert torch.equal(weight, again.net.state_dict()[name]), name


def test_without_a_checkpoint_and_without_the_language_model(lm: Path, reviews: Path, tmp_path: Path):
    shutil.copytree(lm, tmp_path / "lm")
    with stopping_at(0), pytest.raises(KeyboardInterrupt):
        thereafter.train(reviews, task="classify", start_from=tmp_path / "lm", out=tmp_path / "run", epochs=1, **SMALL)
    (tmp_path / "run" / "state.safetensors").unlink()
    (tmp_path / "lm" / "weights.safetensors").write_bytes(b"another")
    with pytest.raises(SourceError, match=r"that it begins with is not there any more, or has changed"):
        thereafter.resume(tmp_path / "run")


@pytest.mark.parametrize("kind", ["awd-lstm", *(pytest.param(kind, marks=pytest.mark.wide) for kind in ("rnn", "gru"))])
def test_every_kind_of_body(kind: str, reviews: Path, tmp_path: Path):
    sizes: dict[str, Any] = {"embed": 4, "sizes": (6, 4)}
    body = train_language_model(tmp_path, "other", model=kind, **sizes)
    model = thereafter.train(reviews, task="classify", start_from=body, **STILL, **SMALL)
    net: Any = model.net
    words = ["we", "saw", "one"]
    batch = model.task.batch([model.task.example(" ".join(words))], model.codecs)
    with torch.no_grad():
        ours = net.reader(net.words(batch.words_BT), lengths=batch.lengths_B)[0]
    torch.testing.assert_close(ours, features_of(thereafter.load(body), words), rtol=0, atol=1e-6)


def test_a_tagger_reads_over_the_language_model(lm: Path, tmp_path: Path):
    source = tagged_films(tmp_path / "tags.tsv")
    model = thereafter.train(source, task="tag", start_from=lm, epochs=4, rate=0.02, **SMALL, **TAG)
    assert model.config["tag"]["body"] == (8, 6)
    assert model.predict("the film was dull") == ["D", "N", "V", "A"]
    frozen = thereafter.train(source, task="tag", start_from=lm, epochs=1, unfreeze=True, **SMALL, **TAG)
    theirs = thereafter.load(lm).model.state_dict()  # type: ignore[union-attr]
    for name, weight in frozen.net.body.state_dict().items():  # type: ignore[union-attr]
        assert torch.equal(weight, theirs[f"layers.{name}"])
    assert model.score(source).accuracy > 0.97  # type: ignore[attr-defined]


def test_what_cannot_be_a_body_is_refused(lm: Path, reviews: Path, tmp_path: Path):
    def assert_no_body(*facts: object, start: Path = lm, task: str = "classify", **options: Any) -> None:
        with assert_refused(OptionError, *facts):
            thereafter.train(reviews, task=task, start_from=start, **options)

    assert_no_body("hidden", 9, lm, "hidden=8", hidden=9)
    assert_no_body("encoder", "gru", "encoder='lstm'", encoder="gru")
    assert_no_body("embed", 5, "embed=6", task="tag", embed=5)
    assert_no_body("fill", "classify", "tag", task="fill")
    book = tmp_path / "w.txt"
    book.write_text("the film was one we saw\n" * 30)
    thereafter.train(book, model="window", tokens="word", hidden=4, embed=4, epochs=1, out=tmp_path / "window")
    assert_no_body("window", "rnn", "gru", "lstm", "awd-lstm", start=tmp_path / "window")
    thereafter.train(book, model="lstm", tokens="char", hidden=4, layers=1, epochs=1, out=tmp_path / "char")
    assert_no_body("char", "word", "prose", start=tmp_path / "char")
    peephole = train_language_model(tmp_path, "peephole", peephole=True)
    assert_no_body("peephole=True", start=peephole)
    with assert_refused(OptionError, "translate"):
        thereafter.train(reviews, task="translate", layer_decay=0.5)


def test_words_are_read_as_the_language_model_reads_them(tmp_path: Path, reviews: Path):
    known = Lexicon(["the", "Film", "n't"], reading=WordReading("word"))
    assert known.reading is not None
    assert known.reading.cut("the Film. was n't", known) == ["the", "Film", ".", "was", "n't"]
    assert Lexicon.from_json(known.to_json()).reading == known.reading
    assert WordReading("word", lower=True, letters_only=True).cut("It's 4!", set()) == ["it", "s"]
    assert WordReading("word", letters_only=True).cut("42", set()) == ["<unk>"]
    assert WordReading("prose").form("film", {" film"}) == " film"
    assert WordReading("prose").form("film", {"film", " film"}) == "film"
    prose = train_language_model(tmp_path, "prose", tokens="prose")
    model = thereafter.train(reviews, task="classify", start_from=prose, **STILL, **SMALL)
    assert model.explain("we saw one film").words == ("we", " saw", " one", " film")


@pytest.mark.parametrize("tokens", ["word", "prose"])
def test_plain_texts_are_trained_on_scored_and_predicted_as_the_language_model_reads(tokens: str, tmp_path: Path):
    book, apart = tmp_path / "apart.txt", "It did n't fail , they do n't win .\n"
    book.write_text((apart + "It is n't , it ca n't .\n") * 40)
    thereafter.train(book, model="lstm", tokens=tokens, min_count=1, out=tmp_path / "lm", **LM)
    # words of the examples that stand together must not change how plain text is read
    rows = [f"It didn't {word} don't isn't can't.\t{label}\n" for word, label in (("fail", "good"), ("win", "bad"))]
    (tmp_path / "plain.tsv").write_text("".join(rows * 20))
    (tmp_path / "apart.tsv").write_text("".join(rows * 20).replace("n't", " n't").replace(".", " ."))
    plain = thereafter.train(tmp_path / "plain.tsv", task="classify", start_from=tmp_path / "lm", **STILL, **SMALL)
    formed = thereafter.train(tmp_path / "apart.tsv", task="classify", start_from=tmp_path / "lm", **STILL, **SMALL)
    assert plain.codecs["words"].to_json() == formed.codecs["words"].to_json()
    space = " " if tokens == "word" else ""
    assert space.join(plain.explain("It didn't fail.").words) == "It did n't fail ."
    codecs: Any = plain.codecs
    example = plain.task.read([tmp_path / "plain.tsv"])[0]
    prepared = plain.task.prepare("It didn't fail don't isn't can't.", codecs)
    learned, predicted = (plain.task.batch([one], codecs) for one in (example, prepared))
    assert torch.equal(learned.words_BT, predicted.words_BT)  # type: ignore[attr-defined]
    plain.save(tmp_path / "run")
    again: Any = thereafter.load(tmp_path / "run")
    assert again.codecs["words"].reading == codecs["words"].reading
    assert again.codecs["words"].reading.style is not None
    as_is: Any = thereafter.load(tmp_path / "run", as_written=True)
    joined = "didn't" if tokens == "word" else " didn"
    assert joined in as_is.explain("It didn't fail.").words
    assert joined in as_is.trace("It didn't fail.").tokens
    assert space.join(again.trace("It didn't fail.").tokens) == "It did n't fail ."
    as_is.save(tmp_path / "copy")
    assert thereafter.load(tmp_path / "copy").explain("It didn't fail.").words == again.explain("It didn't fail.").words


def test_how_a_tagger_cuts_words_is_told_by_its_examples_alone():
    counts = {" n't": 5, " -": 9, " well-known": 1}
    over_prose = Lexicon([" don't", " -", " n't"], counts=counts, reading=WordReading("prose"))
    assert (habits_of(over_prose).clitics, habits_of(over_prose).hyphens) == ("n't", "split")
    marks = Lexicon([" “", "``"], reading=WordReading("prose"))
    assert reader_of(marks, Lexicon(list("“a")))(split_sentence("“a")).words[0] == "“"


def test_concatenated_pooling_by_hand():
    torch.manual_seed(2)
    net = Classifier(ClassifierSettings(embed=3, sizes=(4,), pooling="concat", encoder="gru"), words=9, labels=2).eval()
    batch = ClassBatch(torch.tensor([[2, 3, 4, 5], [6, 7, 0, 0]]), torch.tensor([4, 2]))
    with torch.no_grad():
        z_BK = net.scores(batch)
        for row, end in enumerate((4, 2)):
            h_TH = net.reader(net.words(batch.words_BT[row : row + 1, :end]))[0][0]
            v_H = torch.cat((h_TH[-1], h_TH.max(0).values, h_TH.mean(0)))
            torch.testing.assert_close(z_BK[row], net.head(v_H))


def test_a_convolution_has_no_layers_of_a_language_model():
    with assert_refused(OptionError, "cnn", "sizes", "(4,)", "weight_drop"):
        ClassifierSettings(encoder="cnn", sizes=(4,))


def test_weights_by_layer_name_every_weight_once():
    for settings in (
        ClassifierSettings(embed=3, sizes=(4, 4)),
        ClassifierSettings(embed=3, hidden=4, layers=2, pooling="attention"),
        ClassifierSettings(embed=3, hidden=4, encoder="cnn"),
    ):
        net = Classifier(settings, words=5, labels=2)
        layers = net.weights_by_layer()
        assert sorted(name for names in layers for name in names) == sorted(name for name, _ in net.named_parameters())
        assert "head.weight" in layers[0]
        assert layers[-1] == ["words.weight"]
        assert len(layers) == (3 if settings.encoder == "cnn" else 4)


def test_the_blocks_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "fine-tuning.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/fine-tuning.md", "exec"), {})  # noqa: S102, our own page
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "runs" / "films"), "poor"]


def test_the_command(lm: Path, reviews: Path, tmp_path: Path, shell: Shell):
    words = ["train", reviews, "--task", "classify", "--from", lm, "--out", tmp_path / "run", "--epochs", "2"]
    printed, code = shell(*words, "--unfreeze", "--layer-decay", "0.38", "--no-baselines")
    assert code == 0, printed
    config = thereafter.load(tmp_path / "run").config
    assert np.allclose(config["training"]["layer_decay"], 0.38)
    assert config["training"]["unfreeze"] is True
