"""The application: routes in the shapes that clients know, on top of `Service`, which holds the models."""

import base64
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, is_dataclass
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.exceptions import HTTPException

import litebert
from litebert.errors import LitebertError
from litebert.inference.load import cut_vectors, normalize
from litebert.serve import answers
from litebert.serve.batching import OverloadedError
from litebert.serve.errors import ApiError, refusing, render_error
from litebert.serve.gate import OPEN_PATHS, Gate
from litebert.serve.models import Answered, Embedded
from litebert.serve.schemas import (
    AnswerRequest,
    ChooseRequest,
    ClassifyRequest,
    EmbeddingsRequest,
    FillMaskRequest,
    InspectRequest,
    OrderRequest,
    PredictRequest,
    RerankRequest,
    SearchRequest,
    SimilarityRequest,
    TagRequest,
    TeiRerankRequest,
    TokenIds,
)
from litebert.serve.service import Service
from litebert.serve.settings import ServeSettings

__all__ = ["create_app", "create_app_from_environment"]

_PAGE_FILES = {"app.js": "text/javascript", "style.css": "text/css"}
# A report is a page that somebody else wrote: it may look as it likes, and do and load nothing.
_REPORT_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
}
_NOT_TEXTS = (
    "input holds token ids, which are another tokenizer's: send texts (in LangChain, make OpenAIEmbeddings with "
    "check_embedding_ctx_length=False)"
)


class _Json(JSONResponse):
    """JSON in which numbers of 32 bits are as short as they can be."""

    def render(self, content: Any) -> bytes:
        """NumPy arrays are lists, and what is no number is null."""
        try:
            return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
        except TypeError:  # a text with half of a pair of surrogates, which goes back as it came
            return json.dumps(content, default=np.ndarray.tolist).encode("ascii")


def create_app_from_environment() -> Any:
    """The application of a worker process."""
    return create_app(Service(ServeSettings.from_environment()))


