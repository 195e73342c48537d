"""A fine-tuning run with all that it leaves: weights, figures, answers, and a page about them."""

from collections.abc import Callable
from pathlib import Path

from litebert.reports.finetuning import write_task_report
from litebert.tasks.config import FinetuneConfig
from litebert.tasks.finetune import finetune
from litebert.tasks.predictor import open_predictor
from litebert.tasks.results import evaluate_splits, write_results
from litebert.tasks.task import Dataset
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import News, Outcome

__all__ = ["tune"]


def tune(
    data: Dataset,
    out: Path,
    config: FinetuneConfig,
    tokenizer: Tokenizer,
    *,
    resume: bool = False,
    is_main: bool = True,
    on_step: Callable[[News], None] | None = None,
    on_message: Callable[[str], None] = lambda words: None,
) -> Outcome:
    """Train into a run folder, then score every split whose answers are known; the page is about development."""
    outcome = finetune(data, out, config, tokenizer, resume=resume, on_step=on_step, on_message=on_message)
    if outcome.status == "finished" and is_main:
        results = evaluate_splits(open_predictor(str(out)), data)
        write_results(out, data, results)
        if "dev" in results:
            result = results["dev"]
            write_task_report(out, data.task, data.splits["dev"], result.answers, result.scores)
    return outcome
