"""Model folders on disk: the names, configurations and cards that transformers and others use."""
