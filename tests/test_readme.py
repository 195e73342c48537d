"""The README's example runs, and prints what its comments say."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_python_example(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 1
    promised = re.findall(r"^print\(.*\)  # ([^:\n]*)", blocks[0], re.M)
    result = subprocess.run([sys.executable, "-c", blocks[0]], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == promised
    assert len(promised) == 2
    assert (tmp_path / "my-albert" / "model.safetensors").exists()


def test_the_commands_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"^make ([a-z]+)", text, re.M))
    assert named == {"quickstart", "test"}
    assert named <= targets
    assert {"quickstart", "test", "check", "bench", "soak", "docs", "help"} <= targets
