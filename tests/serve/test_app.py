"""The API: answers equal those of `load(...)`, in the shapes that clients know; what cannot be is said in theirs."""

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.inference.load import load, normalize
from tests.conftest import need

TEXTS = ["two sailors crossed the bridge", "", "nobody", "the river " * 200]
LONG = "the river " * 200


def post(client: Any, path: str, status: int = 200, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def fails(client: Any, path: str, status: int, **body: Any) -> dict[str, Any]:
    found = post(client, path, status, **body)
    assert set(found) == {"error"}
    assert set(found["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = found["error"]
    assert error["message"]
    return error


# --- vectors -------------------------------------------------------------------------------------------------------


def test_embeddings_are_those_of_embed_to_the_bit(client: Any, model_folders: dict[str, Path]) -> None:
    with pytest.warns(UserWarning, match="only the beginning"):
        expected = load(model_folders["vectors"]).embed(TEXTS)
    found = post(client, "/v1/embeddings", input=TEXTS, model="vectors", encoding_format="base64")
    assert (found["object"], found["model"], found["truncated"]) == ("list", "vectors", [3])
    assert [one["index"] for one in found["data"]] == [0, 1, 2, 3]
    for one, vector in zip(found["data"], expected, strict=True):
        assert one["object"] == "embedding"
        np.testing.assert_array_equal(np.frombuffer(base64.b64decode(one["embedding"]), "<f4"), vector)
    floats = post(client, "/v1/embeddings", input=TEXTS[0], model="vectors")
    np.testing.assert_array_equal(np.array(floats["data"][0]["embedding"], np.float32), expected[0])
    assert "truncated" not in floats
    tokens = load(model_folders["vectors"]).encode(TEXTS).lengths()
    assert found["usage"] == {"prompt_tokens": int(tokens.sum()), "total_tokens": int(tokens.sum())}


def test_dimensions_are_those_that_were_taught(client: Any, model_folders: dict[str, Path]) -> None:
    pipeline = load(model_folders["vectors"])
    found = post(client, "/v1/embeddings", input="nobody", model="vectors", dimensions=8)["data"][0]["embedding"]
    np.testing.assert_array_equal(np.array(found, np.float32), pipeline.embed("nobody", dimensions=8))
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-6)
    assert len(post(client, "/v1/embeddings", input="a", model="vectors", dimensions=24)["data"][0]["embedding"]) == 24
    assert "8, 16, 24" in fails(client, "/v1/embeddings", 400, input="a", model="vectors", dimensions=12)["message"]
    assert fails(client, "/v1/embeddings", 400, input="a", model="classification", dimensions=8)
    deep = post(client, "/v1/embeddings", input="nobody", model="vectors", depth=1)["data"][0]["embedding"]
    np.testing.assert_array_equal(np.array(deep, np.float32), pipeline.embed("nobody", depth=1))
    assert "depth" in fails(client, "/v1/embeddings", 400, input="a", model="vectors", depth=9)["message"]


def test_the_openai_client_gets_the_same_vectors(client: Any, model_folders: dict[str, Path]) -> None:
    openai = need("openai")
    caller = openai.OpenAI(api_key="none", base_url="http://testserver/v1", http_client=client)
    found = caller.embeddings.create(input=["nobody", "a café"], model="vectors")
    expected = load(model_folders["vectors"]).embed(["nobody", "a café"])
    np.testing.assert_array_equal(np.array([one.embedding for one in found.data], np.float32), expected)
    assert [one.id for one in caller.models.list()] == list(model_folders)
    with pytest.raises(openai.NotFoundError, match="choose one of vectors"):
        caller.embeddings.create(input="a", model="gpt")
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        caller.embeddings.create(input=[[1, 2]], model="vectors")


def test_similarity_and_search(client: Any, model_folders: dict[str, Path]) -> None:
    pipeline = load(model_folders["vectors"])
    found = post(client, "/v1/similarity", texts=["nobody", "a café"], others="the river", model="vectors")
    np.testing.assert_allclose(
        found["similarity"], pipeline.similarity(["nobody", "a café"], ["the river"]), rtol=0, atol=1e-6
    )
    square = np.array(post(client, "/v1/similarity", texts=["nobody", "a café"])["similarity"])
    assert square.shape == (2, 2)
    np.testing.assert_allclose(np.diag(square), 1, atol=1e-6)
    texts = ["three apples", "the bridge", "a café", "nobody"]
    (best, second) = post(client, "/v1/search", query="the bridge", texts=texts, top=2)["results"]
    assert (best["index"], best["text"]) == (1, "the bridge")
    assert best["score"] == pytest.approx(1, abs=1e-6)
    assert best["score"] >= second["score"]
    assert client.get("/v1/indexes").json()["data"] == [{"id": "places", "passages": 3}]
    both = post(client, "/v1/search", query=["three apples and a café", "nobody measured the bridge"], top=1)
    assert [row[0]["location"] for row in both["results"]] == ["1", "2"]
    assert fails(client, "/v1/search", 404, query="a", index="none")["code"] == "index_not_found"


def test_reranking_in_the_shapes_of_others(client: Any, model_folders: dict[str, Path]) -> None:
    documents = ["three apples", "the bridge", "a café"]
    pipeline = load(model_folders["vectors"])
    cosines = normalize(pipeline.embed(documents)) @ normalize(pipeline.embed("the bridge"))
    expected = np.argsort(-cosines)
    found = post(client, "/v1/rerank", query="the bridge", documents=[{"text": one} for one in documents], top_n=2)
    assert [one["index"] for one in found["results"]] == expected[:2].tolist()
    scores = [one["relevance_score"] for one in found["results"]]
    np.testing.assert_allclose(scores, (1 + cosines[expected[:2]]) / 2, atol=1e-6)
    assert found["usage"]["total_tokens"] > 0
    assert "document" not in found["results"][0]
    second = post(client, "/v2/rerank", query="the bridge", documents=documents, return_documents=True, model="vectors")
    assert [one["document"]["text"] for one in second["results"]] == [documents[n] for n in expected]
    bare = post(client, "/rerank", query="the bridge", texts=documents, return_text=True)
    assert [one["index"] for one in bare] == expected.tolist()
    assert all(0 <= one["score"] <= 1 and one["text"] == documents[one["index"]] for one in bare)


# --- what models were trained for ------------------------------------------------------------------------------------


def test_answers_are_those_of_predict(client: Any, model_folders: dict[str, Path]) -> None:
    texts = ["two sailors crossed the bridge", "nobody"]
    for name, path in (("classification", "/v1/classify"), ("tagging", "/v1/tag")):
        pipeline = load(model_folders[name])
        found = post(client, path, input=texts)
        assert found["model"] == name
        for one, expected in zip(found["results"], pipeline.predict(texts), strict=True):
            assert one == {
                key: list(value) if isinstance(value, tuple) else value for key, value in vars(expected).items()
            }
    (pair,) = post(client, "/v1/classify", input="nobody", pairs="a café", model="pairs")["results"]
    assert post(client, "/v1/classify", input="nobody", pairs="a café") == {"model": "pairs", "results": [pair]}
    assert pair["label"] == load(model_folders["pairs"]).predict(("nobody", "a café")).label
    value = post(client, "/v1/predict", input=[texts[0]], model="regression")["results"][0]["value"]
    assert value == pytest.approx(load(model_folders["regression"]).predict(texts[0]))
    question = {"question": "when", "context": "two sailors crossed the bridge in 1984 ."}
    answer = post(client, "/v1/answer", **question)["results"][0]
    assert answer == vars(load(model_folders["questions"]).answer(**question))
    choice = {"passage": "nobody", "question": "who", "options": ["nobody", "a café"]}
    chosen = post(client, "/v1/choose", **choice)["results"][0]
    assert chosen["index"] == load(model_folders["choice"]).choose(**choice).index


def test_a_text_that_is_too_long_is_answered_and_said_to_be_cut(client: Any) -> None:
    assert post(client, "/v1/classify", input=["nobody", LONG])["truncated"] == [1]
    assert post(client, "/v1/predict", input=LONG, model="regression")["truncated"] == [0]
    assert post(client, "/v1/fill-mask", input=f"[MASK] {LONG}")["results"][0]["truncated"] is True
    assert post(client, "/v1/order", first="nobody", second=LONG)["truncated"] is True
    assert post(client, "/v1/inspect", input=LONG, model="vectors")["truncated"] is True
    assert "truncated" not in post(client, "/v1/classify", input="nobody")


def test_a_pretrained_model_fills_masks_and_tells_the_order(client: Any, model_folders: dict[str, Path]) -> None:
    pipeline = load(model_folders["pretrained"])
    found = post(client, "/v1/fill-mask", input=["the [MASK] river", "a [MASK] [MASK]"], top=3)
    assert (found["model"], [len(one["masks"]) for one in found["results"]]) == ("pretrained", [1, 2])
    (expected,) = pipeline.fill_mask("the [MASK] river", top=3)
    assert [one["text"] for one in found["results"][0]["masks"][0]] == [one.text for one in expected]
    share = post(client, "/v1/order", first="nobody", second="a café")["probability"]
    assert share == pytest.approx(pipeline.order("nobody", "a café"))
    assert "[MASK]" in fails(client, "/v1/fill-mask", 400, input="no mask")["message"]


def test_what_happens_inside(client: Any, model_folders: dict[str, Path]) -> None:
    import torch

    found = post(client, "/v1/inspect", input="two sailors crossed the bridge", model="pretrained")
    pipeline = load(model_folders["pretrained"])
    encoded = pipeline.tokenizer.encode(["two sailors crossed the bridge"])
    assert found["tokens"] == [pipeline.tokenizer.piece(int(one)) for one in encoded.input_ids[0]]
    attention = np.array(found["attention"])
    assert attention.shape == (2, 3, len(found["tokens"]), len(found["tokens"]))
    np.testing.assert_allclose(attention.sum(-1), 1, atol=0.02)
    transformers = need("transformers")
    peer = transformers.AutoModel.from_pretrained(model_folders["pretrained"], attn_implementation="eager").eval()
    tensors = {name: torch.from_numpy(one) for name, one in encoded.arrays().items()}
    with torch.inference_mode():
        outputs = peer(**tensors, output_attentions=True, output_hidden_states=True)
    expected = torch.cat(outputs.attentions).numpy()
    np.testing.assert_allclose(attention, expected, atol=1e-3)
    states = [one[0].numpy() for one in outputs.hidden_states]
    distances = [np.linalg.norm(b - a, axis=-1).mean() for a, b in itertools.pairwise(states)]
    np.testing.assert_allclose(found["distances"], distances, rtol=1e-4)
    assert (found["answers"], found["exit"]) == ([], None)
    text = "two sailors crossed the bridge"
    answers = post(client, "/v1/inspect", input=text, model="classification")["answers"]
    label = load(model_folders["classification"]).classify(text)
    assert (answers[-1]["label"], answers[-1]["probability"]) == (
        label.label,
        pytest.approx(label.probability, abs=1e-4),
    )
    assert len(answers) == 2


# --- models, runs, state ---------------------------------------------------------------------------------------------


def test_models_say_what_they_can_do(client: Any) -> None:
    listed = {one["id"]: one for one in client.get("/v1/models").json()["data"]}
    assert listed["vectors"]["abilities"] == ["embed"]
    assert listed["pretrained"]["abilities"] == ["embed", "fill-mask", "order"]
    assert listed["classification"]["abilities"] == ["embed", "predict", "classify"]
    assert listed["classification"]["task"]["labels"] == ["ashore", "at sea"]
    shape = client.get("/v1/models/vectors").json()["architecture"]
    assert shape["layers"] == [[0, 0], [0, 0]]
    assert sum(shape["parameters"].values()) < sum(shape["bert_parameters"].values())
    assert client.get("/v1/models/none").status_code == 404
    assert (
        "was not trained for classify, but for embed"
        in fails(client, "/v1/classify", 400, input="a", model="vectors")["message"]
    )


def test_runs_are_listed_and_read_by_name_alone(client: Any) -> None:
    runs = {one["id"]: one for one in client.get("/v1/runs").json()["data"]}
    assert runs["classification"]["kind"] == "fine-tuning"
    run = client.get("/v1/runs/classification").json()
    assert (run["state"], run["steps"][-1]["step"]) == ("finished", 3)
    assert run["config"]["train"]["steps"] == 3
    for name in ("..", "../classification", "%2e%2e/classification", "/etc", "none"):
        assert client.get(f"/v1/runs/{name}").status_code in (404, 405)


def test_health_ready_metrics_and_the_schema(client: Any) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json()["status"] == "ready"
    post(client, "/v1/embeddings", input=["a", "b"], model="vectors")
    text = client.get("/metrics").text
    for name in (
        'litebert_requests_total{path="/v1/embeddings",status="200"}',
        'litebert_batch_inputs_count{model="vectors"}',
        'litebert_queue_tokens{model="vectors"} 0.0',
        'litebert_tokens_total{model="vectors"}',
        "litebert_requests_in_flight",
    ):
        assert name in text
    assert "/v1/embeddings" in client.get("/openapi.json").json()["paths"]


def test_answers_have_the_shape_that_the_schema_promises(client: Any) -> None:
    """Nothing more and nothing less: what the shape does not name would be lost on the way through it."""
    from pydantic import TypeAdapter

    from litebert.serve import answers
    from tests.serve.test_soak import GOOD

    shapes: dict[str, Any] = {
        "/health": answers.Health,
        "/ready": answers.Ready,
        "/v1/models": answers.Listed[answers.ListedModel],
        "/v1/models/classification": answers.ModelDetails,
        "/v1/indexes": answers.Listed[answers.ListedIndex],
        "/v1/runs": answers.Listed[answers.ListedRun],
        "/v1/runs/classification": answers.RunDetails,
        "/v1/embeddings": answers.Embeddings,
        "/v1/similarity": answers.Similarities,
        "/v1/search": answers.FoundPassages,
        "/v1/rerank": answers.Reranked,
        "/v2/rerank": answers.Reranked,
        "/rerank": list[answers.ScoredText],
        "/v1/classify": answers.ClassifiedTexts,
        "/v1/tag": answers.TaggedTexts,
        "/v1/answer": answers.FoundAnswers,
        "/v1/choose": answers.ChosenOptions,
        "/v1/predict": answers.Predictions,
        "/v1/fill-mask": answers.FilledTexts,
        "/v1/order": answers.OrderedTexts,
        "/v1/inspect": answers.Inside,
    }
    schema = client.get("/openapi.json").json()
    for path, shape in shapes.items():
        answer = client.post(path, json=GOOD[path]) if path in GOOD else client.get(path)
        assert answer.status_code == 200
        adapter = TypeAdapter(shape)
        kept = adapter.dump_python(adapter.validate_json(answer.content), mode="json", exclude_unset=True)
        assert kept == answer.json(), path
        described = path.replace("/classification", "/{name}")
        (operation,) = schema["paths"][described].values()
        assert operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert operation["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")
    texts = post(client, "/v1/embeddings", input=[LONG], model="vectors", encoding_format="base64")
    assert answers.Embeddings(**texts).model_dump(exclude_unset=True) == texts
    assert answers.Problem(**client.get("/nowhere").json()).error.type == "not_found_error"
    assert "securitySchemes" not in schema["components"]


# --- what cannot be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": []},
        {"input": 5},
        {"input": None},
        {"input": {"text": "a"}},
        {"input": ["a", 1]},
        {"input": "a", "encoding_format": "hex"},
        {"input": "a", "dimensions": 0},
        {"input": "a", "model": 7},
        {"input": ["a"] * 101},
    ],
)
def test_embeddings_that_do_not_fit(client: Any, body: dict[str, Any]) -> None:
    assert fails(client, "/v1/embeddings", 422, **body)["type"] == "invalid_request_error"