def create_app(service: Service, on_ready: Callable[[], None] = lambda: None) -> Gate:
    """The application; models that are not open yet are opened when it starts."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        on_ready()
        yield
        await service.stop()

    app = FastAPI(
        title="litebert",
        version=litebert.__version__,
        description="Lite language encoders behind an API. Errors are `{error: {message, type, param, code}}`.",
        docs_url=None,
        redoc_url=None,
        default_response_class=_Json,
        responses=answers.PROBLEMS,
        lifespan=lifespan,
    )
    app.state.service = service
    _add_errors(app)
    _add_state(app)
    _add_embeddings(app)
    _add_answers(app)
    _add_reranking(app)
    _add_page(app)
    if service.settings.api_key is not None:
        _describe_key(app)
    paths = frozenset(path for route in app.routes if "{" not in (path := getattr(route, "path", "{")))
    return Gate(app, service.settings, service.metrics, paths)


def _describe_key(app: FastAPI) -> None:
    """Say in the schema that requests need the key, but for those of `OPEN_PATHS`."""
    describe = app.openapi

    def describe_with_key() -> dict[str, Any]:
        schema = describe()
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
        for path in OPEN_PATHS & schema["paths"].keys():
            for operation in schema["paths"][path].values():
                operation["security"] = []
        return schema

    app.openapi = describe_with_key  # type: ignore[method-assign]


async def _service(request: Request) -> Service:  # a plain function would run in a thread of its own
    service: Service = request.app.state.service
    return service


Given = Annotated[Service, Depends(_service)]


# --- errors --------------------------------------------------------------------------------------------------------


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def say_what_is_wrong(request: Request, error: ApiError) -> Response:
        return _Json(render_error(error.status, error.message, error.code, error.param), error.status, error.headers)

    @app.exception_handler(OverloadedError)
    async def say_later(request: Request, error: OverloadedError) -> Response:
        app.state.service.metrics.refusals.labels("overloaded").inc()
        message = f"there is more work than can be done in time: try again in {error.retry_after} s"
        return _Json(render_error(429, message, "overloaded"), 429, {"retry-after": str(error.retry_after)})

    @app.exception_handler(LitebertError)
    async def say_what_cannot_be(request: Request, error: LitebertError) -> Response:
        return _Json(render_error(400, str(error)), 400)

    @app.exception_handler(RequestValidationError)
    async def say_what_does_not_fit(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        param = next((str(part) for part in first["loc"][1:] if isinstance(part, str)), None)
        message = str(first["msg"]).removeprefix("Value error, ")
        if first["type"] == "json_invalid":
            message, param = "the body is no JSON", None
        elif tuple(first["loc"]) == ("body",) and first["type"] != "value_error":
            message = "send a JSON object, with content-type: application/json"
        return _Json(render_error(422, f"{param}: {message}" if param else message, "invalid_value", param), 422)

    @app.exception_handler(HTTPException)
    async def say_no(request: Request, error: HTTPException) -> Response:
        message = {
            400: "the body is no JSON that can be read",
            404: "there is no such path: see /docs",
            405: "this path takes another method: see /docs",
        }
        told = message.get(error.status_code, str(error.detail))
        return _Json(render_error(error.status_code, told), error.status_code, dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def say_sorry(request: Request, error: Exception) -> Response:
        return _Json(render_error(500, "something went wrong in the server; its log says what"), 500)


# --- the server and its models ---------------------------------------------------------------------------------------


def _add_state(app: FastAPI) -> None:
    @app.head("/health", include_in_schema=False)
    @app.get("/health", tags=["server"], response_model=answers.Health)
    async def health() -> Any:
        """Whether the process is alive."""
        return _Json({"status": "ok"})

    @app.head("/ready", include_in_schema=False)
    @app.get("/ready", tags=["server"], response_model=answers.Ready)
    async def ready(service: Given) -> Any:
        """Whether it takes requests: after all models are warm, and until it is told to stop."""
        if not service.is_ready:
            raise ApiError(503, "the models are not ready", "not_ready", headers={"retry-after": "1"})
        return _Json({"status": "ready", "models": list(service.models)})

    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def metrics(service: Given) -> Response:
        """For Prometheus."""
        service.update_gauges()
        content, media_type = service.metrics.render()
        return Response(content, media_type=media_type)

    @app.get("/v1/models", tags=["models"], response_model=answers.Listed[answers.ListedModel])
    async def list_models(service: Given) -> Any:
        """All models, and what can be asked of each."""
        return _Json({"object": "list", "data": [_describe(service, name) for name in service.models]})

    @app.get("/v1/models/{name:path}", tags=["models"], response_model=answers.ModelDetails)
    async def describe_model(name: str, service: Given) -> Any:
        """One model, with its architecture."""
        model = service.find(name)
        return _Json({**_describe(service, model.name), "architecture": model.describe_shape()})

    @app.get("/v1/indexes", tags=["models"], response_model=answers.Listed[answers.ListedIndex])
    async def list_indexes(service: Given) -> Any:
        """What can be searched."""
        indexes = [{"id": name, "passages": len(one.index)} for name, one in service.indexes.items()]
        return _Json({"object": "list", "data": indexes})

    @app.get("/v1/runs", tags=["runs"], response_model=answers.Listed[answers.ListedRun])
    async def list_runs(service: Given) -> Any:
        """Training runs in the folder that the server watches."""
        return _Json({"object": "list", "data": await service.list_runs()})

    @app.get("/v1/runs/{name:path}", tags=["runs"], response_model=answers.RunDetails)
    async def describe_run(name: str, service: Given) -> Any:
        """One run: its configuration and its curves."""
        return _Json(await service.read_run(name))

    @app.get("/v1/labs", tags=["runs"], response_model=answers.Listed[answers.ListedLab])
    async def list_labs(service: Given) -> Any:
        """Finished grids of the lab in the folder that the server watches."""
        return _Json({"object": "list", "data": await service.list_labs()})

    @app.get("/v1/labs/{name:path}", tags=["runs"], response_model=answers.Lab)
    async def describe_lab(name: str, service: Given) -> Any:
        """One grid: its tables in Markdown, and where its report is."""
        return _Json(await service.read_lab(name))


def _describe(service: Service, name: str) -> dict[str, Any]:
    model = service.models[name]
    return {"id": name, "object": "model", "created": model.created, "owned_by": "litebert", **model.describe()}


# --- vectors -------------------------------------------------------------------------------------------------------


def _add_embeddings(app: FastAPI) -> None:
    @app.post("/v1/embeddings", tags=["vectors"], response_model=answers.Embeddings)
    async def embeddings(request: EmbeddingsRequest, service: Given) -> Any:
        """Vectors of texts, as OpenAI's clients ask for them."""
        if isinstance(request.input, TokenIds):
            raise ApiError(400, _NOT_TEXTS, "token_ids", "input")
        texts = _as_list(request.input)
        service.check_inputs(texts)
        model = service.find(request.model, "embed")
        with refusing("dimensions"):
            model.check_dimensions(request.dimensions)
        with refusing("depth"):
            model.pipeline.check_vectors(request.depth)
        found = await model.embed(texts, request.depth)
        vectors = cut_vectors(np.stack([one.vector for one in found]), request.dimensions)
        data = [
            {"object": "embedding", "index": index, "embedding": _encode_vector(vector, request.encoding_format)}
            for index, vector in enumerate(vectors)
        ]
        tokens = sum(one.num_tokens for one in found)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _Json({"object": "list", "data": data, "model": model.name, "usage": usage, **_said_cut(found)})

    @app.post("/v1/similarity", tags=["vectors"], response_model=answers.Similarities)
    async def similarity(request: SimilarityRequest, service: Given) -> Any:
        """Cosines of texts with others: a row for each text."""
        model = service.find(request.model, "embed")
        with refusing("depth"):
            model.pipeline.check_vectors(request.depth)
        texts = _as_list(request.texts)
        others = texts if request.others is None else _as_list(request.others)
        together = texts if request.others is None else [*texts, *others]
        service.check_inputs(together, "texts")
        found = await model.embed(together, request.depth)
        vectors = normalize(np.stack([one.vector for one in found]))
        cosines = vectors[: len(texts)] @ vectors[len(together) - len(others) :].T
        return _Json({"model": model.name, "similarity": cosines, **_said_cut(found)})

    @app.post("/v1/search", tags=["vectors"], response_model=answers.FoundPassages)
    async def search(request: SearchRequest, service: Given) -> Any:
        """The passages of an index, or of texts that come along, that lie nearest to a question."""
        queries = _as_list(request.query)
        service.check_inputs([*queries, *(request.texts or [])], "texts")
        found = await service.search(queries, request.index, request.texts, request.model, request.top)
        results = found.results[0] if isinstance(request.query, str) else found.results
        return _Json({"model": found.model, "index": found.index, "results": results})


