"""`Metrics`: what `/metrics` tells Prometheus. Several worker processes add theirs together through files."""

import os
from typing import Any

__all__ = ["Metrics"]

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Metrics:
    """Counters and histograms of one application."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()

        def make(kind: Any, name: str, about: str, labels: tuple[str, ...] = (), **how: Any) -> Any:
            return kind(f"litebert_{name}", about, labels, registry=self._registry, **how)

        self.requests = make(Counter, "requests", "Requests by path and status.", ("path", "status"))
        self.seconds = make(Histogram, "request_seconds", "Time to the answer.", ("path",), buckets=_SECONDS)
        self.refusals = make(Counter, "refusals", "Requests that were refused, and why.", ("reason",))
        self.in_flight = make(Gauge, "requests_in_flight", "Requests being answered.", multiprocess_mode="livesum")
        labels = ("model",)
        self.waiting = make(
            Gauge, "queue_requests", "Requests that wait for the model.", labels, multiprocess_mode="livesum"
        )
        self.waiting_tokens = make(
            Gauge, "queue_tokens", "Tokens that wait for the model.", labels, multiprocess_mode="livesum"
        )
        self.batch_inputs = make(Histogram, "batch_inputs", "Inputs of a batch.", labels, buckets=_COUNTS)
        self.batch_seconds = make(Histogram, "batch_seconds", "Time of a batch.", labels, buckets=_SECONDS)
        self.tokens = make(Counter, "tokens", "Tokens that were run, as they were estimated.", labels)
        self.exits = make(Counter, "exits", "Answers by the pass after which they were given.", ("model", "passes"))
        self.reloads = make(Counter, "reloads", "Models that were opened again.", labels)

    def render(self) -> tuple[bytes, str]:
        """The page for Prometheus, and its type."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST
