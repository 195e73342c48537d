"""A task that every machine has: which library does this paragraph of documentation belong to?

The paragraphs are those that the quickstart pretrains on. A library's own name is no help, since paragraphs that have
it are left out; and training and test never share a module.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from litebert.errors import RequestError
from litebert.folders import replace_folder

__all__ = ["Libraries", "collect_libraries", "write_library_task"]

_SPLITS = {"train": 0.7, "dev": 0.85, "test": 1.0}
_LEAST, _MOST = 40, 400  # characters of a paragraph
_OF_A_MODULE = 40  # paragraphs, so that no module makes up a split

Libraries = dict[str, dict[str, list[str]]]
"""Paragraphs of each module of each library."""


def collect_libraries(documents: Iterable[tuple[str, str]]) -> Libraries:
    """Sort the paragraphs of (module, text) documents by library, without those that name it."""
    libraries: Libraries = defaultdict(dict)
    for module, text in documents:
        library, slash, _ = module.partition("/")
        if not slash:
            continue  # a topic, or a library of a single file
        name = re.compile(re.escape(library.strip("_").removesuffix(".py")), re.IGNORECASE)
        paragraphs = [
            paragraph
            for paragraph in text.split("\n\n")
            if _LEAST <= len(paragraph) <= _MOST and not name.search(paragraph)
        ]
        if paragraphs:
            libraries[library][module] = paragraphs
    return libraries


def write_library_task(
    folder: Path,
    libraries: Libraries,
    num_libraries: int = 8,
    num_paragraphs: int = 600,
    seed: int = 0,
    num_labels: int | None = None,
) -> dict[str, int]:
    """Write train.jsonl, dev.jsonl and test.jsonl of the libraries that have most to say; give their sizes.

    `num_labels` leaves only so many paragraphs to learn from, as if somebody had labelled them by hand.
    """
    generator = np.random.default_rng(seed)
    sizes = {name: sum(map(len, modules.values())) for name, modules in libraries.items() if len(modules) >= 3}
    chosen = sorted(sizes, key=lambda name: (-sizes[name], name))[:num_libraries]
    if len(chosen) < 2:
        raise RequestError(
            "the documentation on this machine is of fewer than two libraries: there is nothing to tell apart"
        )
    rows: dict[str, list[dict[str, str]]] = {split: [] for split in _SPLITS}
    for library in chosen:
        modules = sorted(libraries[library])
        room = min(num_paragraphs, sizes[library])
        room = min(room, sum(min(_OF_A_MODULE, len(libraries[library][module])) for module in modules))
        taken = 0
        for index in generator.permutation(len(modules)).tolist():
            split = next(split for split, end in _SPLITS.items() if taken < end * room or split == "test")
            paragraphs = libraries[library][modules[index]][: min(_OF_A_MODULE, room - taken)]
            taken += len(paragraphs)
            rows[split] += [{"text": paragraph, "label": library} for paragraph in paragraphs]
    with replace_folder(folder) as staging:
        for split, records in rows.items():
            order = generator.permutation(len(records)).tolist()
            rows[split] = [records[index] for index in order][: num_labels if split == "train" else None]
            lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in rows[split]]
            (staging / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    return {split: len(records) for split, records in rows.items()}
