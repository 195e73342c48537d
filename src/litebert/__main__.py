"""`python -m litebert` is the command line."""

from litebert.cli import main

main()
