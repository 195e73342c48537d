"""Pretraining: a corpus, a model and a recipe become a run, and the run an encoder."""