def _encode_vector(vector: Any, encoding_format: str | None) -> Any:
    if encoding_format != "base64":
        return vector
    return base64.b64encode(np.ascontiguousarray(vector, "<f4").tobytes()).decode("ascii")


def _as_list(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _said_cut(found: Sequence[Embedded | Answered]) -> dict[str, list[int]]:
    """Which inputs were not read whole; nothing if all were."""
    cut = [number for number, one in enumerate(found) if one.truncated]
    return {"truncated": cut} if cut else {}


# --- what models were trained for ------------------------------------------------------------------------------------


def _add_answers(app: FastAPI) -> None:
    @app.post("/v1/classify", tags=["answers"], response_model=answers.ClassifiedTexts)
    async def classify(request: ClassifyRequest, service: Given) -> Any:
        """The class of each text, with the probabilities of all classes."""
        texts: list[Any] = list(_as_list(request.input))
        if request.pairs is not None:
            pairs = _as_list(request.pairs)
            if len(pairs) != len(texts):
                raise ApiError(422, f"{len(texts)} texts and {len(pairs)} pairs do not fit", "invalid_value", "pairs")
            texts = list(zip(texts, pairs, strict=True))
        return await _predict(service, request.model, "classify", texts, request.pairs is not None)

    @app.post("/v1/tag", tags=["answers"], response_model=answers.TaggedTexts)
    async def tag(request: TagRequest, service: Given) -> Any:
        """A tag for each word of each text."""
        return await _predict(service, request.model, "tag", _as_list(request.input))

    @app.post("/v1/answer", tags=["answers"], response_model=answers.FoundAnswers)
    async def answer(request: AnswerRequest, service: Given) -> Any:
        """The part of the context that answers the question."""
        return await _predict(service, request.model, "answer", [request.model_dump(include={"question", "context"})])

    @app.post("/v1/choose", tags=["answers"], response_model=answers.ChosenOptions)
    async def choose(request: ChooseRequest, service: Given) -> Any:
        """The option that fits best."""
        given = request.model_dump(include={"passage", "question", "options"})
        return await _predict(service, request.model, "choose", [given])

    @app.post("/v1/predict", tags=["answers"], response_model=answers.Predictions)
    async def predict(request: PredictRequest, service: Given) -> Any:
        """Whatever the model was fine-tuned for."""
        return await _predict(service, request.model, "predict", request.input)

    @app.post("/v1/fill-mask", tags=["answers"], response_model=answers.FilledTexts)
    async def fill_mask(request: FillMaskRequest, service: Given) -> Any:
        """The likeliest tokens for each mask of each text."""
        texts = _as_list(request.input)
        service.check_inputs(texts)
        model = service.find(request.model, "fill-mask")
        found = await model.ask(("fill-mask", request.top), texts)
        return _Json({"model": model.name, "results": [_as_json(one) for one in found]})

    @app.post("/v1/order", tags=["answers"], response_model=answers.OrderedTexts)
    async def order(request: OrderRequest, service: Given) -> Any:
        """How likely it is that the first text comes before the second."""
        service.check_inputs([request.first, request.second])
        model = service.find(request.model, "order")
        (found,) = await model.ask(("order",), [(request.first, request.second)])
        return _Json({"model": model.name, **_as_json(found)})

    @app.post("/v1/inspect", tags=["answers"], response_model=answers.Inside)
    async def inspect(request: InspectRequest, service: Given) -> Any:
        """What happens to a text inside the model: tokens, how far layers move them, and attention."""
        service.check_inputs([request.input])
        model = service.find(request.model)
        (found,) = await model.ask(("inspect", 48), [request.input])
        answers = [vars(one) for one in found.answers]
        attention = np.round(found.attention, 3).astype(np.float32)
        return _Json({"model": model.name, **vars(found), "attention": attention, "answers": answers})


async def _predict(
    service: Service, name: str | None, ability: Any, inputs: Sequence[Any], of_pairs: bool | None = None
) -> Response:
    service.check_inputs(inputs)
    model = service.find(name, ability, of_pairs)
    found = await model.predict(inputs)
    results = [_as_json(one.answer) for one in found]
    return _Json({"model": model.name, "results": results, **_said_cut(found)})


def _as_json(answer: Any) -> Any:
    """An answer as an object; a number stays one."""
    if not is_dataclass(answer) or isinstance(answer, type):
        return {"value": answer}
    return asdict(answer)


# --- reranking -----------------------------------------------------------------------------------------------------


def _add_reranking(app: FastAPI) -> None:
    @app.post("/v1/rerank", tags=["reranking"], response_model=answers.Reranked)
    async def rerank(request: RerankRequest, service: Given) -> Any:
        """Documents by how well they fit a question, as Cohere's v1 and Jina's clients ask."""
        return await _rerank(request, service, "1")

    @app.post("/v2/rerank", tags=["reranking"], response_model=answers.Reranked)
    async def rerank_v2(request: RerankRequest, service: Given) -> Any:
        """The same as Cohere's v2 asks."""
        return await _rerank(request, service, "2")

    @app.post("/rerank", tags=["reranking"], response_model=list[answers.ScoredText])
    async def rerank_tei(request: TeiRerankRequest, service: Given) -> Any:
        """The same as clients of Text Embeddings Inference ask: the answer is a bare list."""
        _model, ranked, _ = await _rank(service, request.model, request.query, request.texts, "texts")
        texts = request.texts if request.return_text else None
        return _Json([{"index": n, "score": score, **({"text": texts[n]} if texts else {})} for n, score in ranked])


async def _rerank(request: RerankRequest, service: Service, version: str) -> Response:
    documents = request.documents
    model, ranked, tokens = await _rank(service, request.model, request.query, documents, "documents")
    kept = ranked[: request.top_n]
    results: list[dict[str, Any]] = [{"index": n, "relevance_score": score} for n, score in kept]
    if request.return_documents:
        results = [{**one, "document": {"text": documents[one["index"]]}} for one in results]
    return _Json(
        {
            "id": str(uuid.uuid4()),
            "model": model,
            "results": results,
            "meta": {"api_version": {"version": version}, "billed_units": {"search_units": 1}},
            "usage": {"total_tokens": tokens, "prompt_tokens": tokens},
        }
    )


async def _rank(
    service: Service, name: str | None, query: str, documents: list[str], param: str
) -> tuple[str, list[tuple[int, float]], int]:
    """Documents with scores from 0 to 1, the best first: half of 1 + the cosine with the question."""
    service.check_inputs(documents, param)
    model = service.find(name, "embed")
    found = await model.embed([query, *documents])
    vectors = normalize(np.stack([one.vector for one in found]))
    scores = np.clip((1 + vectors[1:] @ vectors[0]) / 2, 0, 1)
    ranked = [(int(n), float(scores[n])) for n in np.argsort(-scores, kind="stable")]
    return model.name, ranked, sum(one.num_tokens for one in found)


# --- the page ------------------------------------------------------------------------------------------------------


def _add_page(app: FastAPI) -> None:
    folder = files("litebert.serve") / "page"
    fresh = {"cache-control": "no-cache"}

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return Response((folder / "index.html").read_bytes(), media_type="text/html", headers=fresh)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return RedirectResponse("/#/api")

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        if name not in _PAGE_FILES:
            raise ApiError(404, "there is no such path: see /docs")
        return Response((folder / name).read_bytes(), media_type=_PAGE_FILES[name], headers=fresh)

    @app.get("/labs/{name:path}/report.html", include_in_schema=False)
    async def report(name: str, service: Given) -> Response:
        return Response(await service.read_report(name), media_type="text/html", headers={**fresh, **_REPORT_HEADERS})
