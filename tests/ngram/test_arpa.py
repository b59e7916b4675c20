"""ARPA files: what is written is read back, and a file from anywhere means what its recursion says."""

from __future__ import annotations

import gzip
import math
import re
from itertools import count, product
from pathlib import Path

import numpy as np
import pytest
from brute import Gram

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError, StorageError
from thereafter.ngram.arpa import escape, read_arpa, unescape, write_arpa
from thereafter.ngram.model import NgramModel, NgramState, estimate
from thereafter.ngram.smoothing import SMOOTHINGS

WRITABLE = [name for name in SMOOTHINGS if name != "add-alpha"]
FORMS = [b"<unk>", b"</s>", b"a", b"b", b"c", b"d", b"e"]
START = len(FORMS)


def random_model(
    smoothing: str = "modified-kneser-ney", order: int = 3, cutoffs: tuple[int, ...] = (), seed: int = 1
) -> NgramModel:
    ids = np.random.default_rng(seed).integers(0, len(FORMS) - 1, 300)  # the last form is never seen
    return estimate(
        ids, len(FORMS), order=order, smoothing=smoothing, context="line", line_end=1, cutoffs=cutoffs[:order]
    )


class Recursion:
    """An ARPA file as the format defines it: p(w | h) is listed, or the back-off weight of h times p(w | h')."""

    def __init__(self, path: Path, forms: list[bytes]) -> None:
        ids = {form: i for i, form in enumerate(forms)} | {b"<s>": len(forms)}
        self.logp: dict[Gram, float] = {}
        self.backoff: dict[Gram, float] = {}
        order = 0
        for line in path.read_bytes().splitlines():
            if title := re.fullmatch(rb"\\(\d+)-grams:", line):
                order = int(title.group(1))
            elif order and line and not line.startswith(b"\\"):
                first, words, *weight = line.split(b"\t")
                gram = tuple(ids[word] for word in words.split())
                self.logp[gram] = -math.inf if float(first) == -99 else float(first)
                if weight:
                    self.backoff[gram] = -math.inf if float(weight[0]) == -99 else float(weight[0])
        self.order = order

    def log10(self, word: int, h: Gram) -> float:
        h = h[max(0, len(h) - self.order + 1) :]
        if (*h, word) in self.logp or not h:
            return self.logp.get((*h, word), -math.inf)
        return self.backoff.get(h, 0.0) + self.log10(word, h[1:])


def assert_means(model: NgramModel, truth: Recursion, contexts: list[Gram]) -> None:
    v = model.vocabulary_size
    for h in contexts:
        state = model.start(1) if h[:1] == (v,) else NgramState(np.zeros(1, np.int32))
        read = np.array([w for w in h if w != v], np.int64).reshape(1, -1)
        got = model.predict(model.log_probs(read, state)[1])[0] / math.log(10)
        expected = [truth.log10(w, h) for w in range(v)]
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=str(h))


