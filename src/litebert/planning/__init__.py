"""What a run will cost, before it runs: memory by arithmetic, speed by a few real steps."""
