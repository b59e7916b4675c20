"""Model folders that were made to do harm: each is answered with one sentence, nothing in them runs, and no memory is
taken for what they claim."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import thereafter
from refusals import assert_refused
from thereafter.base.storage import map_arrays
from thereafter.cli import main
from thereafter.errors import FormatError, ThereafterError
from thereafter.training.weights import check_counts, restored
from thereafter.vision.captioning.network import CaptionerSettings

OLD = Path(__file__).parents[1] / "old_runs"
KINDS = ("ngram", "lstm", "transformer", "tag")
WEIGHTS, CONFIG, TOKENIZER, LOG = "weights.safetensors", "config.toml", "tokenizer.json", "log.jsonl"
MEGABYTES = 400
"""How much the process may grow while a folder is refused; what these folders claim is thousands of times more."""
Harm = Callable[[Path], Any]


class Trap:
    """Unpickled, it leaves a file behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch harmed",))


def header(edit: Callable[[dict[str, Any]], Any]) -> Harm:
    """Changes the header of the weights and leaves the numbers as they are."""

    def apply(run: Path) -> None:
        whole = (run / WEIGHTS).read_bytes()
        length = int.from_bytes(whole[:8], "little")
        entries = json.loads(whole[8 : 8 + length])
        changed = edit(entries)
        text = json.dumps(entries if changed is None else changed).encode()
        (run / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + length :])

    return apply


def arrays(edit: Callable[[dict[str, np.ndarray]], Any]) -> Harm:
    """Changes the arrays, in a file that is whole."""

    def apply(run: Path) -> None:
        some, facts = load_file(run / WEIGHTS), map_arrays(run / WEIGHTS)[1]
        edit(some)
        save_file({name: np.ascontiguousarray(array) for name, array in some.items()}, run / WEIGHTS, facts or None)

    return apply


def first(entries: dict[str, Any]) -> dict[str, Any]:
    """The largest array of a header."""
    tables = {name: entry for name, entry in entries.items() if name != "__metadata__"}
    return max(tables.values(), key=lambda entry: entry["data_offsets"][1] - entry["data_offsets"][0])


def content(name: str, edit: Callable[[bytes], bytes]) -> Harm:
    return lambda run: (run / name).write_bytes(edit((run / name).read_bytes()))


def replaced(name: str, old: str, new: str) -> Harm:
    def apply(run: Path) -> None:
        text = (run / name).read_text()
        assert old in text, (name, old)
        (run / name).write_text(text.replace(old, new, 1))

    return apply


def linked(name: str, target: str) -> Harm:
    def apply(run: Path) -> None:
        place = run.with_name("elsewhere")
        (run / name).rename(place)
        (run / name).symlink_to(target or place)

    return apply


def other_sort(name: str, make: Callable[[Path], Any]) -> Harm:
    def apply(run: Path) -> None:
        (run / name).unlink()
        make(run / name)

    return apply


def sparse(name: str, size: int) -> Harm:
    return lambda run: os.truncate(run / name, size)


def pickled_npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, weight=np.array([Trap()], dtype=object))
    return file.getvalue()


def renamed(some: dict[str, np.ndarray]) -> None:
    some["__class__"] = some.pop(sorted(some)[0])


def turned(some: dict[str, np.ndarray]) -> None:
    """Every matrix on its side; a table of an n-gram, which has none, becomes one."""
    for name, array in some.items():
        some[name] = array.T if array.ndim > 1 else array.reshape(-1, 1)


def filled_with(value: float) -> Callable[[dict[str, np.ndarray]], Any]:
    """One number of every array of floats becomes this value."""

    def edit(some: dict[str, np.ndarray]) -> None:
        for array in some.values():
            if array.dtype.kind == "f":
                array.flat[-1] = value

    return edit


