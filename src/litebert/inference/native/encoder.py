"""`NativeEncoder`: the layers of a model on kernels in C, where the package was installed with a compiler.

onnxruntime runs an operator at a time and pads the texts of a batch to one length. `encoder.c` runs a layer in a few
passes over memory, on texts of any length side by side. It knows CPUs with AVX-512 and its 8-bit products (VNNI), and
models whose sizes are multiples of 16; everything else runs on onnxruntime, with the same answers up to rounding.

It is single-threaded, so texts are dealt out to threads. LITEBERT_NATIVE=0 in the environment turns it off.
"""

import ctypes
import functools
import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from litebert.config import Activation, ModelConfig
from litebert.inference.onnx_graph import Int8, scale_queries
from litebert.inference.sessions import choose_threads
from litebert.model.hf.int8 import quantize
from litebert.model.sharing import layer_plan
from litebert.runtime import advertises

__all__ = ["INSTRUCTIONS", "NativeEncoder", "TokenStates", "library_name"]

INSTRUCTIONS = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni")
"""What the CPU must have, by the names of the Linux kernel."""
_ACTIVATIONS: dict[Activation, int] = {"gelu": 0, "gelu_new": 1, "relu": 2, "silu": 3}
_UNIT = 16  # numbers in a register
_PANEL = 64  # outputs whose weights stand together
_GROUP_TOKENS = 256  # that run through the layers together, so that what a layer makes of them stays in the cache
_ZERO = 128  # what stands for 0 in weights of 8 bits

Array = NDArray[Any]
Weights = Mapping[str, Array]


def library_name(source: bytes) -> str:
    """The name of the compiled library: another source is another library, so that an old one is never opened.

    It does not end in .so, which Python would take for a module.
    """
    return f"encoder-{hashlib.sha256(source).hexdigest()[:16]}.kernels"


@functools.cache
def _open_library() -> ctypes.CDLL | None:
    """The compiled kernels; None where there are none, or where this CPU cannot run them."""
    source = Path(__file__).with_name("encoder.c")
    path = source.with_name(library_name(source.read_bytes()))
    if not path.is_file() or not all(advertises(name) for name in INSTRUCTIONS):
        return None
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None  # made for another system
    library.litebert_room.restype = ctypes.c_int64
    return library


class _Linear(ctypes.Structure):
    _fields_: ClassVar = [
        *((name, ctypes.c_int64) for name in ("inputs", "outputs")),
        *((name, ctypes.c_void_p) for name in ("weight", "scale", "bias")),
    ]


class _Layer(ctypes.Structure):
    _fields_: ClassVar = [
        *((name, _Linear) for name in ("qkv", "output", "up", "down")),
        *((name, ctypes.c_void_p) for name in ("attention_norm", "attention_norm_bias", "norm", "norm_bias")),
    ]


class _Embeddings(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("words", "word_scale", "positions", "types", "norm", "norm_bias")),
        ("projection", _Linear),
    ]


class _Shape(ctypes.Structure):
    _fields_: ClassVar = [
        *((name, ctypes.c_int64) for name in ("hidden", "attention", "heads", "widest", "activation")),
        ("epsilon", ctypes.c_float),
    ]


