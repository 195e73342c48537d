"""The planner's memory against real peaks: what torch allocates, and what the process holds."""

import json
import subprocess
import sys

import pytest

from litebert.model.cost import training_memory
from litebert.presets import PRESETS
from tests.conftest import need

need("torch")

# Trains three steps in a process of its own; prints torch's own peak of allocated bytes in a step, gradients and
# activations together, and the process' peak above what it held before it had the model.
PROGRAM = """
import gc, json, sys
from pathlib import Path
from litebert.runtime import keep_freed_memory
keep_freed_memory()
import torch
from torch.profiler import ProfilerActivity, profile
from litebert.batch import Batch
from litebert.model.cost import MASKED_SHARE
from litebert.model.model import Model
from litebert.presets import PRESETS
from litebert.training.objectives import pretraining_loss

def status(field):
    return next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith(field))

def train(config, batch, length, recompute, steps, measured=False):
    ids = torch.randint(5, config.vocab_size, (batch, length))
    positions = torch.rand(batch, length).argsort(1)[:, : round(length * MASKED_SHARE)]
    data = Batch(ids, masked_positions=positions, masked_labels=ids.gather(1, positions),
                 sentence_labels=torch.zeros(batch, dtype=torch.long))
    model = Model(config, "pretraining").train()
    model.encoder.recompute = recompute
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    def step():
        optimizer.zero_grad()
        pretraining_loss(model, data).backward()
        optimizer.step()
    for _ in range(steps):
        step()
    process = status("VmHWM")
    if not measured:
        return 0, process
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        step()
    held = peak = 0
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak, process

preset, batch, length, recompute = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True"
config = PRESETS[preset].config
tiny = config.updated(hidden_size=64, num_heads=1, intermediate_size=64, num_layers=2, vocab_size=99)
train(tiny, 2, 16, recompute, 1)  # load what loads late
gc.collect()
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
peak, process = train(config, batch, length, recompute, 3, measured=True)
print(json.dumps({"step": peak, "process": process - before}))
"""


def measured(preset: str, batch: int, length: int, recompute: bool) -> dict[str, int]:
    command = [sys.executable, "-c", PROGRAM, preset, str(batch), str(length), str(recompute)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(output.strip().splitlines()[-1]))


SHAPES = [
    pytest.param("albert-mini", 32, 128, False, marks=pytest.mark.soak),
    pytest.param("albert-base", 8, 128, False, marks=pytest.mark.soak),
    pytest.param("albert-base", 4, 512, False, marks=pytest.mark.soak),
    pytest.param("albert-base", 8, 128, True, marks=pytest.mark.soak),
]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("preset", "batch", "length", "recompute"), SHAPES)
def test_planned_memory_is_within_a_fifth_of_the_peak(preset: str, batch: int, length: int, recompute: bool) -> None:
    plan = training_memory(PRESETS[preset].config, batch, length, recompute)
    found = measured(preset, batch, length, recompute)
    activations = found["step"] - plan.gradients
    print(f"{preset} {batch}x{length} recompute={recompute}: planned {plan.activations / 1e6:.0f} MB of activations,")
    print(f"  measured {activations / 1e6:.0f}; planned {plan.process / 1e6:.0f} in all, {found['process'] / 1e6:.0f}")
    assert plan.activations == pytest.approx(activations, rel=0.2)
    assert plan.process == pytest.approx(found["process"], rel=0.2)