GENERAL: dict[str, Harm] = {
    "weights are empty": content(WEIGHTS, lambda _: b""),
    "weights end in the header": content(WEIGHTS, lambda whole: whole[:40]),
    "weights end in the numbers": content(WEIGHTS, lambda whole: whole[:-9]),
    "weights go on": content(WEIGHTS, lambda whole: whole + b"\0" * 64),
    "a header of 2^62 bytes": content(WEIGHTS, lambda whole: struct.pack("<Q", 2**62) + whole[8:]),
    "a header of 2^64 - 1 bytes": content(WEIGHTS, lambda whole: b"\xff" * 8 + whole[8:]),
    "a header of brackets": content(WEIGHTS, lambda _: struct.pack("<Q", 200_000) + b"[" * 200_000),
    "a header that is a list": header(lambda entries: [entries]),
    "numbers beyond the end": header(lambda entries: first(entries).update(data_offsets=[0, 2**60])),
    "a shape of 2^40": header(lambda entries: first(entries).update(shape=[2**40])),
    "a shape of 2^124": header(lambda entries: first(entries).update(shape=[2**62, 2**62])),
    "a negative shape": header(lambda entries: first(entries).update(shape=[-1, -4])),
    "a shape of words": header(lambda entries: first(entries).update(shape=["many"])),
    "offsets that are a table": header(lambda entries: first(entries).update(data_offsets={"from": 0})),
    "a dtype of objects": header(lambda entries: first(entries).update(dtype="O")),
    "two arrays at one place": header(
        lambda entries: {name: first(entries) for name in entries if name != "__metadata__"}
    ),
    "an npz with a pickle for weights": content(WEIGHTS, lambda _: pickled_npz()),
    "a pickle for weights": content(WEIGHTS, lambda _: pickle.dumps(Trap())),
    "an array under another name": arrays(renamed),
    "no arrays": arrays(dict.clear),
    "shapes on their side": arrays(turned),
    "numbers of another type": arrays(
        lambda some: some.update({name: array.astype(np.float64) for name, array in some.items()})
    ),
    "numbers that are nan": arrays(filled_with(np.nan)),
    "numbers that are infinite": arrays(filled_with(np.inf)),
    "weights are a link": linked(WEIGHTS, ""),
    "weights are a link to all zeros": linked(WEIGHTS, "/dev/zero"),
    "the configuration is a link": linked(CONFIG, ""),
    "the tokenizer is a link to a secret": linked(TOKENIZER, "/etc/passwd"),
    "the log is a link": linked(LOG, ""),
    "weights are a pipe": other_sort(WEIGHTS, os.mkfifo),
    "the tokenizer is a folder": other_sort(TOKENIZER, os.mkdir),
    "a configuration of 20 MB": sparse(CONFIG, 20_000_000),
    "a tokenizer of 2 TB": sparse(TOKENIZER, 2 << 40),
    "a configuration of bytes": content(CONFIG, lambda whole: b"\xff\xfe" + whole),
    "a configuration of brackets": content(CONFIG, lambda _: b"a = " + b"[" * 100_000),
    "a configuration of tables in tables": content(CONFIG, lambda whole: whole + b"a = " + b"{a = " * 50_000),
    "a configuration of levels": content(CONFIG, lambda whole: whole + b"\n[" + b"a." * 50_000 + b"b]\n"),
    "another format": replaced(CONFIG, "format = 1", "format = [1]"),
    "no source": replaced(CONFIG, "[source]", "[sources]"),
    "a tokenizer of brackets": content(TOKENIZER, lambda _: b"[" * 100_000),
    "a tokenizer that is a number": content(TOKENIZER, lambda _: b"1e999"),
    "a tokenizer that is a pickle": content(TOKENIZER, lambda _: pickle.dumps(Trap())),
}
LANGUAGE: dict[str, Harm] = {
    "a model that is a number": replaced(CONFIG, 'model = "', 'model = 1 # "'),
    "a context that is none": replaced(CONFIG, "lower = false", 'lower = "yes"'),
    "tokens that are a list": replaced(CONFIG, "letters_only = false", "letters_only = [1]"),
    "a source without a name": replaced(CONFIG, "name = ", "names = "),
    "a tokenizer of another name": replaced(TOKENIZER, '"name":"word"', '"name":"os.system"'),
    "forms that are numbers": replaced(TOKENIZER, '"<unk>"', "0"),
    "forms that come twice": replaced(TOKENIZER, '"a","."', '"a","a"'),
    "a form that is half a character": replaced(TOKENIZER, '"a"', '"\\ud800"'),
    "counts that are words": replaced(TOKENIZER, '"counts":[0,', '"counts":["many",'),
    "fewer forms than the model": replaced(TOKENIZER, '"old",', ""),
    "facts that are no table": header(lambda entries: entries.update(__metadata__=["x"])),
    "facts that are code": header(lambda entries: entries.update(__metadata__={"neural": "exit()", "ngram": "exit()"})),
}
NEURAL: dict[str, Harm] = {
    "a size that is text": replaced(CONFIG, "hidden = 4", 'hidden = "4"'),
    "a size below 0": replaced(CONFIG, "hidden = 4", "hidden = -4"),
    "a billion layers": replaced(CONFIG, "layers = 1", "layers = 1_000_000_000"),
    "a setting that is not one": replaced(CONFIG, "layers = 1", 'layers = 1\n__init__ = "os.system"'),
    "a vocabulary of a trillion": header(
        lambda entries: entries["__metadata__"].update(
            neural=json.dumps({"vocabulary_size": 10**12, "context": "stream", "line_end": 1})
        )
    ),
    "a head that is not one": replaced(CONFIG, 'head = "full"', 'head = "../../full"'),
}
RECURRENT: dict[str, Harm] = {
    "a size of a billion": replaced(CONFIG, "embed = 4", "embed = 1_000_000_000"),
    "a size of 10^40": replaced(CONFIG, "embed = 4", f"embed = {10**40}"),
    "sizes that are text": replaced(CONFIG, "sizes = [4]", 'sizes = ["4"]'),
    "sizes for more layers": replaced(CONFIG, "sizes = [4]", "sizes = [4, 4]"),
}
TRANSFORMER: dict[str, Harm] = {
    "a size of a billion": replaced(CONFIG, "hidden = 4", "hidden = 1_000_000_000"),
    "a size of 10^40": replaced(CONFIG, "hidden = 4", f"hidden = {10**40}"),
    "positions for a trillion": replaced(CONFIG, "context = 32", "context = 1_000_000_000_000"),
    "heads that do not fit": replaced(CONFIG, "heads = 2", "heads = 3"),
    "no heads": replaced(CONFIG, "heads = 2", "heads = 0"),
    "an inner size of a billion": replaced(CONFIG, "inner = 2", "inner = 1_000_000_000"),
}
TAGGER: dict[str, Harm] = {
    "a task that is a list": replaced(CONFIG, 'task = "tag"', 'task = ["tag"]'),
    "a task that is a module": replaced(CONFIG, 'task = "tag"', 'task = "os:system"'),
    "a cell that is a class": replaced(CONFIG, 'cell = "lstm"', 'cell = "os:system"'),
    "a tagger of a billion units": replaced(CONFIG, "hidden = 3", "hidden = 1_000_000_000"),
    "a tagger of a billion layers": replaced(CONFIG, "layers = 1", "layers = 1_000_000_000"),
    "a lexicon that is a number": replaced(TOKENIZER, '"forms": [', '"forms": 3, "x": ['),
    "a lexicon that is gone": replaced(TOKENIZER, '"tags": {', '"tag": {'),
    "a codec that is a class": replaced(TOKENIZER, '"open": true', '"codec": "os:system", "open": true'),
    "lexicons that are a list": replaced(TOKENIZER, '{"lexicons": {', '{"lexicons": [1], "x": {'),
}
NGRAM: dict[str, Harm] = {
    f"tables {name!r} of {dtype}": arrays(
        lambda some, name=name, dtype=dtype: some.update({name: some[name].astype(dtype)})  # type: ignore[misc]
    )
    for name, dtype in (("word", "uint8"), ("logp", "float16"), ("suffix", "int16"), ("level_starts", "uint8"))
}
PLAIN = [
    *(("lstm", what, harm) for what, harm in (GENERAL | LANGUAGE | NEURAL | RECURRENT).items()),
    *(("ngram", what, harm) for what, harm in NGRAM.items()),
    *(("transformer", what, harm) for what, harm in TRANSFORMER.items()),
    *(("tag", what, harm) for what, harm in TAGGER.items()),
]
"""Every harm, done to a run of one kind."""
WIDE = [
    *((kind, what, harm) for kind in ("ngram", "transformer") for what, harm in (GENERAL | LANGUAGE).items()),
    *(("transformer", what, harm) for what, harm in NEURAL.items()),
    *(("tag", what, harm) for what, harm in GENERAL.items()),
]
"""The same harms, done to runs of the other kinds."""
CASES = [
    *(pytest.param(*case, id=f"{case[0]}: {case[1]}") for case in PLAIN),
    *(pytest.param(*case, id=f"{case[0]}: {case[1]}", marks=pytest.mark.wide) for case in WIDE),
]