class NativeEncoder:
    """The embeddings and layers of a model; its states are rows, one for each token that a mask shows."""

    def __init__(self, library: ctypes.CDLL, config: ModelConfig, weights: Weights, int8: Int8 | None) -> None:
        self._library, self._config = library, config
        self._int8 = frozenset() if int8 is None else int8.maps
        self._weights = {**weights, **scale_queries(config, weights)}
        self._kept: dict[str, Array] = {}  # what the structures below point to
        blocks = sorted({*layer_plan(config)})
        self._layers = {one: self._make_layer(*one) for one in blocks}
        self._embeddings = self._make_embeddings()
        maps = [getattr(layer, name) for layer in self._layers.values() for name in ("qkv", "output", "up", "down")]
        widest = max(config.embedding_size, *(size for one in maps for size in (one.inputs, one.outputs)))
        sizes = config.hidden_size, config.attention_size, config.num_heads, widest
        self._shape = _Shape(*sizes, _ACTIVATIONS[config.activation], config.layer_norm_eps)
        self._limits = [
            len(weights[f"encoder.embeddings.{name}.weight"]) for name in ("words", "positions", "token_types")
        ]
        self._weights = {}

    @classmethod
    def open(cls, config: ModelConfig, weights: Weights, int8: Int8 | None) -> "NativeEncoder | None":
        """The encoder of a model; None where it cannot run: another CPU, no compiler at installation, other sizes."""
        library = None if os.environ.get("LITEBERT_NATIVE") == "0" else _open_library()
        if library is None:
            return None
        sizes = [size for name, one in weights.items() for size in _sizes_of(name, one)]
        sizes += [config.attention_size // config.num_heads]
        return None if any(size % _UNIT for size in sizes) else cls(library, config, weights, int8)

    def can_run(self, inputs: Mapping[str, Array]) -> bool:
        """Whether every text has a token, and all ids and places are in the tables."""
        mask = inputs["attention_mask"]
        if not mask.size or not mask.any(-1).all():
            return False
        words, places, types = self._limits
        sizes = (inputs["input_ids"], words), (inputs["token_type_ids"], types)
        return mask.shape[-1] <= places and all(ids.min() >= 0 and ids.max() < size for ids, size in sizes)

    def encode(self, inputs: Mapping[str, Array], depth: int | None, first_only: bool = False) -> "TokenStates":
        """Rows of ids → the last states of all tokens, or of each row's first one; at depth 0 before any layer."""
        states = TokenStates.begin(inputs["attention_mask"], self._config.hidden_size)
        plan = layer_plan(self._config, depth) if depth != 0 else []
        self._deal_out(states, inputs, plan, first_only)
        return states.shorten() if first_only else states

    def run_layer(self, blocks: tuple[int, int], states: "TokenStates") -> "TokenStates":
        """One layer; what comes out stands where it was."""
        self._deal_out(states, None, [blocks], False)
        return states

    def average(self, states: "TokenStates", of_length_one: bool) -> NDArray[np.float32]:
        """The mean of the states of each text."""
        lengths, size = states.lengths, states.values.shape[1]
        means = np.empty((len(lengths), size), np.float32)
        self._library.litebert_average(
            _at(states.values), _at(lengths), *_integers(len(lengths), size, of_length_one), _at(means)
        )
        return means

    def _deal_out(
        self,
        states: "TokenStates",
        inputs: Mapping[str, Array] | None,
        plan: Sequence[tuple[int, int]],
        first_only: bool,
    ) -> None:
        """Run groups of texts, on all cores if there are several; what comes out stands where it was."""
        groups = states.part(_GROUP_TOKENS)
        layers = (ctypes.POINTER(_Layer) * len(plan))(*(ctypes.pointer(self._layers[blocks]) for blocks in plan))

        def run(group: tuple[int, int]) -> None:
            self._run_group(states, inputs, layers, first_only, *group)

        num_threads = min(choose_threads(), len(groups))
        if num_threads == 1:
            for group in groups:
                run(group)
        else:
            for _ in _open_pool(os.getpid(), choose_threads()).map(run, groups):
                pass

    def _run_group(
        self,
        states: "TokenStates",
        inputs: Mapping[str, Array] | None,
        layers: Any,
        first_only: bool,
        begin: int,
        end: int,
    ) -> None:
        """The texts from `begin` to `end`."""
        shape, lengths = ctypes.byref(self._shape), states.lengths[begin:end]
        tokens = slice(states.starts[begin], states.starts[end])
        values = states.values[tokens]
        count = len(values)
        room = _find_room(self._library.litebert_room(shape, *_integers(count, lengths.max())))
        if inputs is not None:
            rows, places = states.rows[tokens], np.ascontiguousarray(states.places[tokens])
            ids, types = (inputs[name][rows, places].astype(np.int64) for name in ("input_ids", "token_type_ids"))
            tables = ctypes.byref(self._embeddings), _at(ids), _at(places), _at(types)
            self._library.litebert_embed_tokens(shape, *tables, *_integers(count), _at(values), room)
        depth, texts, shorten = _integers(len(layers), end - begin, first_only)
        self._library.litebert_run_layers(shape, layers, depth, _at(lengths), texts, shorten, _at(values), room)

    # --- weights as the kernels want them -----------------------------------------------------------------------

    def _keep(self, name: str, array: Array) -> int:
        """The address of an array that stays where it is."""
        self._kept[name] = np.ascontiguousarray(array)
        return int(self._kept[name].ctypes.data)

    def _keep_floats(self, name: str) -> int:
        return self._keep(name, self._weights[name].astype(np.float32))

    def _make_linear(self, name: str) -> _Linear:
        weight = self._weights[f"{name}.weight"]
        outputs, inputs = weight.shape
        bias, scale = self._keep_floats(f"{name}.bias"), None
        if name in self._int8:
            whole, scales = quantize(weight)
            scale = self._keep(f"{name}.scale", scales)
            weight = (whole.astype(np.int16) + _ZERO).astype(np.uint8)
        weight = np.pad(weight, ((0, -outputs % _PANEL), (0, 0)))
        together = 1 if scale is None else 4  # inputs whose numbers stand beside one another
        panels = weight.reshape(-1, _PANEL, inputs // together, together).swapaxes(1, 2)
        kind = np.float32 if scale is None else np.uint8
        return _Linear(inputs, outputs, self._keep(f"{name}.weight", panels.astype(kind)), scale, bias)

    def _make_layer(self, attention: int, feed_forward: int) -> _Layer:
        first, second = f"encoder.attention.{attention}", f"encoder.feed_forward.{feed_forward}"
        maps = [
            self._make_linear(name) for name in (f"{first}.qkv", f"{first}.output", f"{second}.up", f"{second}.down")
        ]
        norms = [self._keep_floats(f"{name}.norm.{kind}") for name in (first, second) for kind in ("weight", "bias")]
        return _Layer(*maps, *norms)

    def _make_embeddings(self) -> _Embeddings:
        table = "encoder.embeddings"
        words, scale = self._weights[f"{table}.words.weight"], None
        if f"{table}.words" in self._int8:
            words, scales = quantize(words)
            scale = self._keep("word scale", scales)
        else:
            words = words.astype(np.float32)
        names = ("positions.weight", "token_types.weight", "norm.weight", "norm.bias")
        rest = [self._keep_floats(f"{table}.{name}") for name in names]
        projection = self._make_linear(f"{table}.projection") if self._config.projects_embeddings else _Linear()
        return _Embeddings(self._config.embedding_size, self._keep("words", words), scale, *rest, projection)


class TokenStates:
    """The states of the tokens that a mask shows, one row each; those of a text stand together."""

    def __init__(self, shape: tuple[int, ...], rows: Array, places: Array, lengths: Array, values: Array) -> None:
        self.shape, self.rows, self.places, self.lengths, self.values = shape, rows, places, lengths, values
        self.starts = np.concatenate([[0], np.cumsum(lengths)])

    @classmethod
    def begin(cls, attention_mask: Array, size: int) -> "TokenStates":
        """Room for the states of what the mask (rows, tokens) shows."""
        rows, places = np.nonzero(attention_mask)
        lengths = np.bincount(rows, minlength=len(attention_mask))
        return cls(attention_mask.shape, rows, places, lengths, np.empty((len(rows), size), np.float32))

    def part(self, most: int) -> list[tuple[int, int]]:
        """Groups of texts one after the other, of at most so many tokens, or of one text: (begin, end)."""
        groups, begin = [], 0
        for end in range(1, len(self.lengths) + 1):
            is_last = end == len(self.lengths)
            if is_last or self.starts[end + 1] - self.starts[begin] > most:
                groups.append((begin, end))
                begin = end
        return groups

    def keep(self, stays: NDArray[np.bool_]) -> "TokenStates":
        """The texts that stay."""
        tokens, numbers = stays[self.rows], np.cumsum(stays) - 1
        rows, places = numbers[self.rows[tokens]], self.places[tokens]
        return TokenStates((int(stays.sum()), self.shape[1]), rows, places, self.lengths[stays], self.values[tokens])

    def firsts(self) -> Array:
        """The states of the first tokens, (texts, hidden)."""
        firsts: Array = self.values[self.starts[:-1]]
        return firsts

    def shorten(self) -> "TokenStates":
        """The first tokens alone, whose states a layer has left at the beginning of each group."""
        firsts = [self.values[self.starts[begin] :][: end - begin] for begin, end in self.part(_GROUP_TOKENS)]
        count = len(self.lengths)
        zeros, ones = np.zeros(count, np.int64), np.ones(count, np.int64)
        return TokenStates((count, 1), np.arange(count), zeros, ones, np.concatenate(firsts))

    def pad(self) -> Array:
        """Padded states, (rows, tokens, hidden)."""
        padded = np.zeros((*self.shape, self.values.shape[1]), np.float32)
        padded[self.rows, self.places] = self.values
        return padded


def _sizes_of(name: str, weight: Array) -> tuple[int, ...]:
    """Sizes of a weight that the kernels run along."""
    if name.startswith(("encoder.attention.", "encoder.feed_forward.", "encoder.embeddings.projection")):
        return weight.shape
    return weight.shape[-1:] if name.startswith("encoder.embeddings.") else ()


def _at(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _integers(*values: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(int(value)) for value in values]


_rooms = threading.local()


def _find_room(num_bytes: int) -> ctypes.c_void_p:
    """Memory to work in, which a thread keeps for the next time."""
    if getattr(_rooms, "memory", None) is None or len(_rooms.memory) < num_bytes:
        _rooms.memory = np.empty(num_bytes, np.uint8)
    return _at(_rooms.memory)


@functools.lru_cache(maxsize=1)
def _open_pool(process: int, num_threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(num_threads, thread_name_prefix="litebert-native")
