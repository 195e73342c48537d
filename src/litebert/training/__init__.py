"""Losses now; optimisers and the one training loop with pretraining."""
