"""Clients of others get from the server what `embed` gives; those that are not installed are skipped."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import litebert
from tests.serve.test_server import serving

MODEL, KEY = "litebert-en", "a-key"
TEXTS = ["the river crossed the city", "three apples and a café", "", "nobody measured the bridge", "a cat on a mat"]
QUERY, DOCUMENTS = TEXTS[3], [TEXTS[0], TEXTS[1], TEXTS[3], TEXTS[4]]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server that wants a key, in a process of its own."""
    with serving(MODEL, "--api-key", KEY) as (address, _):
        yield address


@pytest.fixture(scope="module")
def vectors() -> Any:
    return litebert.load(MODEL).embed(TEXTS)


@pytest.fixture(scope="module")
def ranked() -> list[tuple[int, float]]:
    """The documents as reranking should order them, with their scores."""
    cosines = litebert.load(MODEL).similarity([QUERY], DOCUMENTS)[0]
    return [(int(n), float(1 + cosines[n]) / 2) for n in np.argsort(-cosines, kind="stable")]


def assert_same(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found, np.float32), wanted)


def assert_ranked(found: list[tuple[int, float]], wanted: list[tuple[int, float]]) -> None:
    assert [index for index, _ in found] == [index for index, _ in wanted]
    scores = [score for _, score in found]
    np.testing.assert_allclose(scores, [score for _, score in wanted], atol=1e-5)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def vectors_of(answer: Any) -> list[Any]:
    assert [one.index for one in answer.data] == list(range(len(answer.data)))
    return [one.embedding for one in answer.data]


def test_openai_vectors(address: str, vectors: Any) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)
    create = client.embeddings.create
    assert_same(vectors_of(create(model=MODEL, input=TEXTS)), vectors)  # base64 on the way
    assert_same(vectors_of(create(model=MODEL, input=TEXTS, encoding_format="float")), vectors)
    assert_same(vectors_of(create(model=MODEL, input="")), vectors[2:3])
    cut = litebert.load(MODEL).embed(TEXTS, dimensions=64)
    assert_same(vectors_of(create(model=MODEL, input=TEXTS, dimensions=64)), cut)
    assert [one.id for one in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL

    async def ask() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as later:
            return await asyncio.gather(*[later.embeddings.create(model=MODEL, input=text) for text in TEXTS])

    assert_same([vectors_of(answer)[0] for answer in asyncio.run(ask())], vectors)


def test_openai_takes_2048_texts(address: str) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)
    many = [f"text {number}" for number in range(2048)]
    assert_same(vectors_of(client.embeddings.create(model=MODEL, input=many)), litebert.load(MODEL).embed(many))


def test_openai_errors(address: str) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)
    stranger = openai.OpenAI(base_url=f"{address}/v1", api_key="another", max_retries=0)
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (client, openai.NotFoundError, {"model": "모델", "input": "a"}, "model_not_found"),
        (client, openai.BadRequestError, {"model": MODEL, "input": [1, 2]}, "token_ids"),
        (client, openai.BadRequestError, {"model": MODEL, "input": [[1, 2]]}, "token_ids"),
        (client, openai.UnprocessableEntityError, {"model": MODEL, "input": ["a"] * 2049}, "too_many_inputs"),
        (client, openai.UnprocessableEntityError, {"model": MODEL, "input": []}, "invalid_value"),
        (stranger, openai.AuthenticationError, {"model": MODEL, "input": "a"}, "invalid_api_key"),
    ]
    for who, kind, body, code in cases:
        with pytest.raises(kind) as caught:
            who.embeddings.create(**body)
        assert caught.value.code == code
        assert caught.value.request_id


def test_langchain_vectors(address: str, vectors: Any) -> None:
    openai = pytest.importorskip("langchain_openai")
    how = {"model": MODEL, "base_url": f"{address}/v1", "api_key": KEY, "check_embedding_ctx_length": False}
    client = openai.OpenAIEmbeddings(**how)
    assert_same(client.embed_documents(TEXTS), vectors)
    assert_same(client.embed_query(TEXTS[0]), vectors[0])


