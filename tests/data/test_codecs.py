"""Codecs: one contract for texts, sentences, labels and numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from thereafter.data.codecs import CODECS, ChannelScaler, Codec, Scaler, restore_codecs, store_codecs
from thereafter.errors import FormatError
from thereafter.series.scales import SeriesScales
from thereafter.series.table import WHOLE, ColumnChoice, SeriesTable, WindowFrame, cut_windows
from thereafter.series.times import Frequency
from thereafter.tasks.lexicon import ColumnLexicons, Lexicon, Wording
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.vision.acting.game import CatchCodec, Episode
from thereafter.vision.clips.clip import ClipCodec
from thereafter.vision.clips.reading import Clip, clip_of
from thereafter.vision.pictures.codec import PictureCodec, PixelOrder
from thereafter.vision.pictures.sources import picture_of

TEXT = "the cat sat .\nthe dog sat .\n" * 3


def series_scales() -> SeriesScales:
    """The scales of one series of six rows."""
    rows_N, none = np.arange(6), np.empty((6, 0))
    values_ND = np.array([[1.0], [3.0], [8.0], [2.0], [5.0], [4.0]])
    bounds = np.array([0, 6])
    table = SeriesTable("t", ("t",), bounds, rows_N, values_ND, ("x",), Frequency(), none, (), none, ())
    windows = cut_windows(table, WindowFrame(lookback=2, horizon=1, season=1), "all", WHOLE)
    return SeriesScales.fit(windows, ColumnChoice(target=("x",)))


def codecs() -> dict[str, tuple[Codec[Any, Any], Any]]:
    """One of each kind, fitted, with a value that it numbers and gives back."""
    made: dict[str, tuple[Codec[Any, Any], Any]] = {
        name: (TOKENIZERS.load(name).fit(lambda: [TEXT]), TEXT) for name in TOKENIZERS
    }
    made["sentences"] = (Wording.fit(TEXT.splitlines(), "word"), "the cat sat .")
    made["forms"] = (Lexicon.fit({"the": 3, "cat": 1}), ["cat", "the", "the"])
    made["labels"] = (Lexicon.fit({"yes": 2, "no": 1}, opened=False), ["no", "yes"])
    steps = np.array([[1.0, 4.0], [3.0, 4.5], [8.0, np.nan]])
    made["channels"] = (ChannelScaler.fit([steps], ["a", "b"]), [3.0, 4.0, -1.5, 5.0])
    made["series"] = (series_scales(), [3.0, 8.0, -1.5])
    features = picture_of(np.array([0.5, 2.0, -1.0], np.float32))
    made["pictures"] = (PictureCodec.fit([features]), features)
    clip = clip_of(np.arange(12, dtype=np.uint8).reshape(3, 2, 2))
    made["clips"] = (ClipCodec.fit([clip], read=2, ahead=1), clip)
    made["games"] = (CatchCodec.fit([Episode(3)]), [3, 17, 2**40])
    made["columns"] = (ColumnLexicons.fit({"digit": ["7", "1"], "way": ["E", "E"]}), {"digit": "7", "way": "E"})
    shape = PictureCodec("pixels", 2, 3, 1, (0.5,), (0.2,))
    made["order"] = (PixelOrder.fit(shape, "permuted"), np.arange(6, dtype=np.uint8).reshape(1, 2, 3))
    made["numbers"] = (Scaler.fit([1.0, 3.0, 8.0]), [3.0, 8.0, -1.5])
    return made


@pytest.mark.parametrize("name", codecs())
def test_a_codec_gives_values_back_after_json_too(name: str):
    codec, value = codecs()[name]
    again: Any = restore_codecs(json.loads(json.dumps(store_codecs({"it": codec}))))["it"]
    assert type(again) is type(codec)
    assert again.size == codec.size
    numbers = codec.encode(value)
    assert numbers.dtype.kind in "fu" if codec.size == 0 else 0 <= numbers.min() <= numbers.max() < codec.size
    np.testing.assert_array_equal(again.encode(value), numbers)
    if isinstance(value, Clip):  # frames are given back, not the clip that they are of
        np.testing.assert_array_equal(again.decode(numbers), value.read())
        return
    if isinstance(value, np.ndarray):
        np.testing.assert_array_equal(again.decode(numbers), value, strict=True)
        return
    assert again.decode(numbers) == codec.decode(numbers) == (value if codec.size else pytest.approx(value))


def test_every_kind_in_the_table_is_tried_here():
    assert {codec.codec for codec, _ in codecs().values()} == set(CODECS)


@pytest.mark.parametrize(
    "damaged", [3, {"codec": "pickle"}, {"codec": ["forms"]}, {"codec": "tokenizer", "name": "word"}]
)
def test_what_is_damaged_is_refused(damaged: Any):
    with pytest.raises(FormatError):
        restore_codecs({"it": damaged})
