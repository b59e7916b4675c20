"""The example that counts what captions make likely: figures worked by hand, and a whole run on captions made here."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "caption_bias.py"
CAPTIONS = [
    text.split() for text in ("a brown dog runs", "a white dog and a man", "a man on grey grass", "a woman runs")
]


@pytest.fixture(scope="module")
def bias() -> ModuleType:
    spec = importlib.util.spec_from_file_location("caption_bias", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "caption_bias", module)  # its dataclass looks there
        spec.loader.exec_module(module)
    return module


def test_company_texture_and_persons_of_captions_by_hand(bias: ModuleType) -> None:
    assert bias.company(CAPTIONS, "dog", 2) == [("brown", 0.5, 0.25), ("white", 0.5, 0.25)]
    assert bias.colours_before(CAPTIONS, "dog") == [("brown", 0.5), ("white", 0.5)]
    assert bias.colours_before(CAPTIONS, "cat") == []
    assert bias.male_share(CAPTIONS) == (2 / 3, 3)
    assert bias.male_share(CAPTIONS, "runs") == (0.0, 1)
    assert bias.sex_of(["a", "man", "and", "his", "girl"]) == "both"


def test_recall_and_precision_of_a_class_by_hand(bias: ModuleType) -> None:
    references = [[["dog", "dogs"], ["puppy", "dog"], ["cat"]], [["horse"], ["horses"], ["bird"]]]
    # to be named: dog (twice), horse (in both forms); puppy is right, since one caption has it; the cow is wrong
    assert bias.by_class("animals", [["dogs", "puppy"], ["cow"]], references) == (50.0, pytest.approx(200 / 3), 2)
    several = [[["a", "woman"], ["her", "dog"], ["dog"]]] * 4
    answers = [["a", "girl"], ["a", "man"], ["a", "dog"], ["man", "woman"]]
    assert bias.of_sex("female", answers, several) == (25.0, 50.0, 25.0)
    assert bias.of_sex("male", answers, several) == (0.0, 0.0, 0.0)


def test_the_example_runs_on_captions_of_anybody(tmp_path: Path) -> None:
    texts = ["A man in a red shirt .", "A man rides a bike .", "Two dogs run on grass ."]
    rows = [f"{n}.jpg,{texts[(n + k) % 3]}" for n in range(9) for k in range(2)]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *rows]))
    (tmp_path / "train.txt").write_text("\n".join(f"{n}.jpg" for n in range(6)))
    (tmp_path / "test.txt").write_text("\n".join(f"{n}.jpg" for n in range(6, 9)))
    (tmp_path / "mine.csv").write_text("picture,caption\nb/6.jpg,a man rides a bike\n7.jpg,two dogs\n8.jpg,\n")
    names = [f"--{part}={part}.{'csv' if part == 'captions' else 'txt'}" for part in ("captions", "train", "test")]
    command = [sys.executable, str(SCRIPT), *names, "--predictions=mine=mine.csv", "--json=rows.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "12 training captions" in done.stdout
    stored = {row["name"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert list(stored)[:3] == ["a person", "mine", "a person, another picture"]
    assert stored["mine"]["recall"]["animals"] == 100.0
    assert f"| mine | {stored['mine']['bleu_1']:.1f} |" in done.stdout
    (tmp_path / "mine.csv").write_text("picture,caption\n6.jpg,a man\n")
    failed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr.strip() == "mine.csv has no caption of 2 test pictures, such as 7.jpg"
