"""From text to batches: encoding beside the tokenizers library, preparation, its memory, and the stream of batches.

What is compared runs on one core, interleaved. The peer is transformers' own ALBERT pipeline in the tokenizers library,
on the same vocabulary and texts, in batches; the ids of both are compared first. The stream is compared with a plain
version that makes one example at a time (the oracle of the tests). Text is what --text names (JSON lines with `text` or
`paras`), else the documentation that lies on this machine; --tokenizer is a spiece.model, else one is trained.

    python benchmarks/corpus.py --text wiki.jsonl.gz books.jsonl.gz --tokenizer spiece.model
"""

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the oracle

from tests.corpus.oracle import Chances, cut_run, mask_words, pack_document

from harness import interleave, machine, median_ratio, record
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.text.sentences import split_sentences
from litebert.text.sources import Reader, ReadOptions, find_sources
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import VocabularyConfig, train_vocabulary

OPTIONS = ReadOptions(columns=("text", "paras"))
MEGABYTE = 1_000_000


def read_documents(sources: list[str], limit: int) -> list[str]:
    """Documents of all sources in turn, up to so many bytes."""
    readers = [iter(Reader([source], OPTIONS)) for source in find_sources(sources)]
    documents, size = [], 0
    for row in itertools.zip_longest(*readers):
        for document in filter(None, row):
            documents.append(document.text)
            size += len(document.text.encode())
            if size >= limit:
                return documents
    return documents


def albert_pipeline(model: Path) -> Any:
    """transformers' ALBERT tokenizer on a spiece.model, as its own converter makes it."""
    import transformers
    from sentencepiece import sentencepiece_model_pb2 as protocol

    proto = protocol.ModelProto.FromString(model.read_bytes())
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    table = proto.normalizer_spec.precompiled_charsmap
    return transformers.AlbertTokenizer(vocab=pieces, _spm_precompiled_charsmap=table).backend_tokenizer


def timed(run: Callable[[], object]) -> Callable[[], float]:
    def step() -> float:
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    return step


def measure_encoding(documents: list[str], model: Path, rounds: int) -> dict[str, Any]:
    """MB/s of both on sentences and on whole paragraphs."""
    ours, theirs = Tokenizer.from_pretrained(model), albert_pipeline(model)
    results = {}
    texts_of = {
        "sentences": [sentence for text in documents for sentence in split_sentences(text)],
        "paragraphs": [part for text in documents for part in text.split("\n\n") if part.strip()],
    }
    for kind, texts in texts_of.items():
        size = sum(len(text.encode()) for text in texts)
        batches = [texts[begin : begin + 1000] for begin in range(0, len(texts), 1000)]

        def encode_ours(batches: list[list[str]] = batches) -> list[list[int]]:
            rows = []
            for batch in batches:
                ids, counts = ours.encode_plain(batch)
                rows += np.split(ids, np.cumsum(counts)[:-1])
            return rows

        def encode_theirs(batches: list[list[str]] = batches) -> list[list[int]]:
            return [row.ids for batch in batches for row in theirs.encode_batch_fast(batch, add_special_tokens=False)]

        differing = sum(a.tolist() != b for a, b in zip(encode_ours(), encode_theirs(), strict=True))
        times = interleave({"litebert": timed(encode_ours), "tokenizers": timed(encode_theirs)}, rounds, warmups=1)
        results[kind] = {
            "texts": len(texts),
            "megabytes": size / MEGABYTE,
            "different_ids": differing,
            "litebert": size / MEGABYTE / statistics.median(times["litebert"]),
            "tokenizers": size / MEGABYTE / statistics.median(times["tokenizers"]),
            "ratio": median_ratio(times["tokenizers"], times["litebert"]),
        }
    return results


