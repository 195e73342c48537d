"""`litebert fit`: a linear model on an encoder's vectors, in seconds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.finetune import conclude
from litebert.cli.options import EncoderName, Json, takes
from litebert.cli.task_data import TaskOrFile, layout, reading, show_data, split_reading, splits
from litebert.hub import DEFAULT_ENCODER

__all__ = ["fit"]


@app.command(
    epilog="Examples:  litebert fit reviews.csv --text review --label stars --out reviews-model\n\n"
    "litebert fit sts-b --data glue/STS-B --model my-run"
)
@takes(splits, reading, layout)
def fit(
    task: TaskOrFile,
    model: EncoderName = DEFAULT_ENCODER,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder of the model; TASK-fitted if not given.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Take so many layers of the encoder: fewer are faster.")
    ] = None,
    tf_idf: Annotated[
        bool, typer.Option("--tf-idf/--no-tf-idf", help="Whether words are counted beside the vectors.")
    ] = True,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Let every class count the same, however rare it is.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the linear model.")] = 0,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Learn classes or numbers in seconds: a linear model on the encoder's vectors and on words; nothing is trained."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert import api
    from litebert.cli.progress import showing_progress

    read, _ = split_reading(given)
    dataset = api.read_data(task, **read)
    show_data(dataset, read["label"])
    with showing_progress("fitting", 1000, as_json, fill=False) as show:
        result = api.fit(
            dataset,
            model=model,
            out=out,
            depth=depth,
            tf_idf=tf_idf,
            balanced=balanced,
            seed=seed,
            on_progress=lambda done, total: show(
                900 * done // total, f"{done:,} of {total:,} texts are read" if done < total else "learning from them"
            ),
        )
    conclude(result.folder, dataset, range(1), [result], as_json)
