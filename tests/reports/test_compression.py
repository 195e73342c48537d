"""The page of compressed models: every figure, as text and nothing else."""

from pathlib import Path

from litebert.reports.compression import Measured, render_compression, write_compression
from tests.reports.test_pretraining import HOSTILE, Page

MODELS = [
    Measured("original", 22_713_216, 90_868_376, 100.0, 1.0, {"STS-B pearson": 0.869, "SST-2 accuracy": 0.81}),
    Measured(HOSTILE, 13_840_896, 56_000_000, 150.0, 1.5, {"STS-B pearson": -0.1}),
]


def test_every_figure_has_its_bar(tmp_path: Path) -> None:
    content = render_compression(HOSTILE, MODELS, HOSTILE)
    assert content == render_compression(HOSTILE, MODELS, HOSTILE)
    page = Page(content)
    for shown in ("90.9 MB, 22.7M parameters", "150, 1.50 ×", "0.869", "-0.100", "81.0 %", "SST-2 accuracy"):
        assert shown in page.text
    widths = [str(value).rpartition("width:")[2] for name, value in page.attributes if name == "style"]
    assert widths == ["100.0%", "61.6%", "66.7%", "100.0%", "100.0%", "0.0%", "100.0%"]
    assert not page.tags & {"script", "img", "table"}
    assert 'alert("1")' in page.text
    written = write_compression(tmp_path / "page.html", "x", MODELS, "y")
    assert Page(written.read_text(encoding="utf-8")).text.count("original") == 4
