"""`Service`: all that the application holds: models with their queues, indexes, runs and grids to watch, and limits."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from litebert.errors import LitebertError
from litebert.inference.index import Index
from litebert.inference.load import cut_vectors, normalize
from litebert.inference.nearest import TopK
from litebert.inference.vectors import hash_encoder
from litebert.serve.errors import ApiError
from litebert.serve.labs import LabFolder, find_labs
from litebert.serve.metrics import Metrics
from litebert.serve.models import Ability, ModelVersion, ServedModel, estimate_tokens
from litebert.serve.settings import ServeSettings
from litebert.training.run_folder import RunFolder, find_runs, read_kind, read_run

__all__ = ["SearchResults", "ServedIndex", "Service"]

Read = TypeVar("Read")

_MOST_RUNS = 200
_MOST_LABS = 50
_CURVES = 400  # points of a curve, at most


@dataclass(frozen=True)
class ServedIndex:
    """An index, and the model that made it."""

    index: Index
    model: ServedModel
    version: ModelVersion
    """The weights that made the index: questions go through these, whatever becomes of the model's folder."""


@dataclass(frozen=True)
class SearchResults:
    """For each question what was found, and where."""

    model: str
    index: str | None
    results: list[list[dict[str, Any]]]


class Service:
    """Models behind one application."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.models: dict[str, ServedModel] = {}
        self.indexes: dict[str, ServedIndex] = {}
        self.is_ready = False
        self._watcher: asyncio.Task[None] | None = None
        self._exits: dict[str, Counter[int]] = {}

    async def start(self) -> None:
        """Begin to take requests, when everything is open and warm."""
        if not self.models:
            await asyncio.to_thread(self.open)
        self.is_ready = True
        self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Finish what is there."""
        self.is_ready = False
        if self._watcher is not None:
            self._watcher.cancel()
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """End the threads of all models, when they have done what there is."""
        for model in self.models.values():
            model.queue.close(self.settings.timeout)

    def open(self) -> None:
        """Open and warm up everything."""
        for name, source in self.settings.models.items():
            self._add(name, source)
        for name, folder in self.settings.indexes.items():
            index = Index.open(folder)
            made_by = index.info.encoder_sha256
            model = next((one for one in self.models.values() if hash_encoder(one.pipeline) == made_by), None)
            model = model or self._add(index.info.encoder, str(index.encoder.members[0].folder))
            self.indexes[name] = ServedIndex(Index.open(folder, model.pipeline), model, model.version)

    def _add(self, name: str, source: str) -> ServedModel:
        while name in self.models:
            name += "'"
        model = ServedModel(name, source, self.settings.limits, self._hear_of_batches(name))
        model.warm_up()
        self.models[name] = model
        return model

    def _hear_of_batches(self, name: str) -> Callable[[int, int, float], None]:
        metrics = self.metrics

        def hear(inputs: int, tokens: int, seconds: float) -> None:
            metrics.batch_inputs.labels(name).observe(inputs)
            metrics.batch_seconds.labels(name).observe(seconds)
            metrics.tokens.labels(name).inc(tokens)

        return hear

    def update_gauges(self) -> None:
        """Say what waits, and after which passes answers were given."""
        for name, model in self.models.items():
            self.metrics.waiting.labels(name).set(model.queue.num_waiting)
            self.metrics.waiting_tokens.labels(name).set(model.queue.tokens_waiting)
            seen = Counter(model.pipeline.members[0].engine.exits_seen)
            for passes, count in (seen - self._exits.get(name, Counter())).items():
                self.metrics.exits.labels(name, str(passes)).inc(count)
            self._exits[name] = seen

    async def _watch(self) -> None:
        """Look after the process and at the folders of the models now and then."""
        parent = multiprocessing.parent_process()
        while True:
            await asyncio.sleep(self.settings.reload_every or 2)
            if parent is not None and not parent.is_alive():  # it was killed, and nobody else would end this process
                os.kill(os.getpid(), signal.SIGTERM)
            self.update_gauges()
            for name, model in self.models.items() if self.settings.reload_every else ():
                with contextlib.suppress(OSError):
                    if await asyncio.to_thread(model.reload_if_changed):
                        self.metrics.reloads.labels(name).inc()

    # --- requests --------------------------------------------------------------------------------------------------

    def find(self, name: str | None, ability: Ability | None = None, of_pairs: bool | None = None) -> ServedModel:
        """The model of a name, or the first that has the ability; of those one of pairs, or of single texts."""
        if name is not None and name not in self.models:
            known = ", ".join(self.models)
            raise ApiError(404, f"there is no model {name!r} here: choose one of {known}", "model_not_found", "model")
        chosen = [self.models[name]] if name is not None else list(self.models.values())
        able = [model for model in chosen if ability is None or ability in model.abilities]
        fitting = [model for model in able if of_pairs in (None, model.is_of_pairs)]
        for model in fitting or able:
            return model
        who = "no model here" if name is None else f"the model {name}"
        if name is None:
            made = "pretrain" if ability in ("fill-mask", "order") else "finetune"
            advice = f"serve one that was (`litebert {made}` makes it)"
            raise ApiError(400, f"{who} was trained for {ability}: {advice}", "not_able", "model")
        known = ", ".join(chosen[0].abilities)
        raise ApiError(400, f"{who} was not trained for {ability}, but for {known}", "not_able", "model")

    def check_inputs(self, inputs: Sequence[Any], param: str = "input") -> None:
        """Refuse what is too much for one request."""
        most, tokens = self.settings.max_inputs, self.settings.max_tokens
        if len(inputs) > most:
            raise ApiError(422, f"a request may have {most:,} texts, not {len(inputs):,}", "too_many_inputs", param)
        if sum(map(estimate_tokens, inputs)) > tokens:
            raise ApiError(413, f"a request may have about {tokens:,} tokens: send fewer at once", "too_many_tokens")

    async def search(
        self, queries: list[str], name: str | None, texts: list[str] | None, model_name: str | None, top: int
    ) -> SearchResults:
        """What lies nearest to each question, in an index or among texts."""
        if texts is not None:
            model = self.find(model_name, "embed")
            vectors = normalize(np.stack([one.vector for one in await model.embed([*queries, *texts])]))
            best = TopK(len(queries), top)
            best.add(vectors[: len(queries)] @ vectors[len(queries) :].T)
            found = [[{"index": n, "text": texts[n], "score": score} for n, score in row] for row in best]
            return SearchResults(model.name, None, found)
        name = next(iter(self.indexes), None) if name is None else name
        if name is None:
            raise ApiError(400, "there is no index here: send texts, or serve the folder of an index", "no_index")
        if name not in self.indexes:
            raise ApiError(404, f"there is no index {name!r} here: see /v1/indexes", "index_not_found", "index")
        served = self.indexes[name]
        info = served.index.info
        if model_name not in (None, served.model.name):
            raise ApiError(400, f"the index {name} is of the model {served.model.name}", "invalid_value", "model")
        embedded = await served.model.embed(queries, info.depth, served.version)
        made = cut_vectors(np.stack([one.vector for one in embedded]), info.dimensions)
        nearest = await asyncio.to_thread(served.index.nearest, made, top)
        results = [
            [{"text": one.passage.text, "location": one.passage.location, "score": one.cosine} for one in row]
            for row in nearest
        ]
        return SearchResults(served.model.name, name, results)

    # --- runs ------------------------------------------------------------------------------------------------------

    async def list_runs(self) -> list[dict[str, Any]]:
        """The runs in the watched folder, the newest first."""
        return await asyncio.to_thread(self._list_runs)

    def _list_runs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        for name, folder in self._run_folders().items():
            with contextlib.suppress(LitebertError, OSError):
                changed = max(
                    path.stat().st_mtime
                    for path in (RunFolder(folder).run_file, RunFolder(folder).metrics_file)
                    if path.exists()
                )
                listed.append({"id": name, "kind": read_kind(folder), "changed": changed})
        return sorted(listed, key=lambda run: -run["changed"])[:_MOST_RUNS]

    def _run_folders(self) -> dict[str, Path]:
        """Runs by their names: their path below the watched folder."""
        if self.settings.runs is None:
            return {}
        root = Path(self.settings.runs)
        return {str(folder.relative_to(root)): folder for folder in find_runs(root)}

    async def read_run(self, name: str) -> dict[str, Any]:
        """A run: what it is, how far it is, and its curves."""
        folder = (await asyncio.to_thread(self._run_folders)).get(name)
        if folder is None:
            raise ApiError(404, f"there is no run {name!r} here: see /v1/runs", "run_not_found")
        return await asyncio.to_thread(self._read_run, name, folder)

    def _read_run(self, name: str, folder: Path) -> dict[str, Any]:
        kind = read_kind(folder)
        run = read_run(folder, kind)
        every = max(1, len(run.steps) // _CURVES)
        return {
            "id": name,
            "kind": kind,
            "state": run.state,
            "config": run.part("config"),
            "last": run.last,
            "steps": run.steps[::every] + run.steps[-1:],
            "evaluations": run.evaluations,
        }

    # --- grids of the lab ------------------------------------------------------------------------------------------

    async def list_labs(self) -> list[dict[str, Any]]:
        """The finished grids in the watched folder, the newest first."""
        return await asyncio.to_thread(self._list_labs)

    def _list_labs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        for name, lab in self._labs().items():
            with contextlib.suppress(LitebertError, OSError):
                listed.append({"id": name, "changed": lab.changed})
        return sorted(listed, key=lambda lab: -lab["changed"])[:_MOST_LABS]

    def _labs(self) -> dict[str, LabFolder]:
        return {} if self.settings.runs is None else find_labs(Path(self.settings.runs))

    async def read_lab(self, name: str) -> dict[str, Any]:
        """A grid with its tables."""
        lab = await self._find_lab(name)

        def read() -> dict[str, Any]:
            report = f"/labs/{quote(name)}/report.html"
            return {"id": name, "changed": lab.changed, "table": lab.read_table(), "report": report}

        return await _read(read, name)

    async def read_report(self, name: str) -> bytes:
        """The page that a grid has of its own."""
        return await _read((await self._find_lab(name)).read_report, name)

    async def _find_lab(self, name: str) -> LabFolder:
        """By a name that was found: nothing of it becomes a path."""
        lab = (await asyncio.to_thread(self._labs)).get(name)
        if lab is None:
            raise _no_lab(name)
        return lab


def _no_lab(name: str) -> ApiError:
    return ApiError(404, f"there is no grid {name!r} here: see /v1/labs", "lab_not_found")


async def _read(read: Callable[[], Read], name: str) -> Read:
    """What is read of a grid, which may be gone by now or lie elsewhere."""
    try:
        return await asyncio.to_thread(read)
    except (LitebertError, OSError):
        raise _no_lab(name) from None
