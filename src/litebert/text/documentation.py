"""English text that lies on every machine: the documentation in Python's library and in the installed packages.

Each module gives one document, its docstrings in order with the code examples and the markup taken out. Files are only
read, never imported or run, and docstrings are found by their position: parsing whole modules takes ten times as long.
"""

import ast
import inspect
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

__all__ = ["documents"]

_MAX_FILE_BYTES = 1_000_000
_MIN_DOCUMENT_CHARS = 200
_PASSED_OVER = {"test", "tests", "testing", "idle_test", "_vendor", "__pycache__", "site-packages", "dist-packages"}
# Comments and strings, so that quotes in one are not taken for the start of the other. What a group has taken it keeps,
# by (?>…): the shorter form of that, *+ behind a group, goes wrong in Python 3.11.2.
_COMMENT_OR_STRING = re.compile(
    r"""
    \#[^\n]*
  | (?P<prefix>[rRuUbBfF]{0,2})
    (?: \"{3} (?> [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* ) \"{3}
      | '{3}  (?> [^'\\]* (?: (?: \\. | '(?!'') ) [^'\\]* )* ) '{3}
      | " (?> (?: [^"\\\n] | \\. )* ) "
      | ' (?> (?: [^'\\\n] | \\. )* ) '
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_UNDERLINE = re.compile(r"([-=~^*#\"'`+.])\1{2,}\s*")
_PARAMETER = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)* ?: ?\S.*|[\w.\[\], ]+")  # numpydoc: "axis : int, optional"
_FIELD = re.compile(r"^(?::[a-z]+(?: [^:]*)?: +|@[a-z]+ +(?:\w+:)? *|[-*+•] +|\d+[.)] +)")
_GOOGLE_PARAMETER = re.compile(r"^\*{0,2}`?\w+`? ?\([^()]*(?:\([^()]*\)[^()]*)*\): *")
_ROLE = re.compile(r":[a-z:]+:`~?!?([^`<]*?)(?: *<[^`>]*>)?`")
_LINK = re.compile(r"`([^`<]+) <[^`>]+>`_+|\[([^\]]+)\]\([^)]*\)")
_MARKS = re.compile(r"`{1,2}|\*{2}")
_SECTIONS = re.compile(
    r"(parameters|args|arguments|returns?|yields?|raises|warns|notes?|examples?|attributes|methods|see also|references"
    r"|keyword arguments|other parameters|shape|inputs?|outputs?|usage):?",
    re.IGNORECASE,
)


def documents(limit_bytes: int | None = None, python_alone: bool = False) -> Iterator[tuple[str, str]]:
    """Give (module, text) in an order that depends on nothing but what is installed, until `limit_bytes` of text.

    `python_alone` leaves the installed packages out.
    """
    num_bytes = 0
    seen: set[int] = set()
    for location, docstrings in _modules(python_alone):
        # Many docstrings are copies of others: a paragraph is given once.
        paragraphs = []
        for paragraph in (part for docstring in docstrings for part in _prose(docstring)):
            if hash(paragraph) not in seen:
                seen.add(hash(paragraph))
                paragraphs.append(paragraph)
        text = "\n\n".join(paragraphs)
        size = len(text.encode("utf-8", "replace"))
        if len(text) < _MIN_DOCUMENT_CHARS or size > 1.05 * len(text):
            continue
        if limit_bytes is not None and num_bytes + size > limit_bytes:
            return
        num_bytes += size
        yield location, text


def _modules(python_alone: bool) -> Iterator[tuple[str, list[str]]]:
    """Give the docstrings of every module: pydoc's topics first, then the library, then packages by name."""
    from pydoc_data import topics

    for topic, text in sorted(topics.topics.items()):
        yield f"topic {topic}", [text]
    paths = sysconfig.get_paths()
    packages = () if python_alone else (paths["purelib"], paths["platlib"])
    for root in dict.fromkeys((paths["stdlib"], *packages)):
        for file in _python_files(Path(root)):
            yield str(file.relative_to(root)), _docstrings(file)


def _python_files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name in _PASSED_OVER or entry.name.startswith((".", "test_")) or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _python_files(Path(entry.path))
        elif entry.name.endswith(".py") and entry.is_file():
            yield Path(entry.path)


def _docstrings(file: Path) -> list[str]:
    """Find the strings that stand alone after a colon, or first in the module."""
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            return []
        source = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return []
    found = []
    end, before = 0, ""
    for match in _COMMENT_OR_STRING.finditer(source):
        gap = source[end : match.start()]
        code = gap.rstrip()
        before = code[-1] if code else before
        literal = match.group()
        is_comment = literal.startswith("#")
        stands_alone = not code or "\n" in gap[len(code) :]
        if not is_comment and before in ("", ":") and stands_alone and match["prefix"].lower() in ("", "r", "u"):
            found.append(_value_of(literal))
        before = before if is_comment else "string"
        end = match.end()
    return [docstring for docstring in found if docstring]


def _without_quotes(literal: str) -> str:
    """A string literal without its prefix and its quotes, and with those that belong to the text."""
    literal = literal.lstrip("rRuU")
    width = 3 if literal.startswith(('"""', "'''")) else 1
    return literal[width:-width]


def _value_of(literal: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in foreign files
            value = ast.literal_eval(literal) if "\\" in literal else _without_quotes(literal)
    except (SyntaxError, ValueError, MemoryError):
        return ""
    return inspect.cleandoc(value) if isinstance(value, str) else ""


def _prose(docstring: str) -> Iterator[str]:
    """Give the paragraphs of a docstring that are English sentences."""
    is_code_next = False
    for block in re.split(r"\n\s*\n", docstring):
        is_indented = block.startswith((" ", "\t"))
        if is_code_next and is_indented:
            continue
        is_code_next = block.rstrip().endswith("::")
        if block.lstrip().startswith((".. code", ".. testcode", ".. math", ".. image", ".. plot", "```")):
            is_code_next = True
            continue
        lines: list[str] = []
        for line in map(str.strip, block.splitlines()):
            if line.startswith((">>>", "```")):
                break  # what follows up to the blank line is code, or what it prints
            if _UNDERLINE.fullmatch(line):
                lines = lines[:-1]  # the heading above it
            elif not line.startswith((".. ", "...", "|", "+-")) and not _SECTIONS.fullmatch(line):
                is_parameter = _PARAMETER.fullmatch(line) and (" : " in line or not line.endswith((".", ",")))
                if not is_parameter or len(line.split()) > 6:
                    lines.append(_GOOGLE_PARAMETER.sub("", _FIELD.sub("", line)))
        text = _MARKS.sub("", _LINK.sub(r"\1\2", _ROLE.sub(r"\1", " ".join(lines)))).replace("::", ":")
        if _is_english(text):
            yield " ".join(text.split())


def _is_english(text: str) -> bool:
    """Whether a paragraph is mostly words, and some of them make a sentence."""
    words = re.findall(r"(?<![\w.=(\[_])[A-Za-z][a-z]*(?:['-][a-z]+)*(?=[\s,.;:!?)]|$)", text)
    return len(words) >= 5 and sum(map(len, words)) >= 0.62 * len(text.replace(" ", ""))