def peak() -> float:
    """Megabytes that the process has taken at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize(("kind", "what", "harm"), CASES)
def test_a_hostile_folder_is_one_sentence(
    kind: str,
    what: str,
    harm: Harm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    shutil.copytree(OLD / kind / "finished", run)
    harm(run)
    monkeypatch.chdir(tmp_path)
    text = OLD / "texts" / ("tags.tsv" if kind == "tag" else "other.txt")
    before = peak()
    with pytest.raises(ThereafterError) as error:
        thereafter.load(run).score(text)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert 20 < len(sentence) < 700
    assert "allocate" not in sentence
    monkeypatch.setattr(sys, "argv", ["thereafter", "score", str(run), str(text)])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert peak() - before < MEGABYTES
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_that_was_not_harmed_is_read(kind: str, tmp_path: Path) -> None:
    """The cases above are refused for what was done to them, and a link to the folder itself is no harm."""
    shutil.copytree(OLD / kind / "finished", tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for name in ("run", "link"):
        thereafter.load(tmp_path / name).score(OLD / "texts" / ("tags.tsv" if kind == "tag" else "other.txt"))


def test_finite_weights_that_overflow_do_not_predict(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(OLD / "lstm" / "finished", run)
    arrays(lambda some: some.update({name: np.full_like(array, 1e38) for name, array in some.items()}))(run)
    lm = thereafter.load(run)
    for ask in (lm.next, lm.generate, lambda prompt: lm.generate(prompt, num_beams=2)):
        with assert_refused(FormatError, "nan"):
            ask("the")


def test_solved_weights_that_are_nan_are_refused_as_trained_ones_are() -> None:
    def solved() -> torch.nn.Module:
        model = torch.nn.Module()
        model.register_buffer("solved", torch.zeros(3))
        return model

    assert torch.equal(restored(solved, {"solved": np.ones(3, np.float32)}).solved, torch.ones(3))
    for damaged in (np.nan, np.inf):
        with assert_refused(FormatError, "'solved'", "nan", "inf"):
            restored(solved, {"solved": np.array([1, damaged, 1], np.float32)})


def test_a_captioner_of_a_billion_blocks_is_refused_before_it_is_built() -> None:
    with assert_refused(FormatError, "blocks", 10**9, 40):
        check_counts(CaptionerSettings(blocks=10**9), 40)
    check_counts(CaptionerSettings(blocks=30), 40)


class LooksWhileItIsBuilt(torch.nn.Module):
    """Cannot be built without numbers, so its sizes are not known before."""

    def __init__(self, size: int) -> None:
        super().__init__()
        assert torch.zeros(1).to("cpu").tolist() == [0.0]
        self.layer = torch.nn.Linear(3, size, bias=False)


def test_a_model_that_is_built_with_numbers_takes_no_memory_for_what_was_not_stored() -> None:
    weight = np.ones((2, 3), np.float32)
    model = restored(lambda: LooksWhileItIsBuilt(2), {"layer.weight": weight})
    assert model.layer.weight.tolist() == weight.tolist()
    with assert_refused(FormatError, 6):
        restored(lambda: LooksWhileItIsBuilt(10**10), {"layer.weight": weight})
    with assert_refused(FormatError, "layer.weight", (2, 3)):
        restored(lambda: LooksWhileItIsBuilt(4), {"layer.weight": weight})
