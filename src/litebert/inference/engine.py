"""`Engine`: runs the model of a folder, on onnxruntime where it is installed, on torch where it is not.

Weights are read once, without torch; a graph is made of them when it is first needed, one for each head and depth that
is asked for. Where the kernels of `native` can run, they run the layers, and the graph is that of the head alone.
Whoever asks for the model itself gets a torch module, and from then on that module answers: what is done to its
weights shows.

Where `litebert optimize` has measured what may be done, onnxruntime multiplies whole numbers of 8 bits, and answers
that are certain leave early. On torch the model runs in fp32, and to its end.
"""

import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from litebert.config import Head
from litebert.inference.early_exit import ExitPolicy, run_with_exits, trace_passes
from litebert.inference.int8 import choose_int8
from litebert.inference.native.encoder import NativeEncoder, TokenStates
from litebert.inference.onnx_graph import LARGEST, OUTPUTS, POOLED, build_onnx, build_part, list_inputs, list_int8_maps
from litebert.inference.optimization import read_optimization
from litebert.inference.sessions import choose_threads, has_onnx, open_session
from litebert.model.head_kinds import EXIT_HEADS
from litebert.model.hf.checkpoint import fit_tensors, read_folder
from litebert.model.sharing import layer_plan
from litebert.tasks.outputs import TorchRunner

if TYPE_CHECKING:
    from litebert.model.model import Model

__all__ = ["VECTORS", "Engine"]

Array = NDArray[Any]
VECTORS: Head = "sentence-embedding"
_MOST_PADDING = 12  # without a limit 8 sentences take 1.5 times as long, 128 sentences 1.1 times
_BATCH_TOKENS = 512  # 7,600 tokens/s of litebert-en on one core, 6,100 with 2,048 and 3,600 with 8,192
_NATIVE_TOKENS = 2048  # for each thread; many, since what Python does for a batch costs as much as running 20 of them