def test_llama_index_vectors(address: str, vectors: Any) -> None:
    like = pytest.importorskip("llama_index.embeddings.openai_like")
    client = like.OpenAILikeEmbedding(model_name=MODEL, api_base=f"{address}/v1", api_key=KEY)
    assert_same(client.get_text_embedding_batch(TEXTS), vectors)
    assert_same(client.get_query_embedding(TEXTS[0]), vectors[0])


def test_cohere_reranks(address: str, ranked: list[tuple[int, float]]) -> None:
    cohere = pytest.importorskip("cohere")
    objects = [{"text": text, "id": "1"} for text in DOCUMENTS]
    for make in (cohere.ClientV2, cohere.Client):
        client = make(base_url=address, api_key=KEY)
        for documents in (DOCUMENTS, objects):
            found = client.rerank(model=MODEL, query=QUERY, documents=documents, top_n=3).results
            assert_ranked([(one.index, one.relevance_score) for one in found], ranked[:3])
        with pytest.raises(cohere.NotFoundError):
            client.rerank(model="none", query=QUERY, documents=DOCUMENTS)
    first = cohere.Client(base_url=address, api_key=KEY)
    found = first.rerank(model=MODEL, query=QUERY, documents=objects, return_documents=True).results
    assert [one.document.text for one in found] == [DOCUMENTS[index] for index, _ in ranked]


def test_langchain_reranks(address: str, ranked: list[tuple[int, float]]) -> None:
    cohere = pytest.importorskip("langchain_cohere")
    client = cohere.CohereRerank(model=MODEL, cohere_api_key=KEY, base_url=address, top_n=3)
    found = client.rerank(DOCUMENTS, QUERY)
    assert_ranked([(one["index"], one["relevance_score"]) for one in found], ranked[:3])


@pytest.mark.parametrize("name", ["cohere_rerank", "tei_rerank"])
def test_llama_index_reranks(address: str, ranked: list[tuple[int, float]], name: str) -> None:
    module = pytest.importorskip(f"llama_index.postprocessor.{name}")
    schema = pytest.importorskip("llama_index.core.schema")
    if name == "cohere_rerank":
        client = module.CohereRerank(api_key=KEY, model=MODEL, top_n=3, base_url=address)
    else:
        how = {"base_url": address, "model_name": MODEL, "top_n": 3, "auth_token": f"Bearer {KEY}"}
        client = module.TextEmbeddingInference(**how)
    nodes = [schema.NodeWithScore(node=schema.TextNode(text=text), score=0.0) for text in DOCUMENTS]
    found = client.postprocess_nodes(nodes, query_str=QUERY)
    assert_ranked([(DOCUMENTS.index(one.text), one.score) for one in found], ranked[:3])


def test_javascript_vectors(address: str, vectors: Any) -> None:
    """Needs node, and a folder with the package openai in NODE_PATH."""
    node = shutil.which("node")
    if node is None or subprocess.run([node, "-e", "require('openai')"], capture_output=True).returncode:
        pytest.skip("needs node and openai of npm")
    script = """
        const { OpenAI } = require('openai');
        const [address, key, model, texts] = JSON.parse(process.argv[1]);
        const client = new OpenAI({ baseURL: address + '/v1', apiKey: key, maxRetries: 0 });
        (async () => {
          const found = [];
          for (const how of [{}, { encoding_format: 'float' }])
            found.push((await client.embeddings.create({ model, input: texts, ...how })).data.map((d) => d.embedding));
          const error = await client.embeddings.create({ model: 'none', input: 'a' }).catch((e) => e);
          console.log(JSON.stringify([...found, [error.status, error.code, error.param]]));
        })();
    """
    given = json.dumps([address, KEY, MODEL, TEXTS])
    done = subprocess.run([node, "-e", script, given], capture_output=True, text=True, check=True, timeout=60)
    default, floats, error = json.loads(done.stdout)
    assert_same(default, vectors)
    assert_same(floats, vectors)
    assert error == [404, "model_not_found", "model"]


def test_sentence_transformers_reads_the_folder(vectors: Any) -> None:
    package = pytest.importorskip("sentence_transformers")
    folder = litebert.load(MODEL).members[0].folder
    found = package.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(found, vectors, atol=1e-5)
