"""Clips of arrays, of folders of pictures and of rules; batches over several sources; bad files in one sentence."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, FormatError, SourceError, ThereafterError
from thereafter.vision.clips.clip import ArrayClips, lengths_of, read_many
from thereafter.vision.clips.moving import MovingClips, MovingRule
from thereafter.vision.clips.reading import CLIP_FILES, clip_of, read_clips

FRAMES = np.random.default_rng(1).integers(0, 256, (6, 4, 5, 7), np.uint8)


def saved(folder: Path, **arrays: object) -> Path:
    np.savez_compressed(folder / "clips.npz", **arrays)  # type: ignore[arg-type]
    return folder / "clips.npz"


def test_an_npz_has_frames_and_columns_of_labels(tmp_path: Path):
    path = saved(tmp_path, frames=FRAMES, digit=np.arange(6), way=np.array(list("ENWSEN")))
    clips = read_clips([path])
    assert len(clips) == 6
    assert clips[2].labels == (("digit", "2"), ("way", "W"))
    assert clips[2].shape == (4, 5, 7)
    assert np.array_equal(clips[2].read(), FRAMES[2])
    assert np.array_equal(read_many([clips[5], clips[0]]), FRAMES[[5, 0]])
    assert [clip.name for clip in clips] == [str(n) for n in range(6)]


@pytest.mark.parametrize(
    "given",
    [FRAMES, FRAMES.astype(np.int64), FRAMES[..., None], (FRAMES / 255).astype(np.float32), FRAMES / 255],
    ids=["uint8", "int64", "channel", "float32", "float64"],
)
def test_pixels_of_every_type_are_the_same_bytes(given: np.ndarray, tmp_path: Path):
    np.save(tmp_path / "clips.npy", given)
    clips = read_clips([tmp_path / "clips.npy"])
    assert np.array_equal(read_many(list(clips)), FRAMES)
    assert clips[0].labels == ()


def test_bools_are_black_and_white_and_colours_become_grey(tmp_path: Path):
    clips = read_clips([saved(tmp_path, frames=FRAMES > 100)])
    assert np.array_equal(read_many(list(clips)), np.where(FRAMES > 100, 255, 0))
    colour = np.stack([FRAMES, FRAMES, FRAMES], -1)
    assert np.array_equal(read_many(list(read_clips([saved(tmp_path, x=colour)]))), FRAMES)


def test_one_clip_may_come_alone(tmp_path: Path):
    np.save(tmp_path / "one.npy", FRAMES[0])
    assert np.array_equal(clip_of(tmp_path / "one.npy").read(), FRAMES[0])
    assert np.array_equal(clip_of(str(tmp_path / "one.npy")).read(), FRAMES[0])
    clip = clip_of(FRAMES[1] / 255)
    assert np.array_equal(clip.read(), FRAMES[1])
    assert clip_of(clip) is clip
    for wrong, message in ((FRAMES, r"shape \[6, 4, 5, 7\]"), (3, "is int"), (FRAMES[0, 0], r"shape \[5, 7\]")):
        with pytest.raises(FormatError, match=message):
            clip_of(wrong)


def test_the_published_test_set_of_moving_digits_has_time_first(tmp_path: Path):
    published = np.lib.format.open_memmap(tmp_path / "seq.npy", "w+", np.uint8, (20, 10_000, 64, 64))
    published[3, 7, 1, 2] = 9
    notes: list[str] = []
    clips = read_clips([tmp_path / "seq.npy"], notes)
    assert len(clips) == 10_000
    assert np.argwhere(clips[7].read()).tolist() == [[3, 1, 2]]
    assert "10,000 clips of 20 frames" in notes[0]
    (tmp_path / "seq.npy").unlink()


def test_a_rule_is_a_file_of_clips(tmp_path: Path):
    (tmp_path / "rule.json").write_text(MovingRule(count=5, frames=3, end=50).to_json())
    clips = read_clips([tmp_path / "rule.json"])
    assert isinstance(clips, MovingClips)
    assert read_many(clips[:5]).shape == (5, 3, 64, 64)


def test_a_batch_may_come_from_several_sources():
    short = ArrayClips(FRAMES[:, :2], {"label": list("abcdef")}, "short")
    long = ArrayClips(FRAMES, name="long")
    batch = [short[0], long[1], short[2]]
    frames = read_many(batch)
    assert lengths_of(batch).tolist() == [2, 4, 2]
    assert np.array_equal(frames[0, :2], FRAMES[0, :2])
    assert not frames[0, 2:].any()
    assert np.array_equal(frames[1], FRAMES[1])
    assert np.array_equal(frames[2, :2], FRAMES[2, :2])
    other = ArrayClips(FRAMES[..., :3], name="narrow")
    with assert_refused(FormatError, "5 x 7", "long", "5 x 3", "narrow"):
        read_many([long[0], other[0]])


def written(folder: Path, frames: np.ndarray, pattern: str = "frame{}.png") -> None:
    image = pytest.importorskip("PIL.Image")
    folder.mkdir(parents=True)
    for at, frame in enumerate(frames):
        image.fromarray(frame).save(folder / pattern.format(at))


def test_folders_of_pictures_are_clips(tmp_path: Path):
    frames = np.random.default_rng(2).integers(0, 256, (3, 12, 5, 7), np.uint8)
    for name, clip in zip(("clip1", "clip2", "clip10"), frames, strict=True):
        written(tmp_path / name, clip)
    notes: list[str] = []
    clips = read_clips(sorted(tmp_path.rglob("*.png")), notes)
    assert [clip.name for clip in clips] == ["clip1", "clip2", "clip10"]
    assert np.array_equal(read_many(list(clips)), frames)
    assert np.array_equal(clips[1].read(), frames[1])  # kept
    assert not notes
    assert clips[0].labels == ()
    assert np.array_equal(clip_of(tmp_path / "clip2").read(), frames[1])


def test_the_folder_above_is_the_label(tmp_path: Path):
    frames = np.random.default_rng(2).integers(0, 256, (3, 4, 5, 7), np.uint8)
    written(tmp_path / "left" / "a", frames[0])
    written(tmp_path / "left" / "b", frames[1, :2])
    written(tmp_path / "right" / "a", frames[2])
    notes: list[str] = []
    clips = read_clips(sorted(tmp_path.rglob("*.png")), notes)
    assert [clip.labels for clip in clips] == [(("label", "left"),), (("label", "left"),), (("label", "right"),)]
    assert lengths_of(list(clips)).tolist() == [4, 2, 4]
    batch = read_many(list(clips))
    assert np.array_equal(batch[1, :2], frames[1, :2])
    assert not batch[1, 2:].any()
    assert notes == ["clips have 2 to 4 frames; shorter ones end in black"]


def test_frames_of_two_sizes_are_refused_by_name(tmp_path: Path):
    written(tmp_path / "a", FRAMES[0])
    written(tmp_path / "b", FRAMES[0, :, :3])
    clips = read_clips(sorted(tmp_path.rglob("*.png")))
    assert clips[0].read().shape == (4, 5, 7)
    with assert_refused(FormatError, "b/frame0.png", "3 x 7"):
        clips[1].read()
    np.save(tmp_path / "x.npy", FRAMES)
    with pytest.raises(SourceError, match="one kind"):
        read_clips([tmp_path / "x.npy", tmp_path / "a" / "frame0.png"])


def npy(array: np.ndarray, allow_pickle: bool = False) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, array, allow_pickle=allow_pickle)
    return content.getvalue()


def promising() -> bytes:
    """A header that promises a terabyte."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "|u1", "fortran_order": False, "shape": (10**6, 10, 1000, 100)}
    )
    return content.getvalue() + b"\0" * 100


