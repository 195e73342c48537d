"""A fine-tuning run with all that it leaves: weights, figures, answers, and a page about them."""

from pathlib import Path

from litebert.reports.finetuning import write_task_report
from litebert.tasks.config import FinetuneConfig
from litebert.tasks.finetune import finetune
from litebert.tasks.predictor import open_predictor
from litebert.tasks.results import evaluate_splits, write_results
from litebert.tasks.task import Dataset
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import OnMessage, OnStep, RunResult

__all__ = ["tune"]


def tune(
    data: Dataset,
    out: Path,
    config: FinetuneConfig,
    tokenizer: Tokenizer,
    *,
    resume: bool = False,
    is_main: bool = True,
    on_step: OnStep | None = None,
    on_message: OnMessage = lambda message: None,
) -> RunResult:
    """Train into a run folder, then score every split whose answers are known; the page is about development."""
    trained = finetune(data, out, config, tokenizer, resume=resume, on_step=on_step, on_message=on_message)
    if trained.status == "finished" and is_main:
        results = evaluate_splits(open_predictor(str(out)), data)
        write_results(out, data, results)
        if "dev" in results:
            result = results["dev"]
            write_task_report(out, data.task, data.splits["dev"], result.answers, result.scores)
    return trained
