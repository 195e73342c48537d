"""What tests of a user's own files share: writing one, reading it, and hearing what is wrong with it."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from litebert.tasks.readers.tables import read_table
from litebert.tasks.task import Columns, DataError

PLAIN = Columns()
CHOICE = Columns(text="story", options=("a", "b", "c"))
SKIP = ", or pass --skip-bad to leave such records out and count them"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    data = content if isinstance(content, bytes) else content.encode()
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return file


def read(file: Path, kind: str = "classification", columns: Columns = PLAIN, **options: Any) -> list[Any]:
    return read_table(file, kind, columns, **options).examples


def complain(file: Path, kind: str = "classification", columns: Columns = PLAIN, **options: Any) -> str:
    """The words after the file's name."""
    with pytest.raises(DataError) as caught:
        read_table(file, kind, columns, **options)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(file)).lstrip(", ")