def all_contexts(v: int, line_end: int, length: int) -> list[Gram]:
    words = [w for w in range(v) if w != line_end]
    plain = [h for n in range(length + 1) for h in product(words, repeat=n)]
    return plain + [(v, *h) for h in plain]


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("cutoffs", [(), (0, 1)])
@pytest.mark.parametrize("smoothing", WRITABLE)
def test_written_and_read_back(tmp_path: Path, smoothing: str, cutoffs: tuple[int, ...], order: int) -> None:
    model = random_model(smoothing, order, cutoffs)
    again, forms = read_arpa(write_arpa(model, FORMS, tmp_path / "m.arpa"))
    assert forms == FORMS
    assert (again.context, again.line_end, again.notes, again.smoothing) == ("line", 1, [], "arpa")
    again.tables.check()
    for name in ("word", "suffix", "first_child", "level_starts"):
        np.testing.assert_array_equal(getattr(again.tables, name), getattr(model.tables, name))
    np.testing.assert_allclose(again.tables.logp, model.tables.logp, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(again.tables.backoff, model.tables.backoff, rtol=1e-6, atol=1e-6)
    held_out = np.random.default_rng(2).integers(0, len(FORMS), (1, 500))
    before, _ = model.log_probs(held_out, model.start(1))
    after, _ = again.log_probs(held_out, again.start(1))
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_stupid_backoffs_raw_scores_are_written_too(tmp_path: Path) -> None:
    ids = np.random.default_rng(3).integers(0, 6, 200)
    model = estimate(ids, 7, order=3, smoothing="stupid-backoff", normalise=False, context="line", line_end=1)
    again, _ = read_arpa(write_arpa(model, FORMS, tmp_path / "m.arpa"))
    np.testing.assert_allclose(again.predict(again.start(1)), model.predict(model.start(1)), atol=1e-5)


def test_add_alpha_has_no_arpa_form(tmp_path: Path) -> None:
    with assert_refused(OptionError, "add-alpha", "smoothing="):
        write_arpa(random_model("add-alpha"), FORMS, tmp_path / "m.arpa")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("smoothing", WRITABLE)
def test_the_file_means_the_model(tmp_path: Path, smoothing: str) -> None:
    model = random_model(smoothing, 3)
    path = write_arpa(model, FORMS, tmp_path / "m.arpa")
    assert_means(model, Recursion(path, FORMS), all_contexts(len(FORMS), 1, 2))


def test_gzip_is_the_same_file_packed_the_same_way_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model()
    hours = count(1_700_000_000, 3600)
    monkeypatch.setattr("gzip.time.time", lambda: float(next(hours)))
    plain = write_arpa(model, FORMS, tmp_path / "m.arpa").read_bytes()
    one = write_arpa(model, FORMS, tmp_path / "one.arpa.gz").read_bytes()
    other = write_arpa(model, FORMS, tmp_path / "other.gz").read_bytes()
    assert one == other
    assert gzip.decompress(one) == plain
    again, _ = read_arpa(tmp_path / "one.arpa.gz")
    (tmp_path / "misnamed.arpa").write_bytes(one)  # recognised by content, not by name
    misnamed, _ = read_arpa(tmp_path / "misnamed.arpa")
    np.testing.assert_array_equal(again.tables.logp, misnamed.tables.logp)


TEXT = 'A\\x20 b\\n c:\\dir\\x5c "d"  \t e\n\n\\data\\ <s> </s> <unk> é😀漢 1\\/2 \x0b\x0c\x00\x85\u2028 \u00a0x\n' * 3


@pytest.mark.parametrize("tokens", ["word", "prose", "char"])
def test_tokens_with_spaces_newlines_and_backslashes(tmp_path: Path, tokens: str) -> None:
    lm = thereafter.train(text=TEXT, tokens=tokens, order=3)
    again = thereafter.read_arpa(lm.to_arpa(tmp_path / "m.arpa.gz"), tokens=tokens)
    assert again.tokenizer.vocabulary.forms == lm.tokenizer.vocabulary.forms
    for text in (TEXT, "a \\x20\\x5c  \n\\end\\ \\\\x0a"):
        one, two = lm.score(text=text), again.score(text=text)
        assert (two.tokens, two.unknown, two.bytes) == (one.tokens, one.unknown, one.bytes)
        assert two.nats == pytest.approx(one.nats, abs=1e-4)
    assert again.generate("A", 20, seed=4) == lm.generate("A", 20, seed=4)


def test_bytes(tmp_path: Path) -> None:
    text = bytes(range(256)) * 2 + b"the cat\\x0a \\\n" * 9
    model = estimate(np.frombuffer(text, np.uint8), 256, order=3)
    every = [bytes([value]) for value in range(256)]
    again, forms = read_arpa(write_arpa(model, every, tmp_path / "m.arpa", escaped=True), escaped=True)
    assert forms == [b"<unk>", *every]
    assert again.notes == ["the file has no <unk>: unknown words have probability 0"]
    assert (again.context, again.line_end) == ("stream", None)
    read = np.frombuffer(b"the cat\x00 sat\\ \n\xff", np.uint8).astype(int).reshape(1, -1)
    one, _ = model.log_probs(read, model.start(1))
    two, _ = again.log_probs(read + 1, again.start(1))
    np.testing.assert_allclose(two, one, atol=1e-5)
    lm = thereafter.train(text="the cat sat on the mat", tokens="byte", order=2)
    assert read_arpa(lm.to_arpa(tmp_path / "b.arpa"), escaped=True)[1] == forms


def test_escapes_are_undone() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        token = bytes(rng.choice(list(b"\\x205c0a \n\tab"), rng.integers(1, 9)).tolist())
        assert unescape(escape(token)) == token
        assert len(escape(token).split()) == 1
    assert escape(b"1\\/2") == b"1\\/2"  # Penn Treebank's own backslashes stay as KenLM writes them


def small(*lines: str, remarks: str = "", sizes: tuple[int, ...] = (), end: str = "\n\\end\\\n") -> str:
    """A file of one section for each of `lines`, words parted by `;`."""
    sections = [line.split(";") for line in lines]
    counts = sizes or tuple(len(section) for section in sections)
    head = "".join(f"ngram {n}={size}\n" for n, size in enumerate(counts, start=1))
    body = "".join(f"\n\\{n}-grams:\n" + "\n".join(rows) + "\n" for n, rows in enumerate(sections, start=1))
    return f"{remarks}\\data\\\n{head}{body}{end}"


UNIGRAMS = "-2\t<unk>;-99\t<s>\t-0.4;-1\t</s>;-0.5\ta\t-0.3;-0.6\tb\t-0.2;-0.7\tc\t-0.1"
IDS = {"a": 2, "b": 3, "c": 4, "<s>": 5}


def log10_after(path: Path, words: str, word: str) -> float:
    model, _ = read_arpa(path)
    state = NgramState(np.zeros(1, np.int32))
    _, state = model.log_probs(np.array([IDS[w] for w in words.split()], np.int64).reshape(1, -1), state)
    return float(model.predict(state)[0, IDS[word]]) / math.log(10)


def test_a_pruned_model_is_completed_with_what_it_implies(tmp_path: Path) -> None:
    path = tmp_path / "pruned.arpa"
    path.write_text(small(UNIGRAMS, "-0.2\ta b\t-0.15;-0.25\tc c\t-0.05", "-0.1\ta b c;-0.3\tc b a"))
    model, _ = read_arpa(path)
    model.tables.check()
    assert model.notes == ["3 n-grams that the file omits were added with the values it implies"]  # bc, cb, ba
    assert model.tables.sizes() == [5, 5, 2]
    assert log10_after(path, "a b", "c") == pytest.approx(-0.1)
    assert log10_after(path, "b", "c") == pytest.approx(-0.2 - 0.7)  # weight of b, then p(c)
    assert log10_after(path, "a b", "a") == pytest.approx(-0.15 - 0.2 - 0.5)
    assert log10_after(path, "b c", "a") == pytest.approx(-0.1 - 0.5)  # "b c" itself has no weight to pay
    assert log10_after(path, "c b", "a") == pytest.approx(-0.3)
    assert log10_after(path, "c b", "c") == pytest.approx(-0.2 - 0.7)
    assert log10_after(path, "b b", "a") == pytest.approx(-0.2 - 0.5)


@pytest.mark.parametrize("seed", range(6))
def test_any_pruned_file_means_what_its_recursion_says(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    full = write_arpa(random_model("katz", 4, seed=seed), FORMS, tmp_path / "full.arpa").read_text()
    sections = re.split(r"\n\\(?:\d-grams|end)[:\\]\n", full)[1:-1]
    thinned = [sections[0].strip().split("\n")]
    for section in sections[1:]:
        rows = section.strip().split("\n")
        thinned.append([row for row in rows if rng.random() < 0.3])
    path = tmp_path / "pruned.arpa"
    path.write_text(small(*(";".join(rows) for rows in thinned)))
    model, forms = read_arpa(path)
    model.tables.check()
    assert "were added" in model.notes[0]
    assert_means(model, Recursion(path, forms), all_contexts(len(FORMS), 1, 2)[:: seed + 1])
    deep = [tuple(rng.choice([0, 2, 3, 4, 5], 3).tolist()) for _ in range(40)]
    assert_means(model, Recursion(path, forms), deep)


def test_lines_without_a_weight_and_remarks_and_other_white_space(tmp_path: Path) -> None:
    text = small(UNIGRAMS, "-0.2\ta b\t-0.15;-0.25\tb c", "-0.1\ta b c", remarks="made by hand\n\nsecond remark\n")
    for changed in (text, text.replace("\n", "\r\n"), text.replace("\t", " "), text.replace("ngram 1=", "ngram  1 = ")):
        path = tmp_path / "m.arpa"
        path.write_bytes(changed.encode())
        assert log10_after(path, "b", "c") == pytest.approx(-0.25)
        assert log10_after(path, "a b", "a") == pytest.approx(-0.15 - 0.2 - 0.5)
        assert log10_after(path, "b c", "a") == pytest.approx(-0.1 - 0.5)


def test_a_file_without_unknown_or_line_end(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    path.write_text(small("-0.3\ta\t-0.1;-0.4\tb", "-0.2\ta b"))
    model, forms = read_arpa(path)
    assert forms == [b"<unk>", b"a", b"b"]
    assert model.context == "stream"
    assert model.predict(model.start(1))[0, 0] == -math.inf


def test_the_start_mark_is_never_predicted(tmp_path: Path) -> None:
    # some toolkits list n-grams across a line end; nothing can ever be in such a context
    path = tmp_path / "m.arpa"
    pairs = "-0.2\ta b\t-0.1;-0.3\t</s> <s>\t-0.2;-0.4\t<s> a\t-0.3"
    path.write_text(small(UNIGRAMS.replace("-99\t<s>", "-0.9\t<s>"), pairs, "-0.1\t</s> <s> a;-0.2\t<s> a b"))
    model, _ = read_arpa(path)
    model.tables.check()
    every = NgramState(np.arange(model.tables.contexts, dtype=np.int32))
    assert model.predict(every).shape == (model.tables.contexts, 5)
    assert model.tables.sizes() == [5, 2, 1]
    assert "2 n-grams with <s> after their first word" in model.notes[0]
    assert log10_after(path, "a", "b") == pytest.approx(-0.2)


def test_writing_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        write_arpa(random_model(), FORMS, tmp_path / "file" / "m.arpa")
