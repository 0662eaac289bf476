"""Readers of real tasks: few-shot tasks of Omniglot, tokens of a text, analogies.

The folder is named by the environment variable SCALEWISE_DATA; nothing of it is part of the package.
"""

from __future__ import annotations

import lzma
from collections import Counter
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy.random import Generator, Philox

from scalewise.data import data_file
from scalewise.limits.maml import Tasks


@lru_cache(maxsize=2)
def archive(name: str, *keys: str) -> dict[str, np.ndarray]:
    """Arrays of a file, those named or all, read once."""
    with np.load(data_file(name), allow_pickle=False) as held:
        return {key: held[key] for key in keys or held}


Characters = tuple[np.ndarray, np.ndarray, np.ndarray]


def omniglot(
    *,
    rotations: bool = True,
    side: int = 28,
    split: tuple[int, int] = (1028, 172),
    seed: int = 0,
) -> Characters:
    """Omniglot's 1623 characters, twenty drawings each, split at random into training, validation and test.

    Rows of pixels from 0 to 1, ink is high, (character, drawing, pixel); rotations by 90, 180 and 270 degrees are
    characters of their own but in the test.

    Args:
        rotations: Whether rotated characters of training and validation count as further ones.
        side: Pixels per side, a divisor of 28: images are averaged down to it.
        split: Characters for training and for validation; the rest, 423, is for testing.
        seed: Of the split; the split in common use is another random one.

    Raises:
        ValueError: If the file is missing, `side` does not divide 28, or a part would be empty.
    """
    if side < 1 or 28 % side:
        raise ValueError(f"`side` must divide 28; got {side}.")
    with np.load(data_file("omniglot.npz"), allow_pickle=False) as archive:
        images, character = archive["images28"], archive["character"]
    order = np.argsort(character, kind="stable")
    block = 28 // side
    shape = (int(character.max()) + 1, 20, side, block, side, block)
    images = (images[order].reshape(shape).mean((3, 5)) / 255).astype(np.float32)
    mixed = Generator(Philox(seed)).permutation(len(images))
    if min(split) < 1 or sum(split) >= len(images):
        raise ValueError(
            f"`split` must leave some of the {len(images)} characters for each of three parts; got {split}."
        )
    parts = np.split(mixed, [split[0], sum(split)])
    turns = range(4 if rotations else 1)
    kinds = []
    for part, some in zip(parts, (turns, turns, range(1)), strict=True):
        turned = [np.rot90(images[part], turn, axes=(2, 3)) for turn in some]
        kinds.append(np.concatenate(turned).reshape(-1, 20, side * side))
    train, validation, test = kinds
    return train, validation, test


def draw_tasks(
    characters: Float[np.ndarray, "character drawing pixel"],
    count: int,
    rng: Generator,
    *,
    ways: int = 5,
    shots: int = 1,
) -> Tasks:
    """Few-shot tasks: characters without repetition, drawings of each for support and for query.

    Args:
        characters: From `omniglot`.
        count: How many tasks.
        rng: Of the choice.
        ways: Classes per task.
        shots: Drawings per class, in the support and in the query alike.

    Raises:
        ValueError: If there are too few characters or drawings.
    """
    total, drawings = characters.shape[:2]
    if not (1 <= ways <= total and 1 <= shots <= drawings // 2):
        raise ValueError(
            f"`ways` must be at most the {total} characters and `shots` at most half the {drawings} drawings; "
            f"got {ways} and {shots}."
        )
    chosen = np.array([rng.choice(total, ways, replace=False) for _ in range(count)])
    ranks = rng.random((count, ways, drawings)).argpartition(2 * shots - 1, axis=-1)[
        ..., : 2 * shots
    ]
    ranks = rng.permuted(ranks, axis=-1)
    images = characters[chosen[..., None], ranks]
    classes = np.repeat(np.arange(ways), shots)[None].repeat(count, 0)
    pixels = images.shape[-1]
    return Tasks(
        images[:, :, :shots].reshape(count, -1, pixels),
        classes,
        images[:, :, shots:].reshape(count, -1, pixels),
        classes,
    )


def read_text(
    vocabulary: int, *, characters: int | None = None
) -> tuple[list[str], Int[np.ndarray, " token"]]:
    """The most frequent words of the text, and the text as their numbers; other words are left out.

    Args:
        vocabulary: V, how many words.
        characters: How much of the text to read; all 100 million for ``None``.

    Returns:
        The words, most frequent first, and the text as int32.

    Raises:
        ValueError: If the file is missing, or has fewer words.
    """
    with lzma.open(data_file("wiki100m.txt.xz"), "rt", encoding="ascii") as file:
        text = file.read(-1 if characters is None else characters).split()
    counts = Counter(text)
    if len(counts) < vocabulary:
        raise ValueError(
            f"`vocabulary` asks for {vocabulary} words; the text read has {len(counts)}. Read more of it."
        )
    words = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    number = {word: k for k, word in enumerate(words[:vocabulary])}
    known = (number.get(word, -1) for word in text)
    tokens = np.fromiter(known, dtype=np.int32, count=len(text))
    return words[:vocabulary], tokens[tokens >= 0]


def read_bytes(characters: int) -> UInt8[np.ndarray, " byte"]:
    """The first bytes of the text, as uint8.

    Args:
        characters: How many; 0 for all 100 million.

    Raises:
        ValueError: If the file is missing.
    """
    with lzma.open(data_file("wiki100m.txt.xz"), "rb") as file:
        return np.frombuffer(file.read(characters or -1), dtype=np.uint8)


def read_analogies(words: list[str]) -> Int[np.ndarray, "question 4"]:
    """The questions all of whose four words are known, as numbers of words.

    Args:
        words: The vocabulary, in the order of its numbers.

    Raises:
        ValueError: If the file is missing.
    """
    number = {word: k for k, word in enumerate(words)}
    found = []
    for line in data_file("questions-words.txt").read_text(encoding="ascii").lower().splitlines():
        four = [number.get(word) for word in line.split()]
        if len(four) == 4 and None not in four and not line.startswith(":"):
            found.append(four)
    return np.array(found, dtype=np.int64).reshape(-1, 4)
