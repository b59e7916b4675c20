"""Run folders: saved, loaded, replaced; damaged and hostile ones refused; nothing in them is executed."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import thereafter
from refusals import assert_refused
from thereafter.base.storage import map_arrays
from thereafter.errors import FormatError, StorageError, ThereafterError
from thereafter.ngram.model import estimate
from thereafter.ngram.tables import Tables
from thereafter.runs.folder import free_folder
from thereafter.text.tokenizers import TOKENIZERS

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish, é😀 on the mat\n" * 3
OTHER = "the cat ate zebras\n\0 漢 on the mat"
FILES = ["config.toml", "log.jsonl", "tokenizer.json", "weights.safetensors"]


def trained(tokens: str = "word", **options: Any) -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, tokens=tokens, **({"order": 3} | options))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return trained().save(tmp_path / "run")


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("tokens", list(TOKENIZERS))
def test_saved_and_loaded(tmp_path: Path, tokens: str) -> None:
    lm = trained(tokens, cutoffs=(0, 1))
    again = thereafter.load(lm.save(tmp_path / "new" / "run"))
    assert sorted(listing(tmp_path / "new" / "run")) == FILES
    assert again.score(text=OTHER) == lm.score(text=OTHER)
    assert again.next("the cat", k=6) == lm.next("the cat", k=6)
    assert again.generate("the", 30, seed=2) == lm.generate("the", 30, seed=2)
    assert again.model.__dict__.keys() == lm.model.__dict__.keys()
    for name in ("context", "line_end", "smoothing", "uniform", "proper", "discounts", "notes"):
        assert getattr(again.model, name) == getattr(lm.model, name)
    assert again.log == json.loads(json.dumps(lm.log))
    again.save(tmp_path / "copy")
    assert listing(tmp_path / "copy") == listing(tmp_path / "new" / "run")


@pytest.mark.parametrize(
    "options",
    [
        {"smoothing": "add-alpha", "alpha": np.float64(0.25)},
        {"smoothing": "stupid-backoff", "factor": 0.3, "normalise": False},
        {"smoothing": "mle", "order": np.int64(2)},
        {"context": "stream", "lower": True, "min_count": 1},
    ],
)
def test_options_are_kept(tmp_path: Path, options: dict[str, Any]) -> None:
    lm = trained(**options)
    again = thereafter.load(lm.save(tmp_path / "run"))
    assert again.score(text="The CAT sat") == lm.score(text="The CAT sat")
    flat = again.config["ngram"] | again.config["text"]
    assert {name: flat[name] for name in options} == options


def test_a_source_whose_name_is_not_unicode(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_text(TEXT)
    lm = thereafter.train(tmp_path / name, tokens="word", order=2)
    again = thereafter.load(lm.save(tmp_path / "run"))
    assert again.score(text=OTHER) == lm.score(text=OTHER)


def test_the_weights_are_mapped_not_read(run: Path) -> None:
    base: Any = thereafter.load(run).model.tables.logp  # type: ignore[attr-defined]
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_a_run_is_replaced_even_by_itself(run: Path) -> None:
    loaded = thereafter.load(run)
    before = loaded.score(text=OTHER)
    loaded.save(run)
    assert loaded.score(text=OTHER) == before  # still mapped from the file that was replaced
    trained("char").save(run)
    assert thereafter.load(run).tokenizer.name == "char"
    assert sorted(listing(run)) == FILES


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    (tmp_path / "file").write_text("x")
    with assert_refused(StorageError, tmp_path / "letters"):
        trained().save(tmp_path / "letters")
    with assert_refused(StorageError, tmp_path / "file"):
        trained().save(tmp_path / "file")
    with assert_refused(StorageError, tmp_path / "file"):
        trained().save(tmp_path / "file" / "run")
    assert sorted(listing(tmp_path / "letters")) == ["dear.txt"]


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


def no_space_says_safetensors(*_: Any, **__: Any) -> None:
    raise RuntimeError("I/O error: No space left on device (os error 28)")


def no_space_for_the_tokenizer(*_: Any) -> None:
    raise StorageError("the tokenizer could not be saved: No space left on device; try a folder that has room")


@pytest.mark.parametrize("victim", FILES)
def test_a_disk_that_fills_up_keeps_the_old_run(run: Path, victim: str) -> None:
    before = listing(run)
    fresh = run.with_name("fresh")
    write_text = Path.write_text

    def full(path: Path, *args: Any, **kwargs: Any) -> int:
        return no_space() if victim in str(path) else write_text(path, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        if victim == "weights.safetensors":
            patch.setattr("safetensors.numpy.save_file", no_space_says_safetensors)
        if victim == "tokenizer.json":
            patch.setattr("thereafter.text.tokenizers.base.write_stored", no_space_for_the_tokenizer)
        for folder in (run, fresh):
            with assert_refused(StorageError, "No space left on device"):
                trained("char").save(folder)
    assert listing(run) == before
    assert thereafter.load(run).tokenizer.name == "word"
    assert not fresh.exists()
    trained("char").save(fresh)  # what failed once is no obstacle to a second try
    assert sorted(listing(fresh)) == FILES


def test_a_really_full_disk_keeps_the_old_run(run: Path) -> None:
    before = listing(run)
    larger = trained("char", order=6)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))  # the system lets no file grow beyond this
    try:
        with assert_refused(StorageError, run):
            larger.save(run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert listing(run) == before


def test_what_a_crash_left_half_moved_can_be_written_again(run: Path) -> None:
    (run / "config.toml").unlink()
    with assert_refused(FormatError, "config.toml"):
        thereafter.load(run)
    trained().save(run)
    thereafter.load(run)


def test_what_is_no_run(tmp_path: Path, run: Path) -> None:
    with assert_refused(FormatError, "config.toml"):
        thereafter.load(tmp_path)
    with assert_refused(FormatError, tmp_path / "rum", run):
        thereafter.load(tmp_path / "rum")
    with assert_refused(FormatError, tmp_path / "far" / "away", "thereafter train"):
        thereafter.load(tmp_path / "far" / "away")


def problem_with(run: Path) -> ThereafterError | None:
    """What is wrong with a run; a damaged one that loads all the same must work as one."""
    try:
        lm = thereafter.load(run)
        lm.next("the cat")
        lm.score(text=OTHER)
        lm.summary()
        repr(lm)
    except ThereafterError as error:
        return error
    return None


@pytest.mark.parametrize("name", FILES)
def test_files_cut_short_changed_or_gone(run: Path, name: str) -> None:
    whole = (run / name).read_bytes()
    rng = np.random.default_rng(4)
    contents = [whole[: len(whole) * k // 7] for k in range(7)]
    contents += [b"\xff\xfe" + whole, b"\0" * len(whole), b"[" * 50_000, b"{}", b"[]", b"3"]
    for _ in range(40):
        flipped = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            flipped[place] ^= int(rng.integers(1, 256))
        contents.append(bytes(flipped))
    refused = 0
    for content in contents:
        (run / name).write_bytes(content)
        error = problem_with(run)
        assert error is None or isinstance(error, FormatError)
        assert error is None or len(str(error)) > 20
        refused += error is not None
    assert refused >= 8 if name != "log.jsonl" else refused == 0  # no log keeps anybody from a model
    (run / name).unlink()
    if name != "log.jsonl":
        with pytest.raises(FormatError):
            thereafter.load(run)


def test_the_parts_of_two_runs_do_not_mix(run: Path, tmp_path: Path) -> None:
    other = trained("char").save(tmp_path / "other")
    shutil.copy(other / "tokenizer.json", run / "tokenizer.json")
    with assert_refused(FormatError, run):
        thereafter.load(run)


def test_another_format_or_model_is_refused(run: Path) -> None:
    config = (run / "config.toml").read_text()
    for old, new, facts in [
        ("format = 1", "format = 2", (2, 1)),
        ('model = "ngram"', 'model = "nogram"', ("nogram", "ngram")),
        ("[text]", "[texts]", ("text",)),
    ]:
        assert old in config
        (run / "config.toml").write_text(config.replace(old, new))
        with assert_refused(FormatError, *facts):
            thereafter.load(run)


def change(name: str, edit: Callable[[np.ndarray], Any]) -> Callable[[dict[str, np.ndarray]], None]:
    def apply(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = edit(arrays[name].copy())

    return apply


def put(place: int, value: int) -> Callable[[np.ndarray], np.ndarray]:
    def edit(array: np.ndarray) -> np.ndarray:
        array[place] = value
        return array

    return edit


HOSTILE: dict[str, Callable[[dict[str, np.ndarray]], Any]] = {
    "a suffix that is itself": change("suffix", lambda a: np.where(np.arange(len(a)) == 30, 30, a).astype(np.int32)),
    "a suffix of its own order": change("suffix", put(30, 31)),
    "a suffix far away": change("suffix", put(-1, 2**31 - 1)),
    "a negative suffix": change("suffix", put(30, -1)),
    "a word's suffix that is a word": change("suffix", put(3, 2)),
    "a child before the beginning": change("first_child", put(5, -7)),
    "a child beyond the end": change("first_child", put(-1, 10**6)),
    "children that fall": change("first_child", lambda a: np.concatenate([a[:1], a[:0:-1]])),
    "all children at the end": change("first_child", lambda a: np.array([1] * (len(a) - 1) + [a[-1]], np.int32)),
    "all children at the beginning": change("first_child", lambda a: np.array([1] + [a[-1]] * (len(a) - 1), np.int32)),
    "a word beyond the vocabulary": change("word", put(-1, 10**6)),
    "a negative word": change("word", put(-1, -1)),
    "a predicted start mark": change("word", lambda a: put(-1, int(a.max()))(a)),
    "levels that fall": change("level_starts", put(2, 10**6)),
    "negative levels": change("level_starts", put(2, -5)),
    "no levels": change("level_starts", lambda a: a[:2]),
    "a level that is no list": change("level_starts", lambda a: np.array(3, np.int64)),
    "too few logs": change("logp", lambda a: a[:-1]),
    "logs in two axes": change("logp", lambda a: a[:, None]),
    "weights in two axes": change("backoff", lambda a: a[:, None]),
    "words in two axes": change("word", lambda a: a[:, None]),
    "too few weights": change("backoff", lambda a: a[:-1]),
    "other numbers": change("suffix", lambda a: np.full(len(a), np.nan)),
    "an array gone": lambda arrays: arrays.pop("suffix"),
}


def facts_of(run: Path) -> dict[str, str]:
    return map_arrays(run / "weights.safetensors")[1]


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_tables_are_refused(run: Path, what: str) -> None:
    arrays = dict(load_file(run / "weights.safetensors"))
    HOSTILE[what](arrays)
    save_file(arrays, run / "weights.safetensors", metadata=facts_of(run))
    with assert_refused(FormatError, "n-gram"):
        thereafter.load(run)


@pytest.mark.parametrize(
    "facts",
    [
        {"context": "page"},
        {"line_end": 10**30},
        {"line_end": -3},
        {"line_end": "x"},
        {"discounts": [1]},
        {"discounts": {"a": [1]}},
        {"notes": 3},
        {"smoothing": None, "gone": "context"},
    ],
)
def test_hostile_facts_are_refused(run: Path, facts: dict[str, Any]) -> None:
    known = json.loads(facts_of(run)["ngram"]) | facts
    known.pop(facts.get("gone", ""), None)
    save_file(
        load_file(run / "weights.safetensors"), run / "weights.safetensors", metadata={"ngram": json.dumps(known)}
    )
    with assert_refused(FormatError, "n-gram"):
        thereafter.load(run)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_good_tables_pass_the_check(order: int) -> None:
    ids = np.random.default_rng(1).integers(0, 9, 500)
    for cutoffs in ((), (0, 1), (3,)):
        tables = estimate(ids, 12, order=order, cutoffs=cutoffs[:order]).tables
        tables.check()
        assert {field.name for field in fields(Tables)} == set(tables.__dict__) - {"_sorted_keys"}
        with pytest.raises(FormatError):
            replace(tables, word=tables.word[:-1]).check()


WATCHED = """
import sys, thereafter
thereafter.load(sys.argv[1]).score(text="the cat")  # all modules are imported now
def watch(event, args):
    if event in ("exec", "compile", "import", "pickle.find_class", "os.system", "subprocess.Popen", "ctypes.dlopen"):
        sys.stderr.write(f"{event} {args}")
        sys.exit(3)
sys.addaudithook(watch)
lm = thereafter.load(sys.argv[1])
sys.stdout.write(repr(lm.score(text="the cat").nats))
"""


@pytest.mark.parametrize("tokens", ["word", "bpe"])
def test_loading_executes_nothing(tmp_path: Path, tokens: str) -> None:
    lm = trained(tokens)
    run = lm.save(tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(run)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "THEREAFTER_NUMBA": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(lm.score(text="the cat").nats, rel=1e-6)


def test_free_folders_are_numbered(tmp_path: Path) -> None:
    assert free_folder(tmp_path, "book-ngram") == tmp_path / "book-ngram"
    (tmp_path / "book-ngram").mkdir()
    (tmp_path / "book-ngram-2").mkdir()
    assert free_folder(tmp_path, "book-ngram") == tmp_path / "book-ngram-3"
