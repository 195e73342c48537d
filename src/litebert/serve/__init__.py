"""Models behind an API that clients already know, and a page to try them."""
