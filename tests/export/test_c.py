"""Models as C: compiled with every warning an error, then compared with Python step by step."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from step_models import GPT2, TEXT, expected, ran, some_ids, toy

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.errors import ExportError
from thereafter.export.c import target as c_target
from thereafter.export.c.source import functions, sections
from thereafter.export.c.target import FLAGS, TARGET, CompiledModel, compiler, identifier
from thereafter.export.check import check_encoder, odd_texts
from thereafter.export.plan import Exportable, plan_of
from thereafter.text.sources import Source, keep_letters

needs_cc = pytest.mark.skipif(compiler() is None, reason="SKIPPED LOUDLY: no C compiler, so no C was compiled here")
STEPS = 1000
COMPILED = [
    ("rnn untied", "line", 100),
    pytest.param("lstm folded tied", "line", STEPS, marks=pytest.mark.wide),
    ("lstm adaptive", "stream", 100),
    pytest.param("lstm highway", "stream", 100, marks=pytest.mark.wide),
    ("lstm peephole=True, coupled=True, layer_norm=True", "line", 100),
    ("gru reset=after, update=new", "line", 100),
    pytest.param("gru reset=before, update=old, layer_norm=True", "stream", 100, marks=pytest.mark.wide),
    pytest.param("awd-lstm", "stream", STEPS, marks=pytest.mark.wide),
    ("minlstm", "line", 100),
    ("window direct", "line", 100),
    ("average", "stream", 100),
    ("transformer", "line", STEPS),
    pytest.param(GPT2, "stream", 60, marks=pytest.mark.wide),
]


def written(lm: Exportable, folder: Path, *, int8: bool = False) -> CompiledModel:
    plan = plan_of(lm)
    assert TARGET.refuses(plan, int8) is None
    runner = TARGET.runner(plan, TARGET.write(plan, folder / "model.c", int8=int8))
    assert isinstance(runner, CompiledModel)
    return runner


@needs_cc
@pytest.mark.parametrize(("case", "context", "steps"), COMPILED)
def test_c_says_what_python_says(case: str, context: str, steps: int, tmp_path: Path) -> None:
    lm = toy(case, context=context)
    ids = some_ids(lm.model.vocabulary_size, steps)
    runner = written(lm, tmp_path)
    np.testing.assert_allclose(ran(runner, ids), expected(lm.model, ids), atol=1e-4)
    runner.close()


@needs_cc
@pytest.mark.parametrize(
    ("order", "smoothing", "tokens"), [(4, "kneser-ney", "word"), (3, "add-alpha", "byte"), (1, "add-alpha", "word")]
)
def test_an_ngram_in_c_says_what_python_says(order: int, smoothing: str, tokens: str, tmp_path: Path) -> None:
    lm = thereafter.train(text=TEXT, model="ngram", order=order, smoothing=smoothing, tokens=tokens)
    ids = np.resize(lm.encode("where is the dog?\nthe cat ran up the tree\n" + TEXT), STEPS)
    runner = written(lm, tmp_path)
    np.testing.assert_allclose(ran(runner, ids), expected(lm.model, ids), atol=1e-4)
    runner.close()


@needs_cc
@pytest.mark.parametrize("case", ["lstm folded", pytest.param("lstm folded tied", marks=pytest.mark.wide)])
def test_int8_in_c_is_what_the_rounded_weights_say(case: str, tmp_path: Path) -> None:
    from thereafter.export.steps.interpreter import Interpreter, as_stored
    from thereafter.export.steps.lowering import lower

    lm = toy(case)
    ids = some_ids(lm.model.vocabulary_size, 100)
    runner = written(lm, tmp_path, int8=True)
    rounded = Interpreter(as_stored(lower(plan_of(lm)), 8))  # type: ignore[arg-type]
    np.testing.assert_allclose(ran(runner, ids), ran(rounded, ids), atol=1e-4)
    runner.close()


@needs_cc
@pytest.mark.parametrize("tokens", ["char", "byte"])
def test_the_tokenizer_in_c_is_ours(tokens: str, tmp_path: Path) -> None:
    lm = toy("rnn", tokens)
    runner = written(lm, tmp_path)
    text = "a cat — é ß 😀\nnaïve"
    room = (ctypes.c_int * 64)()
    count = runner.call("encode", text.encode(), room, 64)
    assert list(room)[:count] == lm.tokenizer.encode(text).tolist()
    assert runner.call("encode", text.encode(), room, 3) == 3
    spelled = ctypes.create_string_buffer(64)
    for token in range(len(lm.tokenizer.vocabulary)):
        size = runner.call("decode", token, spelled)
        assert spelled.raw[:size] == lm.tokenizer.bytes_of(token)
    assert runner.call("decode", -1, spelled) == runner.call("decode", 10_000, spelled) == 0
    runner.close()


NORMAL = core([(False, False), (True, False), (False, True), (True, True)], [(False, False), (True, True)])


@needs_cc
@pytest.mark.parametrize(("lower", "letters"), NORMAL)
@pytest.mark.parametrize("tokens", ["char", pytest.param("byte", marks=pytest.mark.wide)])
def test_odd_texts_are_encoded_in_c_as_by_the_tokenizer(
    tokens: str, lower: bool, letters: bool, tmp_path: Path
) -> None:
    lm = toy("rnn", tokens, lower=lower, letters_only=letters)
    runner = written(lm, tmp_path)
    texts = odd_texts(lm.tokenizer)
    normal = [Source.of_text(text, lower=lower, letters_only=letters).text() for text in texts]
    room = (ctypes.c_int * 20_000)()
    for text, tokenized in zip(texts, map(lm.tokenizer.encode, normal), strict=True):
        assert room[: runner.call("encode", text.encode(), room, len(room))] == tokenized.tolist(), text[:80]
    assert check_encoder(lm, runner) == len(texts) == len(set(texts)) == 200
    runner.close()


@needs_cc
@pytest.mark.parametrize("letters", [pytest.param(False, marks=pytest.mark.wide), True])
def test_every_character_beside_a_sigma_is_lowered_in_c_as_by_python(letters: bool, tmp_path: Path) -> None:
    runner = written(toy("rnn", "byte", lower=True, letters_only=letters), tmp_path)
    # of ideographs and of planes without characters every 97th
    wide = {*range(0x3400, 0xD800, 97), *range(0x17000, 0x1B000, 97), *range(0x20000, 0x110000, 97)}
    every = map(chr, sorted({*range(1, 0x3400), *range(0xE000, 0x17000), *range(0x1B000, 0x1FFFF)} | wide))
    text = "".join(f"A{c}Σ {c}Σ{c}A {c}\n" for c in every)
    lowered = Source.of_text(text, lower=True, letters_only=letters).text()
    assert bytes(runner.encode_bytes(text.encode())) == lowered.encode()
    runner.close()


@needs_cc
@pytest.mark.parametrize(("lower", "letters"), NORMAL)
def test_bytes_outside_of_utf8_are_single_tokens_in_c(lower: bool, letters: bool, tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    odd = [b"\xc3\xa9", b"\xce\xa3", b"\xe2\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xff", b"A"]
    cases = [b"".join(odd[i] for i in draw.integers(0, len(odd), 12)) for _ in range(50)]
    cases += [bytes(draw.integers(1, 256, 30).tolist()) for _ in range(50)]
    for tokens in ("byte", "char"):
        lm = toy("rnn", tokens, lower=lower, letters_only=letters)
        runner, index = written(lm, tmp_path), lm.tokenizer.vocabulary.index
        for raw in cases:
            text = raw.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
            text = text.lower() if lower else text
            text = "".join(keep_letters([text])) if letters else text
            escaped = list(text.encode("utf-8", "surrogateescape"))
            right = escaped if tokens == "byte" else [index.get(character, 0) for character in text]
            assert runner.encode_bytes(raw) == right, raw
        runner.close()


@needs_cc
def test_a_file_that_encodes_otherwise_is_not_handed_over(tmp_path: Path) -> None:
    runner = written(toy("rnn", "char"), tmp_path)
    with assert_refused(ExportError, "tokens"):
        check_encoder(toy("rnn", "char", lower=True), runner)
    runner.close()


MAIN = """
#include <stdio.h>
#include "small.h"

