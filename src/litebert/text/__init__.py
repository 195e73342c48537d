"""From raw text to token ids."""
