"""The task that every machine has: nothing gives the answer away, and training and test share no module."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from litebert.errors import RequestError
from litebert.tasks.readers.libraries import collect_libraries, write_library_task


def documents() -> Iterator[tuple[str, str]]:
    """Three libraries of ten modules, each of four paragraphs that say which module it is."""
    for library in ("alpha", "beta", "gamma"):
        for module in range(10):
            told = [f"Paragraph {number} of module {library[0]}{module}: {'words ' * 10}" for number in range(4)]
            yield (
                f"{library}/part{module}.py",
                "\n\n".join([*told, f"This is {library.upper()} itself. {'words ' * 10}"]),
            )
    yield "topic", f"A topic is of no library. {'words ' * 10}"


def read(folder: Path) -> dict[str, list[dict[str, str]]]:
    names = ("train", "dev", "test")
    return {name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()] for name in names}


def test_no_paragraph_names_its_library_and_no_module_is_in_two_splits(tmp_path: Path) -> None:
    sizes = write_library_task(tmp_path / "task", collect_libraries(documents()))
    splits = read(tmp_path / "task")
    assert sizes == {name: len(rows) for name, rows in splits.items()}
    assert sum(sizes.values()) == 3 * 10 * 4
    modules = {name: {row["text"].split(":")[0].split()[-1] for row in rows} for name, rows in splits.items()}
    assert not modules["train"] & (modules["dev"] | modules["test"])
    assert all(row["label"] not in row["text"].lower() for rows in splits.values() for row in rows)
    assert all({row["label"] for row in rows} == {"alpha", "beta", "gamma"} for rows in splits.values())


def test_some_labels_are_the_first_of_all_labels(tmp_path: Path) -> None:
    libraries = collect_libraries(documents())
    write_library_task(tmp_path / "all", libraries)
    sizes = write_library_task(tmp_path / "some", libraries, num_labels=12)
    whole, some = read(tmp_path / "all"), read(tmp_path / "some")
    assert sizes["train"] == 12
    assert some["train"] == whole["train"][:12]
    assert some["test"] == whole["test"]


def test_one_library_is_nothing_to_tell_apart(tmp_path: Path) -> None:
    alone = [(module, text) for module, text in documents() if module.startswith("alpha/")]
    with pytest.raises(RequestError, match="fewer than two libraries"):
        write_library_task(tmp_path / "task", collect_libraries(alone))