class Engine:
    """The model of a folder, behind one call; `optimized` follows what `litebert optimize` found, where it did."""

    def __init__(self, folder: Path, optimized: bool = True) -> None:
        stored = read_folder(folder)
        self.folder, self.config, self.head = folder, stored.config, stored.head
        self._weights, fresh = fit_tensors(stored, self.config, self.head)
        self._sessions: dict[Any, Any] = {}
        self._lock = threading.Lock()  # a session is opened once, whoever asks first
        self._int8: frozenset[str] = frozenset()
        self.exits: ExitPolicy | None = None
        self.depth: int | None = None
        """How many passes make a vector, where nobody asks for another number."""
        self.tokens_at_once: int | None = None
        """How many tokens to run together, where that was measured."""
        self.exits_seen: Counter[int] = Counter()
        """After how many passes answers left, where they may leave early."""
        # What a folder lacks, torch draws afresh; and a graph has its limit.
        self._uses_torch = bool(fresh) or self.num_bytes > LARGEST or not has_onnx() or _has_gpu()
        if optimized and (known := read_optimization(folder)) is not None:
            self._int8, self.exits, self.depth = frozenset(known.int8), known.exits, known.depth
            self.tokens_at_once = known.tokens_at_once

    def configured(
        self,
        int8: Iterable[str] = (),
        exits: ExitPolicy | None = None,
        depth: int | None = None,
        tokens_at_once: int | None = None,
    ) -> "Engine":
        """The same weights, run otherwise: some maps with 8 bits, some answers early, vectors after fewer passes."""
        other = copy.copy(self)
        other._int8, other.exits, other.depth, other.tokens_at_once = frozenset(int8), exits, depth, tokens_at_once
        other.exits_seen, other._sessions = Counter(), {}
        return other

    @property
    def has_int8(self) -> bool:
        """Whether some of it runs with 8 bits, here."""
        return choose_int8(self._int8) is not None

    @property
    def settings(self) -> list[str]:
        """How vectors are made, where it is not as the model was trained."""
        return sorted(self._int8) + ([] if self.depth is None else [f"depth {self.depth}"])

    @property
    def weights(self) -> dict[str, Array]:
        """What was read of the folder, by its names in this house."""
        return self._weights

    @property
    def int8_maps(self) -> list[str]:
        """What could run with 8 bits."""
        return list_int8_maps(self._weights)

    @property
    def uses_torch(self) -> bool:
        """Whether torch answers: in fp32, to the end."""
        return self._uses_torch

    @property
    def is_native(self) -> bool:
        """Whether the kernels of `native` run its layers."""
        return not self._uses_torch and self._native is not None

    @property
    def num_passes(self) -> int:
        """How many layers a text runs through."""
        return len(layer_plan(self.config))

    @property
    def num_bytes(self) -> int:
        """Bytes of the weights in memory."""
        return sum(array.nbytes for array in self._weights.values())

    @property
    def batch_tokens(self) -> int:
        """How many tokens to give it at once: few enough that what a layer makes of them stays in the cache."""
        if self._uses_torch:
            return TorchRunner(self.model).batch_tokens
        if self.is_native:  # which parts a batch for the cache, and for its threads
            return _NATIVE_TOKENS * choose_threads()
        return self.tokens_at_once or _BATCH_TOKENS

    @property
    def most_padding(self) -> int | None:
        """How many of them may be padding: a call of onnxruntime costs about as much as running so many."""
        return None if self._uses_torch or self._leaves_early or self.is_native else _MOST_PADDING

    @property
    def _leaves_early(self) -> bool:
        return self.exits is not None and self.exits.may_leave and self.head in EXIT_HEADS

    @cached_property
    def model(self) -> "Model":
        """The model as a torch module, which answers from now on."""
        import torch

        from litebert.model.model import Model

        self._uses_torch = True
        return Model.from_pretrained(self.folder).to("cuda" if torch.cuda.is_available() else "cpu")

    def run(self, inputs: Mapping[str, Array], depth: int | None = None) -> dict[str, Array]:
        """The outputs of the head, by the names of `onnx_graph.OUTPUTS`."""
        depth = self.depth if depth is None and self.head == VECTORS else depth
        if self._uses_torch:
            return dict(TorchRunner(self.model).run(inputs, depth))
        if self.exits is not None and self._leaves_early and depth is None:
            plan = layer_plan(self.config)
            return run_with_exits(self._run_part, self.config, self.head, plan, inputs, self.exits, self.exits_seen)
        return self._run_session(self.head, inputs, list(OUTPUTS[self.head]), depth)

    def embed(self, inputs: Mapping[str, Array], depth: int | None = None) -> NDArray[np.float32]:
        """The vector of each row; where the head gives none, the mean of the last states."""
        depth = self.depth if depth is None else depth
        if not self._uses_torch:
            return self._run_session(VECTORS, inputs, ["sentence_embedding"], depth)["sentence_embedding"]
        if self.head == VECTORS:
            return self.run(inputs, depth)["sentence_embedding"]
        import torch

        device = next(self.model.parameters()).device
        with torch.inference_mode():
            tensors = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
            hidden = self.model.eval().encoder(**tensors, depth=depth)
            weights = tensors["attention_mask"][:, :, None].to(hidden.dtype)
            vectors: NDArray[np.float32] = ((hidden * weights).sum(1) / weights.sum(1)).float().cpu().numpy()
        return vectors

    def trace(self, inputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        """What the head says after each pass, the last one last."""
        return trace_passes(self._run_part, self.head, layer_plan(self.config), inputs)

    def states(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The states of all tokens before the first layer and after each, with 32 bits."""
        exact = self._exact
        (states,) = exact._run_part("embeddings", inputs)
        found = [_as_array(states)]
        for blocks in layer_plan(self.config):
            (states,) = exact._run_part(blocks, {"states": states, **inputs})
            found.append(_as_array(states))
        return found

    @cached_property
    def _exact(self) -> "Engine":
        return self.configured() if self._int8 else self

    def build(self, head: Head, depth: int | None = None) -> bytes:
        """The model as an ONNX file."""
        return build_onnx(self.config, head, self._weights, depth, choose_int8(self._int8))

    @property
    def _native(self) -> NativeEncoder | None:
        found: NativeEncoder | None = self._open(
            "native", lambda: NativeEncoder.open(self.config, self._weights, choose_int8(self._int8))
        )
        return found

    def _open(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made for a key, by whoever asked first."""
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = make()
        return self._sessions[key]

    def _run_session(
        self, head: Head, inputs: Mapping[str, Array], names: list[str], depth: int | None
    ) -> dict[str, Array]:
        rows = {name: array.reshape(-1, array.shape[-1]) for name, array in inputs.items()}
        if (native := self._native) is not None and (states := native.embed_tokens(rows)) is not None:
            states = native.run_layers(layer_plan(self.config, depth), states, first_only=head in POOLED)
            return self._finish(native, states, head, rows, inputs["input_ids"].shape, names)
        session = self._open((head, depth), lambda: open_session(self.build(head, depth)))
        given = {name: inputs[name].astype(np.int64, copy=False) for name in list_inputs(head)}
        return dict(zip(names, session.run(names, given), strict=True))

    def _finish(
        self,
        native: NativeEncoder,
        states: TokenStates,
        head: Head,
        rows: Mapping[str, Array],
        shape: tuple[int, ...],
        names: list[str],
    ) -> dict[str, Array]:
        """The outputs of a head, from its last states. Options of a choice stand in rows of their own until then."""
        if head == VECTORS:
            means = {"sentence_embedding": native.average(states, self.config.embedding_normalize)}
            return means if names == list(means) else {"last_hidden_state": states.pad(), **means}
        found = dict(zip(OUTPUTS[head], self._run_part("head", {"states": states, **rows}, head), strict=True))
        return {"logits": found["logits"].reshape(shape[:2])} if head == "multiple-choice" else found

    def _run_part(self, part: Any, inputs: Mapping[str, Any], head: Head | None = None) -> list[Any]:
        """The embeddings, a layer or a head alone, the model's own if none is named.

        States are an array with padding, or `TokenStates` where the embeddings came out so; a layer changes these.
        """
        native, states, head = self._native, inputs.get("states"), head or self.head
        if native is not None and part == "embeddings" and (begun := native.embed_tokens(inputs)) is not None:
            return [begun]
        if native is not None and isinstance(states, TokenStates):
            if part != "head":
                return [native.run_layers([part], states)]
            # Two rows are multiplied in the same way whatever stands beside them: `onnx_graph` on its first two.
            array = np.repeat(states.firsts()[:, None], 2, axis=1) if head in POOLED else states.pad()
            inputs = {**inputs, "states": array}
        session, kinds = self._open((part, head), lambda: self._open_part(part, head))
        given = {name: inputs[name].astype(kind, copy=False) for name, kind in kinds.items()}
        found: list[Array] = session.run(None, given)
        return found

    def _open_part(self, part: Any, head: Head) -> tuple[Any, dict[str, type[Any]]]:
        """A part as a session, and which kind of numbers each of its inputs has."""
        session = open_session(build_part(self.config, head, self._weights, part, choose_int8(self._int8)))
        return session, {one.name: np.int64 if "int64" in one.type else np.float32 for one in session.get_inputs()}


def _as_array(states: Any) -> Array:
    """States with padding, as they are now."""
    found: Array = states.pad() if isinstance(states, TokenStates) else states
    return found


def _has_gpu() -> bool:
    if find_spec("torch") is None or not Path("/dev/nvidiactl").exists():
        return False
    import torch

    return torch.cuda.is_available()
