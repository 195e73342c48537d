"""The beginnings of documents, as many of each file: text in which sentences have an order (Table 5 of the lab).

    python benchmarks/openings.py --each 7000 openings.jsonl.gz articles.jsonl.gz stories.jsonl.gz reviews.jsonl.gz

Lines are JSON with one of the columns text, article and paras. Shorter documents than --characters are left out.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

LEAST = 150  # characters of a beginning that ends with a sentence


def read_openings(path: Path, characters: int) -> Iterator[str]:
    """The first whole sentences of each document that is long enough."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            text = row.get("article") or row.get("text") or "\n".join(row.get("paras", []))
            text = re.sub(r"<br ?/?>|\s+", " ", text).strip()
            cut = text[:characters]
            end = max(cut.rfind(mark) for mark in (". ", "! ", "? "))
            if len(text) > characters and end > LEAST:
                yield cut[: end + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--each", type=int, default=7000, help="documents of a file, at most")
    parser.add_argument("--characters", type=int, default=450)
    options = parser.parse_args()
    with gzip.open(options.out, "wt", encoding="utf-8") as out:
        for path in options.files:
            for _, text in zip(range(options.each), read_openings(path, options.characters), strict=False):
                out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
