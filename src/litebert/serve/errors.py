"""What is wrong with a request, in the shape that clients of OpenAI read."""

import contextlib
from collections.abc import Iterator
from typing import Any

from litebert.errors import RequestError

__all__ = ["ApiError", "refusing", "render_error"]

_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """An answer other than 200; its message is one sentence that says what to do."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.headers = headers or {}


@contextlib.contextmanager
def refusing(param: str) -> Iterator[None]:
    """Say which field of a request it is that cannot be."""
    try:
        yield
    except RequestError as error:
        raise ApiError(400, str(error), "invalid_value", param) from None


def render_error(status: int, message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """The body of such an answer."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
