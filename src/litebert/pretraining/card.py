"""The part of a model card that says how the weights were trained, and what they can do."""

from litebert.corpus.corpus import TRAIN, Corpus
from litebert.pretraining.config import PretrainConfig
from litebert.training.state import TrainingState

__all__ = ["describe_training"]

_TASKS = {"sop": "masked words and sentence order", "nsp": "masked words and next sentence", "none": "masked words"}


def describe_training(config: PretrainConfig, corpus: Corpus, state: TrainingState) -> str:
    """Two tables in Markdown: how it was trained, and how it does on held-out text."""
    train, optim, text = config.train, config.train.optim, corpus.num_tokens(TRAIN)
    stages = " → ".join(
        f"{stage.depth or config.model.num_layers} × {stage.length or config.stream.length}" for stage in train.stages
    )
    rows = {
        "task": _TASKS[config.stream.pairs],
        "text": f"{text:,} tokens, read {state.tokens / max(text, 1):.1f} times",
        "steps": f"{state.step:,}, {state.tokens:,} tokens in {state.seconds / 60:.1f} minutes",
        "batch": f"{train.batch_size_of(len(train.stages) - 1)} rows",
        "stages (depth × length)": stages,
        "optimiser": f"{optim.optimizer}, learning rate {optim.lr:g}, weight decay {optim.weight_decay:g}",
        "masked": f"{config.stream.mask_rate:.0%} of the tokens, up to {config.stream.max_ngram} words at a time",
    }
    lines = ["## Training", "", "| | |", "|-|-|", *(f"| {name} | {value} |" for name, value in rows.items())]
    if scores := state.scores:
        lines += ["", "## Evaluation", ""]
        lines += [f"On {scores['num_words']:,.0f} masked tokens in documents that training never saw:", ""]
        lines += ["| | |", "|-|-|", f"| masked words right | {scores['words_accuracy']:.1%} |"]
        lines += [f"| their loss | {scores['words_loss']:.3f} |"]
        if "sentence_accuracy" in scores:
            lines += [f"| sentence task right | {scores['sentence_accuracy']:.1%} (chance is 50 %) |"]
    return "\n".join(lines) + "\n"
