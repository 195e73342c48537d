"""Grids of the lab: found by the files that they hold, read by their names alone, and shown without trusting them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from litebert.errors import FolderError
from litebert.serve.labs import LabFolder, find_labs
from tests.conftest import need

TABLE = """# Sharing and size

| recipe | layers | accuracy |
|-|-:|:-:|
| all shared | 6 | **88.1** |
| `none` \\| attention | 6 | 87.9 |
| <img src=x onerror=alert(1)> | 6 | [a](javascript:alert(2)) |

Three seeds each.
"""
REPORT = (
    "<!doctype html><title>a grid</title><style>h1 { color: rgb(1, 2, 3); }</style><h1>Sharing</h1>"
    "<script>document.title = 'ran'</script>"
)


def make_lab(folder: Path, table: str = TABLE) -> Path:
    """A folder as the lab leaves it."""
    folder.mkdir(parents=True)
    for name, text in (
        ("grid.json", "{}"),
        ("results.json", "[]"),
        ("table.md", table),
        ("table.csv", "recipe,layers,accuracy\n"),
        ("report.html", REPORT),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_only_finished_grids_are_found(tmp_path: Path) -> None:
    make_lab(tmp_path / "sharing")
    make_lab(tmp_path / "labs" / "sizes")
    for name in ("results.json", "table.md", "report.html"):
        (make_lab(tmp_path / f"no-{name}") / name).unlink()
    assert list(find_labs(tmp_path)) == ["labs/sizes", "sharing"]
    assert find_labs(tmp_path)["sharing"].read_table() == TABLE


def test_a_long_table_ends_with_a_whole_line(tmp_path: Path) -> None:
    make_lab(tmp_path / "long", "| ä | b |\n" * 50_000)
    table = LabFolder(tmp_path / "long", tmp_path).read_table()
    assert 190_000 < len(table.encode()) <= 200_000
    assert set(table.splitlines()) == {"| ä | b |"}
    make_lab(tmp_path / "line", "x" * 300_000)
    assert LabFolder(tmp_path / "line", tmp_path).read_table() == ""


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret", encoding="utf-8")
    for name in ("table.md", "report.html"):
        lab = make_lab(tmp_path / "watched" / name)
        (lab / name).unlink()
        (lab / name).symlink_to(secret)
    labs = find_labs(tmp_path / "watched")
    with pytest.raises(FolderError, match=r"no table\.md of its own"):
        labs["table.md"].read_table()
    with pytest.raises(FolderError, match=r"no report\.html of its own"):
        labs["report.html"].read_report()
    assert labs["report.html"].read_table() == TABLE


@pytest.fixture(scope="module")
def client(model_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    need("fastapi")
    from starlette.testclient import TestClient

    from litebert.serve.app import create_app
    from litebert.serve.service import Service
    from litebert.serve.settings import ServeSettings

    home = tmp_path_factory.mktemp("labs")
    make_lab(home / "runs" / "sharing and size")
    (home / "report.html").write_text("a secret", encoding="utf-8")
    (home / "runs" / "report.html").write_text("a secret", encoding="utf-8")
    (make_lab(home / "runs" / "open") / "results.json").unlink()
    settings = ServeSettings(models={"vectors": str(model_folders["vectors"])}, runs=str(home / "runs"))
    with TestClient(create_app(Service(settings))) as client:
        yield client


def test_grids_are_listed_with_their_tables(client: Any) -> None:
    from litebert.serve import answers

    listed = client.get("/v1/labs").json()
    assert [one["id"] for one in listed["data"]] == ["sharing and size"]
    assert answers.Listed[answers.ListedLab](**listed).model_dump() == listed
    lab = client.get("/v1/labs/sharing and size").json()
    assert (lab["id"], lab["table"]) == ("sharing and size", TABLE)
    assert lab["changed"] == listed["data"][0]["changed"]
    assert answers.Lab(**lab).model_dump() == lab
    assert client.get(lab["report"]).text == REPORT


def test_who_asks_for_what_no_model_can_do_is_told_how_to_get_one(client: Any) -> None:
    for path, body, command in (
        ("/v1/classify", {"input": "a"}, "litebert finetune"),
        ("/v1/fill-mask", {"input": "[MASK]"}, "litebert pretrain"),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == 400
        assert command in answer.json()["error"]["message"]


def test_a_report_may_do_and_load_nothing(client: Any) -> None:
    answer = client.get("/labs/sharing%20and%20size/report.html")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policies = answer.headers.get_list("content-security-policy")
    assert len(policies) == 1, "a second one would forbid its styles"
    rules = dict(rule.strip().partition(" ")[::2] for rule in policies[0].split(";"))
    assert (rules["default-src"], rules["sandbox"]) == ("'none'", "")
    assert "script-src" not in rules
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in client.get("/").headers["content-security-policy"]


@pytest.mark.parametrize("name", ["%2e%2e", "%2e%2e%2fruns", "..%2f..", "%2F", "%00", "open", "none", "sharing"])
def test_nothing_else_is_given_away(client: Any, name: str) -> None:
    for path in (f"/v1/labs/{name}", f"/labs/{name}/report.html", f"/labs/{name}report.html"):
        assert client.get(path).status_code == 404
    for path in ("/labs/report.html", "/labs//report.html", "/labs/sharing and size/table.md"):
        assert client.get(path).status_code == 404


def test_a_key_is_asked_for(model_folders: dict[str, Path], tmp_path: Path) -> None:
    need("fastapi")
    from starlette.testclient import TestClient

    from litebert.serve.app import create_app
    from litebert.serve.service import Service
    from litebert.serve.settings import ServeSettings

    make_lab(tmp_path / "sharing")
    settings = ServeSettings(models={"vectors": str(model_folders["vectors"])}, runs=str(tmp_path), api_key="sesame")
    with TestClient(create_app(Service(settings))) as client:
        for path in ("/v1/labs", "/v1/labs/sharing", "/labs/sharing/report.html"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"authorization": "Bearer sesame"}).status_code == 200
        schema = client.get("/openapi.json").json()
    assert schema["security"] == [{"key": []}]
    assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert schema["paths"]["/health"]["get"]["security"] == []
    assert "security" not in schema["paths"]["/v1/embeddings"]["post"]