def test_hostile_bodies_are_refused_in_a_sentence(client: Any) -> None:
    headers = {"content-type": "application/json"}
    deep = b'{"input": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    for body in (b"", b"{", b"[]", b"null", b'"a"', b"\xff\xfe", deep, b'{"input": NaN}', b'{"input": 1e999}'):
        answer = client.post("/v1/embeddings", content=body, headers=headers)
        assert answer.status_code in (400, 422), (body[:40], answer.text)
        assert answer.json()["error"]["message"]
    assert (
        client.post("/v1/embeddings", content=b'{"input": "a"}', headers={"content-type": "text/plain"}).status_code
        == 422
    )
    assert client.post("/v1/classify", json={"input": "a", "unknown": 1}).status_code == 422
    assert client.post("/v1/search", json={"query": "a", "top": 10**30}).status_code == 422
    assert fails(client, "/v1/embeddings", 413, input=["words " * 1000] * 15)["code"] == "too_many_tokens"
    assert client.get("/v1/embeddings").json()["error"]["message"] == "this path takes another method: see /docs"
    assert client.get("/nowhere").json()["error"]["message"] == "there is no such path: see /docs"


def test_a_million_wrong_items_are_refused_at_once(client: Any) -> None:
    from pydantic import ValidationError

    from litebert.serve.schemas import ClassifyRequest, EmbeddingsRequest, RerankRequest

    for kind, content in (
        (EmbeddingsRequest, {"input": [{}] * 1_000_000}),
        (EmbeddingsRequest, {"input": ["a"] * 1_000_000 + [1]}),
        (RerankRequest, {"query": "a", "documents": [{}] * 1_000_000}),
        (ClassifyRequest, {"input": "a", **dict.fromkeys(map(str, range(100_000)))}),
    ):
        with pytest.raises(ValidationError) as refused:
            kind(**content)
        assert refused.value.error_count() == 1


