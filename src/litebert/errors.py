"""The errors a user can cause and mend.

Each carries one sentence that says what is wrong and what to do. The command line prints that sentence and exits
with 1; a traceback is for `--debug`.
"""

__all__ = ["DataError", "FolderError", "LitebertError", "RequestError"]


class LitebertError(Exception):
    """Anything that a user can mend; its text is one sentence that says how."""


class DataError(LitebertError):
    """A file of data, or a record of it, that cannot be used; the sentence names file and line."""


class FolderError(LitebertError):
    """A model folder (or a file in it) that is missing, damaged, foreign or refused."""


class RequestError(LitebertError, ValueError):
    """A value or a combination of values that cannot work."""
