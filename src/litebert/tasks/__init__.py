"""Tasks: what an encoder is fine-tuned for, from files to scores."""