def test_small_matters_of_clients(client: Any) -> None:
    assert len(post(client, "/v1/embeddings", input="a", encoding_format=None, dimensions=None)["data"]) == 1
    assert post(client, "/v1/rerank", query="a", documents=["b"], return_documents=None, top_n=None)["results"]
    assert len(post(client, "/v1/similarity", texts=["a"] * 60)["similarity"]) == 60
    assert fails(client, "/v1/rerank", 422, query="a", documents=["b"] * 101)["param"] == "documents"
    error = fails(client, "/v1/embeddings", 400, input="a", model="vectors", dimensions=12)
    assert (error["param"], error["code"]) == ("dimensions", "invalid_value")
    assert "not empty" in fails(client, "/v1/embeddings", 422, input=[])["message"]
    plain = client.post("/v1/embeddings", content=b"{}", headers={"content-type": "text/plain"})
    assert "content-type: application/json" in plain.json()["error"]["message"]
    assert (
        client.head("/health").status_code == client.head("/").status_code == client.head("/ready").status_code == 200
    )
    assert "no model 'org/name'" in client.get("/v1/models/org%2Fname").json()["error"]["message"]
    assert fails(client, "/v1/search", 400, query="a", index="places", model="pretrained")["param"] == "model"


def test_half_a_pair_of_surrogates_goes_through_and_comes_back(client: Any) -> None:
    headers, odd = {"content-type": "application/json"}, "caf\udce9"
    body = json.dumps({"query": odd, "documents": [odd, "a"], "return_documents": True})
    answer = client.post("/v1/rerank", content=body, headers=headers)
    assert answer.status_code == 200
    assert odd in [one["document"]["text"] for one in json.loads(answer.content)["results"]]
    assert client.post("/v1/tag", content=json.dumps({"input": odd}), headers=headers).status_code == 200


def test_an_error_of_our_own_tells_nothing_about_the_inside(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from litebert.serve import models

    def fail(*given: Any, **more: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(models, "inspect_text", fail)
    answer = client.post("/v1/inspect", json={"input": "a", "model": "vectors"})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["error"]["type"] == "server_error"
