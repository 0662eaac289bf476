"""Property and golden tests: readers of drawings, text and analogies, on files made here."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from scalewise.data import missing_data
from scalewise.experiments._readers import (
    draw_tasks,
    omniglot,
    read_analogies,
    read_text,
)

CHARACTERS = 12


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Drawings whose first four pixels say which they are; a text; three questions."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 200, (CHARACTERS, 20, 28, 28)).astype(np.uint8)
    images[:, :, 0, 0] = np.arange(CHARACTERS)[:, None]
    images[:, :, 0, 1] = np.arange(20)
    mixed = rng.permutation(CHARACTERS * 20)
    character = np.repeat(np.arange(CHARACTERS), 20)[mixed].astype(np.int16)
    np.savez(
        tmp_path / "omniglot.npz",
        images28=images.reshape(-1, 28, 28)[mixed],
        character=character,
    )
    with lzma.open(tmp_path / "wiki100m.txt.xz", "wt", encoding="ascii") as file:
        file.write(" b a c a b a d e a b c x")
    questions = ": family\nA b C d\na b c q\n: other\nD c b A\n"
    (tmp_path / "questions-words.txt").write_text(questions)
    monkeypatch.setenv("SCALEWISE_DATA", str(tmp_path))
    return tmp_path


def test_characters_are_split_rotated_and_scaled(folder: Path) -> None:
    train, validation, test = omniglot(split=(6, 3))
    assert train.shape == (4 * 6, 20, 784)
    assert validation.shape == (4 * 3, 20, 784)
    assert test.shape == (3, 20, 784)
    assert 0.7 < train.max() <= 199 / 255
    parts = ((train, 6), (validation, 3), (test, 3))
    numbers = [np.round(part[:n, 0, 0] * 255).astype(int) for part, n in parts]
    assert sorted(np.concatenate(numbers)) == list(range(CHARACTERS))
    upright = train[:6].reshape(6, 20, 28, 28)
    for turn in range(4):
        turned = train[6 * turn : 6 * turn + 6].reshape(6, 20, 28, 28)
        np.testing.assert_array_equal(turned, np.rot90(upright, turn, axes=(2, 3)))
    small, fewer, _ = omniglot(split=(6, 3), side=14, rotations=False)
    blocks = upright.reshape(6, 20, 14, 2, 14, 2).mean((3, 5)).reshape(6, 20, 196)
    np.testing.assert_allclose(small, blocks, rtol=1e-5)
    assert len(fewer) == 3
    *_, other = omniglot(split=(6, 3), seed=1)
    assert np.any(other != test)


def test_tasks_hold_different_drawings_of_different_characters(folder: Path) -> None:
    train, *_ = omniglot(split=(6, 3), rotations=False)
    tasks = draw_tasks(train, 200, np.random.default_rng(1), ways=4, shots=3)
    assert tasks.support.shape == tasks.query.shape == (200, 12, 784)
    np.testing.assert_array_equal(tasks.support_class[0], np.repeat(np.arange(4), 3))
    which = np.round(tasks.support[..., :2] * 255).astype(int)
    asked = np.round(tasks.query[..., :2] * 255).astype(int)
    for s, q, classes in zip(which, asked, tasks.support_class, strict=True):
        named = [set(s[classes == c, 0]) | set(q[classes == c, 0]) for c in range(4)]
        assert [len(names) for names in named] == [1] * 4
        assert len(set.union(*named)) == 4
        drawings = np.concatenate([s, q])
        assert len(np.unique(drawings, axis=0)) == 24
    # Every drawing comes as often in the support as in the query.
    for part in (which, asked):
        counts = np.bincount(part[..., 1].ravel(), minlength=20)
        assert np.all(np.abs(counts - 120) < 4.5 * np.sqrt(120))


def test_words_by_frequency_and_the_text_in_numbers(folder: Path) -> None:
    words, tokens = read_text(3)
    assert words == ["a", "b", "c"]
    assert tokens.tolist() == [1, 0, 2, 0, 1, 0, 0, 1, 2]
    words, tokens = read_text(2, characters=6)
    assert words == ["a", "b"]
    assert tokens.tolist() == [1, 0]
    with pytest.raises(ValueError, match="asks for 9 words; the text read has 6"):
        read_text(9)


def test_questions_whose_words_are_known(folder: Path) -> None:
    assert read_analogies(["a", "b", "c", "d"]).tolist() == [[0, 1, 2, 3], [3, 2, 1, 0]]
    assert read_analogies(["a", "b", "c"]).shape == (0, 4)


def test_what_is_missing_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_data("omniglot.npz", "questions-words.txt") is None
    (folder / "questions-words.txt").unlink()
    assert "This needs questions-words.txt, not found" in str(
        missing_data("omniglot.npz", "questions-words.txt")
    )
    with pytest.raises(ValueError, match="Set the variable to a folder with the file"):
        read_analogies(["a"])
    monkeypatch.delenv("SCALEWISE_DATA")
    assert "SCALEWISE_DATA, which is not set" in str(missing_data("omniglot.npz"))


def test_bad_numbers_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="`side` must divide 28; got 10"):
        omniglot(side=10)
    with pytest.raises(ValueError, match="`split` must leave some of the 12 characters"):
        omniglot(split=(10, 2))
    rng, (train, *_) = np.random.default_rng(0), omniglot(split=(6, 3), rotations=False)
    with pytest.raises(ValueError, match="`ways` must be at most the 6 characters"):
        draw_tasks(train, 1, rng, ways=7)
    with pytest.raises(ValueError, match="`shots` at most half the 20 drawings; got 5 and 11"):
        draw_tasks(train, 1, rng, shots=11)