BAD: dict[str, tuple[bytes, str]] = {
    "a.npy": (b"", "a.npy"),
    "b.npy": (b"text, not an array", "b.npy is no array of numpy"),
    "c.npy": (promising(), "c.npy"),
    "d.npy": (npy(np.array([{}, []], object), allow_pickle=True), "d.npy"),
    "e.npy": (npy(FRAMES)[:-200], "e.npy"),
    "f.npy": (npy(FRAMES[0, 0]), r"shape \[5, 7\]; expected frames"),
    "g.npy": (npy(np.zeros((2, 3, 4, 5), complex)), "type complex128"),
    "h.npy": (npy(np.zeros((0, 3, 4, 5))), "at least one clip"),
    "i.npz": (b"no zip", "i.npz"),
    "j.txt": (b"hello", "j.txt is no file of clips"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_a_sentence(name: str, tmp_path: Path):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ThereafterError, match=message):
        read_clips([tmp_path / name])


def test_a_bad_npz_is_refused_in_a_sentence(tmp_path: Path):
    with assert_refused(FormatError, "label", 3, 6):
        read_clips([saved(tmp_path, frames=FRAMES, label=np.arange(3))])
    with assert_refused(FormatError, "[]"):
        read_clips([saved(tmp_path, frames=np.array(3), label=np.arange(3))])
    with assert_refused(FormatError, "label", 1):  # one clip, and a label for every frame
        read_clips([saved(tmp_path, frames=FRAMES[0], label=np.zeros(len(FRAMES[0]), int))])
    with assert_refused(FormatError, "a, b", "frames"):
        read_clips([saved(tmp_path, a=FRAMES, b=FRAMES)])
    with pytest.raises(FormatError, match="strings or whole numbers"):
        read_clips([saved(tmp_path, frames=FRAMES, label=np.arange(6) / 2)])
    for content in (promising(), npy(np.array([{}, []], object), allow_pickle=True), b"junk"):
        with zipfile.ZipFile(tmp_path / "made.npz", "w") as archive:
            archive.writestr("frames.npy", content)
        with assert_refused(ThereafterError, "frames"):
            read_clips([tmp_path / "made.npz"])
    with pytest.raises(EmptyCorpusError):
        read_clips([])


def test_floats_beyond_one_are_refused_when_they_are_read(tmp_path: Path):
    clips = read_clips([saved(tmp_path, frames=FRAMES.astype(float))])
    with assert_refused(FormatError, "0 to 1"):
        clips[0].read()


def test_clips_are_looked_for_by_their_endings():
    assert CLIP_FILES.groups[0] == (".npz", ".npy")
    assert ".png" in CLIP_FILES.groups[-1]


@pytest.mark.parametrize("given", ["hello world", "clips/no.npz", "x" * 5000])
def test_a_clip_that_is_not_there_is_named_as_such(given: str):
    with assert_refused(SourceError, f"{given[:200]!r}"):
        clip_of(given)