def measure_preparation(source: Path, model: Path, workers: int) -> dict[str, float]:
    """Run `litebert prepare` and watch all of its processes."""
    size = sum(len(json.loads(line)["text"].encode()) for line in source.open(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        options = ["--tokenizer", str(model), "--out", f"{folder}/corpus", "--workers", str(workers)]
        begin = time.perf_counter()
        process = psutil.Popen(
            [sys.executable, "-m", "litebert", "prepare", str(source), *options], stdout=-3, stderr=-3
        )
        peak, seconds = 0, 0.0
        while process.poll() is None:
            try:
                tree = [process, *process.children(recursive=True)]
                peak = max(peak, sum(part.memory_info().rss for part in tree))
                seconds = max(seconds, sum(sum(part.cpu_times()[:2]) for part in tree))
            except psutil.Error:
                pass
            time.sleep(0.05)
        wall = time.perf_counter() - begin
        if process.returncode:
            raise SystemExit("preparation failed")
    return {
        "megabytes": size / MEGABYTE,
        "seconds": wall,
        "cpu_seconds": seconds,
        "megabytes_per_second": size / MEGABYTE / wall,
        "megabytes_per_core_second": size / MEGABYTE / seconds,
        "peak_megabytes": peak / MEGABYTE,
    }


def stream_step(stream: BatchStream, batch_size: int, num_tokens: int) -> Callable[[], float]:
    """Seconds for a million tokens of batches, going on where it stopped."""
    batches = stream.batches(batch_size)

    def step() -> float:
        begin, count = time.perf_counter(), 0
        while count < num_tokens:
            count += next(batches)[0].num_tokens
        return (time.perf_counter() - begin) / count * MEGABYTE

    return step


def plain_examples(corpus: Corpus, length: int) -> Iterator[int]:
    """Make examples one at a time in plain Python, masks included; give the tokens of each."""
    generator = random.Random(0)
    pieces = [corpus.tokenizer.piece(i) for i in range(corpus.tokenizer.vocab_size)]
    begins = [piece.startswith("▁") for piece in pieces]
    cls_id, sep_id, mask_id = corpus.tokenizer.cls_id, corpus.tokenizer.sep_id, corpus.tokenizer.mask_id
    for shard in itertools.cycle(corpus.shards[TRAIN]):
        for number in range(shard.document_ends.size):
            sentences = shard.document(number)
            text = [token for sentence in sentences for token in sentence.tolist()]
            done = 0
            for run in pack_document([sentence.size for sentence in sentences], length - 3, 0.1, generator):
                tokens = text[done : done + sum(run)]
                done += sum(run)
                cut = cut_run(run, generator)[0] if len(run) > 1 else len(tokens)
                parts = [part for part in (tokens[:cut], tokens[cut:]) if part]
                if generator.random() < 0.5:
                    parts.reverse()
                words: list[list[int]] = []
                for part in parts:
                    words.append([])
                    for place, token in enumerate(part):
                        if place == 0 or begins[token]:
                            words[-1].append(0)
                        words[-1][-1] += 1
                row = [cls_id, *parts[0], sep_id, *(parts[1] + [sep_id] if len(parts) > 1 else [])]
                starts, at = [], 1
                for part in words:
                    for size in part:
                        starts.append(at)
                        at += size
                    at += 1
                sizes = [size for part in words for size in part]
                labels = [-100] * len(row)
                for word, count in mask_words(words, 0.15, 3, Chances.from_generator(generator)):
                    for place in range(starts[word], starts[word + count - 1] + sizes[word + count - 1]):
                        labels[place] = row[place]
                        chance = generator.random()
                        row[place] = (
                            mask_id
                            if chance < 0.8
                            else generator.randrange(5, len(pieces))
                            if chance < 0.9
                            else row[place]
                        )
                yield len(row)


def plain_step(corpus: Corpus, length: int, num_tokens: int) -> Callable[[], float]:
    examples = plain_examples(corpus, length)

    def step() -> float:
        begin, count = time.perf_counter(), 0
        while count < num_tokens:
            count += next(examples)
        return (time.perf_counter() - begin) / count * MEGABYTE

    return step


def measure_stream(corpus: Corpus, rounds: int) -> dict[str, Any]:
    """Millions of tokens a second, with SOP and n-gram masking."""
    results = {}
    for length, batch_size in ((512, 32), (128, 64), (512, 4)):
        stream = BatchStream(corpus, StreamConfig(length=length))
        steps = {"litebert": stream_step(stream, batch_size, 3_000_000), "plain": plain_step(corpus, length, 200_000)}
        times = interleave(steps, rounds, warmups=1)
        results[f"{batch_size} x {length}"] = {
            "litebert": 1 / statistics.median(times["litebert"]),
            "plain": 1 / statistics.median(times["plain"]),
            "ratio": median_ratio(times["plain"], times["litebert"]),
        }
    return results


def write_source(path: Path, documents: list[str]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for text in documents:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", default=["builtin:documentation"])
    parser.add_argument("--tokenizer", type=Path, help="a spiece.model; if not given, one is trained")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    cores = sorted(os.sched_getaffinity(0))
    everything = read_documents(arguments.text, 1 << 40)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.tokenizer is None:
            train_vocabulary(everything, VocabularyConfig(vocab_size=8000)).write_files(folder)
            arguments.tokenizer = folder / "spiece.model"
        small = write_source(folder / "small.jsonl", read_documents(arguments.text, 10 * MEGABYTE))
        large = write_source(folder / "large.jsonl", everything)
        several = measure_preparation(large, arguments.tokenizer, len(cores))
        several_small = measure_preparation(small, arguments.tokenizer, len(cores))
        os.sched_setaffinity(0, cores[:1])
        encoding = measure_encoding(read_documents(arguments.text, 4 * MEGABYTE), arguments.tokenizer, arguments.rounds)
        preparation = {
            "small": measure_preparation(small, arguments.tokenizer, 1),
            "large": measure_preparation(large, arguments.tokenizer, 1),
        }
        options = ["--tokenizer", str(arguments.tokenizer), "--out", str(folder / "corpus"), "--workers", "1"]
        subprocess.run(
            [sys.executable, "-m", "litebert", "prepare", str(large), *options], check=True, stdout=-3, stderr=-3
        )
        stream = measure_stream(Corpus.open(folder / "corpus"), arguments.rounds)
    preparation |= {f"small, {len(cores)} workers": several_small, f"large, {len(cores)} workers": several}
    data = {"machine": machine(), "encoding": encoding, "preparation": preparation, "stream": stream}
    print(record("corpus", "From text to batches", report(data), data))


def report(data: dict[str, Any]) -> str:
    lines = [
        "Encoding, one core:",
        "",
        "| texts | litebert, MB/s | tokenizers, MB/s | ratio (spread) | texts with other ids |",
        "|-|-|-|-|-|",
    ]
    for kind, row in data["encoding"].items():
        ratio = row["ratio"]
        lines.append(
            f"| {row['texts']:,} {kind}, {row['megabytes']:.1f} MB | {row['litebert']:.1f} | {row['tokenizers']:.1f} "
            f"| {ratio['ratio']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f}) | {row['different_ids']} |"
        )
    lines += [
        "",
        "Preparation (`litebert prepare`, its start included), text to shards; memory of all processes together:",
        "",
        "| text | MB | MB/s | MB per second of a core | peak memory, MB |",
        "|-|-|-|-|-|",
    ]
    for kind, row in data["preparation"].items():
        lines.append(
            f"| {kind} | {row['megabytes']:.0f} | {row['megabytes_per_second']:.1f} "
            f"| {row['megabytes_per_core_second']:.1f} | {row['peak_megabytes']:.0f} |"
        )
    lines += [
        "",
        "Batches (SOP, n-gram masking, packing), one core, million tokens a second:",
        "",
        "| rows x length | litebert | one example at a time in Python | ratio (spread) |",
        "|-|-|-|-|",
    ]
    for kind, row in data["stream"].items():
        ratio = row["ratio"]
        lines.append(
            f"| {kind} | {row['litebert']:.2f} | {row['plain']:.3f} "
            f"| {ratio['ratio']:.1f} ({ratio['low']:.1f} to {ratio['high']:.1f}) |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
