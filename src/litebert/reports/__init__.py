"""Pages about what happened: pretraining runs, fine-tuning runs, comparisons."""