int main(void)
{
    small_state state;
    float logits[SMALL_WORDS];
    int tokens[64];
    const int n = small_encode("the cat", tokens, 64);
    small_start(&state);
    small_predict(&state, logits);
    for (int t = 0; t < 12; t++) {
        if (t < n) small_step(&state, tokens[t], logits);
        else {
            int best = 1; /* 0 is the unknown character */
            char text[SMALL_LONGEST];
            for (int w = 2; w < SMALL_WORDS; w++) best = logits[w] > logits[best] ? w : best;
            fwrite(text, 1, small_decode(best, text), stdout);
            small_step(&state, best, logits);
        }
    }
    printf("|%u", (unsigned)sizeof state);
    return 0;
}
"""


@needs_cc
def test_a_program_of_our_own_writes_what_python_writes(tmp_path: Path) -> None:
    lm = toy("lstm")
    plan = plan_of(lm)
    facts = TARGET.write(plan, tmp_path / "small.c", int8=False).facts
    (tmp_path / "main.c").write_text(MAIN)
    flags = [*FLAGS, "-Wextra", "-pedantic"]
    made = [str(compiler()), *flags, "main.c", "small.c", "-fstack-usage", "-o", "main", "-lm"]
    subprocess.run(made, cwd=tmp_path, check=True)
    text, _, size = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout.decode().partition("|")
    assert int(size) == facts["state bytes"]
    ids, wanted = list(lm.tokenizer.encode("the cat")), []
    for _ in range(5):
        wanted.append(1 + int(expected(lm.model, np.array(ids))[-1][1:].argmax()))
        ids.append(wanted[-1])
    assert text == lm.tokenizer.decode(wanted)
    usage = "".join(path.read_text() for path in tmp_path.glob("*small.su"))
    frames = [int(size) for size in re.findall(r":body\t(\d+)", usage)]
    assert frames
    assert max(frames) < int(str(facts["stack bytes"])) + 256
    assert not re.search(r"\b(malloc|calloc|alloca|free)\b", (tmp_path / "small.c").read_text())


def test_only_functions_that_are_called_are_in_the_file(tmp_path: Path) -> None:
    TARGET.write(plan_of(toy("mingru")), tmp_path / "m.c", int8=False)
    text = (tmp_path / "m.c").read_text()
    assert "static void mingru(" in text
    assert "lstm_memory" not in text
    assert "static float sigmoid" in functions({"gru"})
    assert set(sections("parts.c")) >= {"linear_float", "linear_int8", "attend"}


def test_what_has_no_c_form_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ngram = plan_of(thereafter.train(text=TEXT, model="ngram", order=2))
    assert "no weights" in str(TARGET.refuses(ngram, int8=True))
    monkeypatch.setattr(c_target, "MOST", 100)
    assert "at most 100" in str(TARGET.refuses(ngram, int8=False))
    assert identifier("2 cats") == "m2_cats"


def test_without_a_compiler_the_arrays_are_run_by_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_target, "compiler", lambda: None)
    lm = toy("gru")
    plan = plan_of(lm)
    files = TARGET.write(plan, tmp_path / "model.c", int8=False)
    assert "numpy" in str(files.facts["note"])
    runner = TARGET.runner(plan, files)
    assert runner is not None
    ids = some_ids(plan.wording.size, 20)
    np.testing.assert_allclose(ran(runner, ids), expected(lm.model, ids), atol=1e-4)


@needs_cc
def test_code_that_does_not_compile_is_an_export_error(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int f(void) { return x; }\n")
    with assert_refused(ExportError, "bad"):
        CompiledModel(tmp_path / "bad.c", 3, 4)
