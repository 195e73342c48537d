"""The site: what docs/ holds, with the recorded results that it links to, built by Sphinx and MyST.

`make site` builds it.

The source is the root of the repository, so that links from docs/ to benchmarks/ and src/ work in the site as they do
in the repository. The site asks no other host for anything: system fonts, no trackers, search in the browser.
"""

from pathlib import Path

from sphinx.application import Sphinx

project = "litebert"
html_title = "litebert"
language = "en"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "benchmarks/results/**.md",
    "src/litebert/encoders/litebert-en/README.md",
]
exclude_patterns = [".*", "**/.*", "site", "dist", "runs", "quickstart", "**/__pycache__"]
# Recorded results and runs are reached by links from the pages about them, not from the sidebar; some are written by
# scripts, which skip a level of headings.
suppress_warnings = ["toc.not_included", "myst.header"]

myst_heading_anchors = 3
myst_links_external_new_tab = False
highlight_language = "none"

html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_permalinks_icon = "#"
pygments_style = "tango"
pygments_dark_style = "github-dark"


def add_front_door(app: Sphinx, exception: Exception | None) -> None:
    """Lead from site/index.html, which people open, to the start page, which lies in docs/."""
    if exception is None and app.builder.name == "html":
        target = "docs/index.html"
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
        page += f'<title>{project}</title><a href="{target}">{project}</a>\n'
        (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", add_front_door)
