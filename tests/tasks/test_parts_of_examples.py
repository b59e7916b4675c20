"""A folder with train, valid and test files of examples: every task tests on the last and never trains on it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from toys import TOYS, Shell, labelled, labelled_series, reversed_pairs, season, tagged

import thereafter
from refusals import assert_refused
from stops import stopping_at
from thereafter.base import config as toml
from thereafter.errors import FormatError, OptionError
from thereafter.tasks import TASKS, finding, fitting
from thereafter.tasks.finding import task_for
from thereafter.tasks.task import AnyTask

ENDINGS = dict.fromkeys(TOYS, ".tsv") | {
    "tag": ".conll",
    "fill": ".txt",
    "video": ".npz",
    "next-frames": ".npz",
    "draw": ".npz",
    "act": ".json",
}
SIZES = {"train": 24, "valid": 16, "test": 12}
SMALL: dict[str, Any] = {"hidden": 4, "embed": 4, "letter_hidden": 4, "letter_embed": 4, "epochs": 1, "batch": 4}
SMALLEST = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]


def task_of(name: str) -> AnyTask:
    """The task with its small network, without a split of its own."""
    options = {key: value for key, value in TOYS[name].options.items() if key != "split"}
    task: AnyTask = TASKS.load(name)
    return task.configured(fitting.settle(task, options)[0])


def write_parts(name: str, folder: Path, pattern: str) -> dict[str, Path]:
    """Examples of a task for each part, in files or folders of these names."""
    files = {}
    for part, count in SIZES.items():
        path = folder / pattern.format(part=part)
        path.parent.mkdir(parents=True, exist_ok=True)
        files[part] = TOYS[name].write(path, count)
    return files


def rows(examples: Any) -> int:
    """How many there are; of windows the rows of their table."""
    return examples.table.rows if hasattr(examples, "table") else len(examples)


BESIDE = ("classify-pictures", "glimpse", "caption")  # examples with a folder of pictures beside them


@pytest.mark.parametrize(
    ("name", "pattern"),
    [(name, "{part}/examples") for name in TOYS]
    + [(name, pattern) for name in TOYS if name not in BESIDE for pattern in ("{part}", "own.{part}")],
)
def test_every_task_takes_its_parts(name: str, pattern: str, tmp_path: Path):
    files = write_parts(name, tmp_path, pattern + ENDINGS[name])
    task = task_of(name)
    train, valid, notes = finding.train_and_valid(task, tmp_path, None)
    test = finding.find(task, tmp_path, "test")
    for part, own in (("train", train), ("valid", valid), ("test", test)):
        assert rows(own.examples) == rows(task.read(finding.files_of(task, files[part], part).files)), part
        assert files[part] in own.files
    assert finding.has(task, tmp_path, "test")
    assert "is the training part" in notes[0] or "are the training part" in notes[0]
    whole = finding.joined(task, tmp_path)
    assert not any("part" in note.split(";")[0] for note in whole.notes)
    assert set(whole.parts["text"].files) >= set(files.values())


def as_conllu(text: str) -> str:
    """Words and tags in ten columns."""
    sentences = [[line.split("\t") for line in sentence.splitlines()] for sentence in text.split("\n\n")]
    rows = (
        "".join(f"{at}\t{word}\t_\t{tag}" + "\t_" * 6 + "\n" for at, (word, tag) in enumerate(one, 1))
        for one in sentences
    )
    return "\n".join(rows)


def test_a_tagger_takes_the_names_of_published_corpora(tmp_path: Path):
    for folder, names in (
        ("treebank", ("en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu", "en_ewt-ud-test.conllu")),
        ("conll", ("eng.train", "eng.testa", "eng.testb")),
        ("bio", ("train.bio", "dev.bio", "test.bio")),
        ("iob", ("train.iob.gz", "valid.iob.gz", "test.iob.gz")),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "README.txt").write_text("no tags here\n")
        for name, count in zip(names, SIZES.values(), strict=True):
            path = tagged(tmp_path / folder / name, count)
            if name.endswith(".conllu"):
                path.write_text(as_conllu(path.read_text()))
            if name.endswith(".gz"):
                path.write_bytes(gzip.compress(path.read_bytes()))
        train, valid, _ = finding.train_and_valid(TASKS.load("tag"), tmp_path / folder, None)
        assert (len(train.examples), len(valid.examples)) == (24, 16)
        assert len(finding.find(TASKS.load("tag"), tmp_path / folder, "test").examples) == 12


def test_a_folder_of_tagged_files_without_parts_is_one(tmp_path: Path):
    tagged(tmp_path / "a.conll", 12)
    tagged(tmp_path / "b.conll", 8)
    train, valid, notes = finding.train_and_valid(TASKS.load("tag"), tmp_path, None)
    assert (len(train.examples), len(valid.examples)) == (18, 2)
    assert notes == [f"the last 2 examples of {tmp_path} are held out for validation"]


def test_a_training_says_what_it_trains_and_tests_on(shell: Shell, tmp_path: Path):
    write_parts("tag", tmp_path / "own", "{part}.conll")
    run, small = tmp_path / "run", ("--task", "tag", "--no-baselines", *SMALLEST, "--out")
    lines, code = shell("train", tmp_path / "own", *small, run)
    assert code == 0
    model = thereafter.load(run)
    assert "test.conll the test part" in model.log[0]["notes"][0]
    assert f"valid      {model.score(str(tmp_path / 'own' / 'valid.conll'))}" in lines
    score = str(model.score(str(tmp_path / "own" / "test.conll")))
    assert any(line.startswith("test") and line.endswith(score) for line in lines)
    assert str(model.score(tmp_path / "own")) == score
    assert shell("score", run, tmp_path / "own")[0] == [score]
    whole = model.score([*(tmp_path / "own").glob("*.conll")])
    assert shell("score", run, tmp_path / "own", "--parts", "no")[0] == [str(whole)]
    lines, code = shell("train", tmp_path / "own", "--parts", "no", *small, tmp_path / "one")
    config = thereafter.load(tmp_path / "one").config["source"]
    assert (code, config["parts"], len(config["files"])) == (0, False, 3)
    assert not any(line.startswith("test") for line in lines)
    for trained, size in ((run, 24), (tmp_path / "one", 47)):
        again = tmp_path / f"again-{size}"
        assert shell("train", "--recipe", trained / "config.toml", "--no-baselines", "--out", again)[1] == 0
        assert thereafter.load(again).log[0]["examples"] == size
        sources = [thereafter.load(one).config["source"]["sha256"] for one in (again, trained)]
        assert sources[0] == sources[1]


def test_a_table_of_predictions_is_that_of_the_test_file(tmp_path: Path):
    write_parts("fill", tmp_path, "{part}.txt")
    tagger = thereafter.train(tagged(tmp_path / "words.conll", 20), task="tag", **SMALL)
    assert tagger.tag(tmp_path).to_rows() == tagger.tag(tmp_path / "test.txt").to_rows()


def test_a_resumed_task_has_the_same_parts(tmp_path: Path):
    write_parts("tag", tmp_path / "own", "{part}.conll")
    whole = thereafter.train(tmp_path / "own", task="tag", **SMALL)
    with stopping_at(3), pytest.raises(KeyboardInterrupt):
        thereafter.train(tmp_path / "own", task="tag", out=tmp_path / "run", **SMALL)
    tagged(tmp_path / "own" / "train-2.conll", 5)  # came later and is none of its own
    resumed = thereafter.resume(tmp_path / "run")
    source = finding.source_of(resumed.config)
    assert str(resumed.score(source)) == str(whole.score(tmp_path / "own" / "test.conll"))
    assert resumed.log[-1]["validation"] == whole.log[-1]["validation"]


def test_a_test_file_without_answers_does_not_undo_the_training(shell: Shell, tmp_path: Path):
    folder = tmp_path / "own"
    folder.mkdir()
    labelled(folder / "train.tsv", 60)
    (folder / "test.tsv").write_text("id\ttext\n" + "".join(f"{number}\tthe film\n" for number in range(20)))
    lines, code = shell("train", folder, "--task", "classify", "--epochs", 1, "--hidden", 8, "--out", tmp_path / "run")
    assert code == 0
    assert any(line.startswith("caution    the test part could not be scored") for line in lines)
    assert lines[-1] == f"saved      {tmp_path / 'run'}"


def test_series_with_labels_are_recognised_by_their_training_part(tmp_path: Path):
    labelled_series(tmp_path / "Wave_TRAIN.tsv", 20)
    labelled_series(tmp_path / "Wave_TEST.tsv", 10)
    task = task_for("classify", tmp_path)
    assert task.name == "classify-series"
    assert len(finding.find(task, tmp_path, "test").examples) == 10


def test_one_list_of_labels_above_the_series_of_each_part(tmp_path: Path):
    labels = ["file,label"]
    for number in range(12):
        path = tmp_path / ("train" if number < 8 else "test") / f"{number}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("x,y\n" + "".join(f"{number * step},{step}\n" for step in range(6)))
        labels.append(f"{path.parent.name}/{path.name},{'up' if number % 2 else 'down'}")
    (tmp_path / "labels.csv").write_text("\n".join(labels) + "\n")
    task = task_for("classify", tmp_path)
    assert task.name == "classify-series"
    for part, count in (("train", 8), ("test", 4)):
        assert [one.label for one in finding.find(task, tmp_path, part).examples] == ["down", "up"] * (count // 2)  # type: ignore[attr-defined]


def test_forecasts_are_tested_on_a_table_of_their_own(tmp_path: Path):
    head, *days = season(tmp_path / "all", 120).read_text().splitlines()
    tables = {"train": days[:60], "valid": days[60:90], "test": days[90:]}
    for part in ("train", "test"):
        (tmp_path / f"{part}.csv").write_text("\n".join([head, *tables[part]]) + "\n")
    options: dict[str, Any] = {"task": "forecast", "model": "linear", "horizon": 2, "lookback": 8, "season": 1}
    model = thereafter.train(tmp_path, **options)
    apart = thereafter.train(tmp_path / "train.csv", **options, split="90/10")
    assert str(model.score(tmp_path)) == str(apart.score(tmp_path / "test.csv"))
    assert model.log[-1]["validation"] == apart.log[-1]["validation"]
    (tmp_path / "valid.csv").write_text("\n".join([head, *tables["valid"]]) + "\n")
    other = thereafter.train(tmp_path, **options)
    given = thereafter.train(tmp_path / "train.csv", valid=tmp_path / "valid.csv", **options)
    assert other.log[-1]["validation"] == given.log[-1]["validation"]
    assert len(model.forecast(tmp_path)) == len(apart.forecast([*tmp_path.glob("*.csv")]))
    with pytest.raises(OptionError, match="valid part of its own"):
        thereafter.train(tmp_path, split="70/10/20", **options)
    comparison = thereafter.compare(tmp_path, task="forecast", models=["naive", "linear"], horizon=2, lookback=8)
    assert comparison.part == "test"


def test_pairs_in_two_files_for_each_part(tmp_path: Path):
    for part, count in SIZES.items():
        pairs = [line.split("\t") for line in reversed_pairs(tmp_path / "pairs", count).read_text().splitlines()]
        for side, language in enumerate(("de", "en")):
            name = f"{part}_2016.{language}" if part == "test" else f"{part}.{language}"
            (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    (tmp_path / "pairs").unlink()
    plain: AnyTask = TASKS.load("translate")
    with assert_refused(OptionError, "de", "en"):
        finding.train_and_valid(plain, tmp_path, None)
    task = plain.configured(toml.build(plain.settings, {"languages": "en-de"}, "translate"))
    train, valid, notes = finding.train_and_valid(task, tmp_path, None)
    test = finding.find(task, tmp_path, "test")
    assert [len(part.examples) for part in (train, valid, test)] == [24, 16, 12]
    first = train.examples[0]
    assert first.target == (tmp_path / "train.de").read_text().splitlines()[0]  # type: ignore[attr-defined]
    assert "train.de and 1 more are the training part" in notes[0]


def test_several_files_of_pairs_are_read_one_after_the_other(tmp_path: Path):
    for name, count in (("train-0.tsv", 5), ("train-1.tsv", 7), ("test.tsv", 3)):
        reversed_pairs(tmp_path / name, count)
    assert len(finding.find(TASKS.load("translate"), tmp_path, "train").examples) == 12


def test_captions_of_each_part_beside_pictures_that_they_share(tmp_path: Path):
    path = TOYS["caption"].write(tmp_path / "all.tsv", 12)
    head, *lines = path.read_text().splitlines()
    path.unlink()
    for part, chosen in (("train", lines[:16]), ("test", lines[16:])):
        (tmp_path / f"{part}.tsv").write_text("\n".join([head, *chosen]) + "\n")
    task = task_of("caption")
    assert len(finding.find(task, tmp_path, "train").examples) == 8
    assert len(finding.find(task, tmp_path, "test").examples) == 4


def test_labels_of_each_part_beside_pictures_that_they_share(tmp_path: Path):
    path = TOYS["classify-pictures"].write(tmp_path / "all.csv", 12)
    head, *lines = path.read_text().replace("\t", ",").splitlines()
    path.unlink()
    for part, chosen in (("train", lines[:8]), ("test", lines[8:])):
        (tmp_path / f"{part}.csv").write_text("\n".join([head, *chosen]) + "\n")
    task = task_of("classify-pictures")
    assert len(finding.find(task, tmp_path, "train").examples) == 8
    assert len(finding.find(task, tmp_path, "test").examples) == 4


def test_one_table_of_labels_above_the_pictures_of_each_part(tmp_path: Path):
    path = TOYS["classify-pictures"].write(tmp_path / "labels.tsv", 12)
    table = path.read_text()
    for number in range(12):
        part = "train" if number < 8 else "test"
        (tmp_path / part).mkdir(exist_ok=True)
        (tmp_path / "lit" / f"{number}.png").rename(tmp_path / part / f"{number}.png")
        table = table.replace(f"\n{number}.png", f"\n{part}/{number}.png")
    path.write_text(table)
    task = task_of("classify-pictures")
    assert len(finding.find(task, tmp_path, "train").examples) == 8
    assert len(finding.find(task, tmp_path, "test").examples) == 4


def test_networks_are_compared_on_the_test_file(tmp_path: Path):
    write_parts("tag", tmp_path / "own", "{part}.conll")
    options: dict[str, Any] = {"task": "tag", "models": {"small": {"layers": 1}}, **SMALL}
    assert thereafter.compare(tmp_path / "own", **options).part == "test"
    assert thereafter.compare(tmp_path / "own", parts=False, **options).part == "validation"
    (tmp_path / "own" / "test.conll").write_text("one\tA\ntwo\n")
    with stopping_at(0) as steps, assert_refused(FormatError, "test.conll"):
        thereafter.compare(tmp_path / "own", **options)
    assert steps == [0]  # nothing was trained
