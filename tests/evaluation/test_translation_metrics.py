"""BLEU and chrF: numbers worked by hand, sacreBLEU called directly, and BLEU by length."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys

import pytest

from breadth import core
from refusals import assert_refused
from thereafter.base import progress
from thereafter.errors import EmptyCorpusError, MissingPackageError, OptionError
from thereafter.tasks.translate.measures import bleu_by_length, measure_translation

sacrebleu = pytest.importorskip("sacrebleu")

TEXT = "The quick brown fox, the lazy dog; a café's (old) door-step isn't 3,000.5 % wide !"
WORDS = TEXT.split()


def corpus(seed: int = 1, size: int = 60) -> tuple[list[str], list[str], list[str]]:
    draw = random.Random(seed)
    references = [draw.choices(WORDS, k=draw.randint(1, 25)) for _ in range(size)]
    hypotheses = [[draw.choice(WORDS) if draw.random() < 0.15 else word for word in one] for one in references]
    sources = [" ".join("wort" for _ in range(max(1, len(one) + draw.randint(-1, 1)))) for one in references]
    return [" ".join(one[: draw.randint(0, 30)]) for one in hypotheses], [" ".join(one) for one in references], sources


def test_a_tiny_example_by_hand() -> None:
    # 5 of 6 words, 3 of 5 pairs, 1 of 4 triples; no four in a row of 3, which exp smoothing counts as half a one
    scores = measure_translation(["the cat sat on the mat"], ["the cat is on the mat"])
    assert scores.precisions == pytest.approx((100 * 5 / 6, 60.0, 25.0, 100 / 6))
    assert scores.bleu == pytest.approx(100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** (1 / 4))
    assert scores.brevity_penalty == 1.0


def test_a_short_translation_pays_for_it() -> None:
    scores = measure_translation(["on the mat lay"], ["on the mat lay a cat"])
    assert scores.bleu == pytest.approx(100 * math.exp(1 - 6 / 4))
    assert scores.ratio == pytest.approx(4 / 6)


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("seed", core(range(3), [0]))
def test_equals_sacrebleu_called_directly(seed: int, lowercase: bool) -> None:
    hypotheses, references, _ = corpus(seed)
    scores = measure_translation(hypotheses, references, lowercase=lowercase)
    bleu = sacrebleu.corpus_bleu(hypotheses, [references], lowercase=lowercase)
    metric = sacrebleu.CHRF(lowercase=lowercase)
    chrf = metric.corpus_score(hypotheses, [references])
    assert (scores.bleu, scores.chrf, scores.brevity_penalty) == (bleu.score, chrf.score, bleu.bp)
    assert scores.precisions == tuple(bleu.precisions)
    case = "lc" if lowercase else "mixed"
    version = sacrebleu.__version__
    assert scores.bleu_signature == f"nrefs:1|case:{case}|eff:no|tok:13a|smooth:exp|version:{version}"
    assert scores.chrf_signature == str(metric.get_signature())
    assert scores.chrf_signature.startswith(f"nrefs:1|case:{case}|")
    assert scores.bleu_signature in str(scores)


def test_lower_case_only_where_it_is_asked_for() -> None:
    same = ["A Cat sat on the Mat"], ["a cat sat on the mat"]
    assert measure_translation(*same).bleu < 50
    assert measure_translation(*same, lowercase=True).bleu == pytest.approx(100)


def test_bleu_by_length_is_bleu_of_the_sentences_of_that_length() -> None:
    hypotheses, references, sources = corpus(size=120)
    bins = ((1, 6), (7, 12), (13, None), (200, 300))
    scores = measure_translation(hypotheses, references, sources=sources, bins=bins)
    assert [(one.low, one.high, one.name) for one in scores.by_length] == [
        (1, 6, "1-6"),
        (7, 12, "7-12"),
        (13, None, "13+"),
    ]
    assert sum(one.sentences for one in scores.by_length) == 120
    for one in scores.by_length:
        rows = [n for n in range(120) if one.low <= len(sources[n].split()) <= (one.high or 999)]
        direct = sacrebleu.corpus_bleu([hypotheses[n] for n in rows], [[references[n] for n in rows]])
        assert (one.sentences, one.bleu) == (len(rows), direct.score)
    assert bleu_by_length(hypotheses, references, [source.split() for source in sources], bins=bins) == scores.by_length


def test_everything_can_be_written_as_json() -> None:
    hypotheses, references, sources = corpus()
    scores = measure_translation(hypotheses, references, sources=sources)
    stored = json.loads(json.dumps(scores.as_dict(), allow_nan=False))
    assert stored["bleu"] == scores.bleu
    assert len(stored["precisions"]) == 4
    assert [one["bleu"] for one in stored["by_length"]] == [one.bleu for one in scores.by_length]


def test_tokenised_text_is_noted_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Notes(progress.Silent):
        messages: list[str] = []  # noqa: RUF012

        def note(self, message: str) -> None:
            self.messages.append(message)

    with progress.reporting(Notes()):
        measure_translation(["a dog runs ."] * 200, ["a dog runs."] * 200)
        assert len(Notes.messages) == 1
        assert "detokenised" in Notes.messages[0]
        measure_translation(["a dog runs."] * 200, ["a dog runs."] * 200)
    assert len(Notes.messages) == 1
    assert not caplog.records


def test_translations_of_nothing_score_nothing() -> None:
    scores = measure_translation(["", ""], ["a dog runs", "a cat"])
    assert (scores.bleu, scores.chrf) == (0.0, 0.0)


def test_what_does_not_fit_is_a_sentence() -> None:
    with assert_refused(OptionError, 1, 2):
        measure_translation(["a"], ["a", "b"])
    with assert_refused(OptionError, 1, 2):
        measure_translation(["a"], ["a"], sources=["a", "b"])
    with assert_refused(OptionError, "references"):
        measure_translation(["a"], "a")
    with pytest.raises(EmptyCorpusError):
        measure_translation([], [])


def test_without_sacrebleu_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)  # as if it were not there
    with assert_refused(MissingPackageError, "BLEU", "chrF", "pip install sacrebleu"):
        measure_translation(["a"], ["a"])


def test_importing_the_module_does_not_import_sacrebleu() -> None:
    code = "import sys, thereafter.tasks.translate.measures; print('sacrebleu' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
