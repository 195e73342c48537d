"""The page of a search: each question, and the passages that come nearest to it in meaning."""

from collections.abc import Sequence
from pathlib import Path

from litebert.inference.search import Found
from litebert.reports.page import render, write_page

__all__ = ["render_search", "write_search"]


def render_search(questions: Sequence[str], found: Sequence[Sequence[Found]], sources: str, model: str) -> str:
    """Make the page; the same answers give the same bytes."""
    asked = [
        {
            "question": question,
            "hits": [
                {
                    "text": hit.passage.text,
                    "location": hit.passage.location,
                    "cosine": f"{hit.cosine:.3f}",
                    "width": round(100 * min(1.0, max(0.0, hit.cosine))),
                }
                for hit in hits
            ],
        }
        for question, hits in zip(questions, found, strict=True)
    ]
    summary = f"Looked through {sources} with the encoder {model}. Bars are cosines: the longer, the nearer in meaning."
    return render("search.html", title="Search by meaning", summary=summary, questions=asked)


def write_search(
    out: Path, questions: Sequence[str], found: Sequence[Sequence[Found]], sources: str, model: str
) -> Path:
    """Write the page, whole or not at all."""
    return write_page(out, render_search(questions, found, sources, model))
