"""From token ids to scores: configuration, blocks, sharing, heads, and the folders that models live in."""
