"""Planning and studying models: what they cost, before and after they run."""
