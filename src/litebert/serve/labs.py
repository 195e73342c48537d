"""Grids of experiments that the lab has finished, as they lie in the folder that the server watches.

Such a folder holds `results.json`, `table.md` and `report.html`. Only these names are looked for, and no file is read
that lies outside of the watched folder, whatever links there are.
"""

from dataclasses import dataclass
from pathlib import Path

from litebert.errors import FolderError

__all__ = ["LabFolder", "find_labs"]

_RESULTS, _TABLE, _REPORT = "results.json", "table.md", "report.html"
_MOST_BYTES = 200_000
"""Of a table: a page can show no more."""
_MOST_REPORT_BYTES = 50_000_000


@dataclass(frozen=True)
class LabFolder:
    """A finished grid, which lies somewhere below a folder that is watched."""

    path: Path
    root: Path

    @property
    def changed(self) -> float:
        """When its results were written, in seconds since 1970."""
        return self._check(_RESULTS).stat().st_mtime

    def read_table(self) -> str:
        """Its tables in Markdown, or as many whole lines of them as can be shown."""
        with self._check(_TABLE).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            content = content[: content.rfind(b"\n", 0, _MOST_BYTES) + 1]
        return content.decode("utf-8", errors="replace")

    def read_report(self) -> bytes:
        """Its report: a page of HTML."""
        file = self._check(_REPORT)
        if file.stat().st_size > _MOST_REPORT_BYTES:
            raise FolderError(f"the report of {self.path.name} is too large to be served: open it from its folder")
        return file.read_bytes()

    def _check(self, name: str) -> Path:
        """The file, if it lies in the watched folder."""
        file = (self.path / name).resolve()
        if not file.is_relative_to(self.root.resolve()) or not file.is_file():
            raise FolderError(f"{self.path.name} has no {name} of its own")
        return file


def find_labs(root: Path) -> dict[str, LabFolder]:
    """Grids in a folder, or in folders of it, by their names: their path below it."""
    found = sorted({path.parent for depth in ("*/", "*/*/") for path in root.glob(depth + _RESULTS)})
    complete = [path for path in found if (path / _TABLE).is_file() and (path / _REPORT).is_file()]
    return {path.relative_to(root).as_posix(): LabFolder(path, root) for path in complete}
