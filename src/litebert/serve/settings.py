"""`ServeSettings`: all that decides how models are served. Worker processes get it through one environment variable."""

import os
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from litebert.serve.batching import QueueLimits

__all__ = ["ServeSettings"]

_VARIABLE = "LITEBERT_SERVE_SETTINGS"


class ServeSettings(BaseModel):
    """What is served, and within which limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: dict[str, str]
    """Models by the names that clients use."""
    indexes: dict[str, str] = {}
    """Indexes to search in, by their names."""
    runs: str | None = None
    """A folder with training runs to watch."""
    api_key: str | None = None
    batch_tokens: Annotated[int, Field(ge=1)] = 2048
    max_wait: Annotated[float, Field(gt=0)] = 5.0
    """Seconds: a request that would wait for longer is refused."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds without any progress after which a request is given up."""
    max_body: Annotated[int, Field(ge=1)] = 2_000_000
    """Bytes of a request."""
    max_inputs: Annotated[int, Field(ge=1)] = 2048
    """Texts of a request."""
    max_tokens: Annotated[int, Field(ge=1)] = 300_000
    """Tokens of a request, about."""
    reload_every: Annotated[float, Field(ge=0)] = 2.0
    """Seconds between looks at the folders of the models; 0 never looks."""

    @property
    def limits(self) -> QueueLimits:
        """Those of a queue."""
        return QueueLimits(self.batch_tokens, self.max_wait, self.timeout)

    def to_environment(self) -> None:
        """Leave the settings for worker processes that are started from here."""
        os.environ[_VARIABLE] = self.model_dump_json()

    @classmethod
    def from_environment(cls) -> "ServeSettings":
        """What the parent process left."""
        return cls.model_validate_json(os.environ[_VARIABLE])
