"""The part of a model card that says what a model was fine-tuned for, and how well it does."""

from litebert.tasks.config import FinetuneConfig
from litebert.training.state import TrainingState

__all__ = ["describe_task"]

_QUESTIONS = {
    "classification": "one label for a text or a pair",
    "multi-label": "any number of labels for a text or a pair",
    "regression": "a score for a text or a pair",
    "tagging": "a tag for each word",
    "questions": "the part of a text that answers a question",
    "choice": "the right one of several options",
}


def describe_task(config: FinetuneConfig, state: TrainingState, num_items: int) -> str:
    """Two tables in Markdown: how it was fine-tuned, and how it does on the development set."""
    task, train, optim = config.task, config.train, config.train.optim
    epochs = state.step * train.batch_size / max(num_items, 1)
    rows = {
        "task": f"{task.name}: {_QUESTIONS[task.kind]}",
        "examples": f"{num_items:,} (long texts count as several), each seen {epochs:.1f} times",
        "steps": f"{state.step:,} of {train.batch_size} examples",
        "optimiser": f"{optim.optimizer}, learning rate {optim.lr:g}, warm-up {optim.warmup:.0%}",
        "dropout": f"{config.model.hidden_dropout:g}, before the classifier {config.model.classifier_dropout:g}",
        "longest row": f"{config.windows.max_length if config.windows else config.max_length} tokens",
        "encoder": "frozen" if config.frozen else "trained",
        "begun with": "random weights" if config.begin_from is None else "a pretrained encoder",
        "seed": str(train.seed),
    }
    lines = ["## Fine-tuning", "", "| | |", "|-|-|", *(f"| {name} | {value} |" for name, value in rows.items())]
    if state.metrics:
        lines += ["", "## Evaluation", "", "On the development set, by which this checkpoint was chosen:", ""]
        lines += ["| | |", "|-|-|", *(f"| {name} | {value:.4g} |" for name, value in state.metrics.items())]
    return "\n".join(lines) + "\n"
