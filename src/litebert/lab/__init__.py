"""The lab: the paper's tables and figures as declarative files, and one grid runner for them and for your own."""
