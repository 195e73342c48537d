"""sentence-transformers with its ONNX backend in 8 bits, in an environment of its own, on demand of inference.py.

    python3 -m venv other; other/bin/pip install torch "sentence-transformers[onnx]"
    python benchmarks/inference.py --onnx-python other/bin/python …

It needs nothing of litebert. A line of texts as JSON comes in, a line with the seconds they took goes out, and vectors
into a file.
"""

import json
import sys
import time
from pathlib import Path


def main() -> None:
    import numpy as np
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

    folder, scratch = sys.argv[1], Path(sys.argv[2])
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries say is no answer
    file = f"onnx/model_qint8_{sys.argv[3]}.onnx"
    if not (scratch / file).is_file():
        model = SentenceTransformer(folder, backend="onnx", device="cpu", model_kwargs={"export": True})
        model.save_pretrained(str(scratch))
        export_dynamic_quantized_onnx_model(model, sys.argv[3], str(scratch))
    model = SentenceTransformer(str(scratch), backend="onnx", device="cpu", model_kwargs={"file_name": file})
    for line in sys.stdin:
        texts = json.loads(line)
        begin = time.perf_counter()
        vectors = model.encode(texts, batch_size=32)
        seconds = time.perf_counter() - begin
        np.save(scratch / "vectors.npy", vectors)
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = next(int(row.split()[1]) * 1024 for row in status.splitlines() if row.startswith("VmHWM"))
        print(json.dumps({"seconds": seconds, "peak": peak}), file=answers, flush=True)


if __name__ == "__main__":
    main()
