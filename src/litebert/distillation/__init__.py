"""Distillation: a large encoder (the teacher) shows a small one (the student) what it makes of text."""
