"""Readers of task data: official files (GLUE, SQuAD, RACE), own tables, lines as they are typed, predictions."""
