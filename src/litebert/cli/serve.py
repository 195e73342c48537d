"""`litebert serve`: models behind an API, with a page to try them."""

from pathlib import Path
from typing import Annotated

import typer

from litebert.cli.app import app
from litebert.cli.options import checked

__all__ = ["serve"]


@app.command(
    epilog="Examples:  litebert serve\n\nlitebert serve my-run reviews=runs/reviews my-index --port 8080\n\n"
    "curl localhost:8000/v1/embeddings -H 'content-type: application/json' -d '{\"input\": \"a text\"}'"
)
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs, model folders, hub names, NAME=FOLDER, or folders of indexes; the encoder that comes with "
            "litebert and the newest run here if none.",
            envvar="LITEBERT_MODELS",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(envvar="LITEBERT_HOST", help="Where to listen; 0.0.0.0 is open to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="LITEBERT_PORT", min=1, max=65535, help="The port.")] = 8000,
    workers: Annotated[int, typer.Option(envvar="LITEBERT_WORKERS", min=1, help="Processes.")] = 1,
    api_key: Annotated[
        str | None, typer.Option(envvar="LITEBERT_API_KEY", help="A key that clients have to send; none is asked for.")
    ] = None,
    runs: Annotated[
        Path,
        typer.Option(envvar="LITEBERT_RUNS", help="A folder whose runs and grids of the lab the page shows."),
    ] = Path(),
    batch_tokens: Annotated[
        int, typer.Option(envvar="LITEBERT_BATCH_TOKENS", help="Tokens of requests that run together.")
    ] = 2048,
    max_wait: Annotated[
        float,
        typer.Option(envvar="LITEBERT_MAX_WAIT", help="Seconds; a request that would wait longer is refused (429)."),
    ] = 5.0,
    timeout: Annotated[
        float,
        typer.Option(envvar="LITEBERT_TIMEOUT", help="Seconds without progress after which a request is given up."),
    ] = 30.0,
    max_body: Annotated[int, typer.Option(envvar="LITEBERT_MAX_BODY", help="Bytes of a request (413).")] = 2_000_000,
    max_inputs: Annotated[int, typer.Option(envvar="LITEBERT_MAX_INPUTS", help="Texts of a request (422).")] = 2048,
    max_tokens: Annotated[
        int, typer.Option(envvar="LITEBERT_MAX_TOKENS", help="Tokens of a request, about (413).")
    ] = 300_000,
    reload_every: Annotated[
        float,
        typer.Option(envvar="LITEBERT_RELOAD_EVERY", help="Seconds between looks for changed folders; 0 never looks."),
    ] = 2.0,
    access_log: Annotated[
        bool, typer.Option("--access-log", envvar="LITEBERT_ACCESS_LOG", help="Log the path of every request.")
    ] = False,
) -> None:
    """Put models behind an API that clients of OpenAI and Cohere know, with a page to try them."""
    from litebert.runtime import prepare_process

    prepare_process(keeps_memory=False)
    from litebert.errors import RequestError
    from litebert.inference.index import is_index
    from litebert.serve.models import name_models
    from litebert.serve.server import run_server
    from litebert.serve.settings import ServeSettings

    if not runs.is_dir():
        raise RequestError(f"there is no folder {runs}: --runs names a folder with training runs")
    given = models or _choose_models(runs)
    indexes = [one for one in given if is_index(one.partition("=")[2] or one)]
    settings = checked(
        ServeSettings,
        models=name_models([one for one in given if one not in indexes]),
        indexes=name_models(indexes),
        runs=str(runs),
        api_key=api_key or None,
        batch_tokens=batch_tokens,
        max_wait=max_wait,
        timeout=timeout,
        max_body=max_body,
        max_inputs=max_inputs,
        max_tokens=max_tokens,
        reload_every=reload_every,
    )
    names = ", ".join([*settings.models, *settings.indexes])
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def say() -> None:
        typer.echo(
            f"{names} at {address}: a page to try it, and the API (see {address}/docs); Ctrl-C ends it", err=True
        )

    def say_end(taken: int, lost: int) -> None:
        answered = f"{lost:,} clients hung up before their answer" if lost else "all were answered"
        typer.echo(f"ended; {taken:,} requests were taken, {answered}", err=True)

    run_server(settings, host, port, workers, access_log, say, say_end)


def _choose_models(runs: Path) -> list[str]:
    """The encoder of litebert's own, and the newest run that is finished."""
    from litebert.hub import DEFAULT_ENCODER
    from litebert.training.run_folder import RunFolder, find_runs

    finished = [run for run in map(RunFolder, find_runs(runs)) if run.is_finished]
    newest = max(finished, key=lambda run: run.model.stat().st_mtime, default=None)
    return [DEFAULT_ENCODER, *([str(newest.path)] if newest is not None else [])]
