"""From raw text to batches: preparation into shards, and the stream that pairs, masks and packs what it reads."""
