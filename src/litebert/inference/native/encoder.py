"""`NativeEncoder`: the layers of a model on kernels in C, where the package was installed with a compiler.

onnxruntime runs an operator at a time and pads the texts of a batch to one length. `encoder.c` runs a layer in a few
passes over memory, on texts of any length side by side. It knows CPUs with AVX-512 and its 8-bit products (VNNI), and
models whose sizes are multiples of 16; everything else runs on onnxruntime, with the same answers up to rounding.

It is single-threaded, so texts are dealt out to threads. LITEBERT_NATIVE=0 in the environment turns it off.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
_LARGEST = 131_072  # inputs whose products of 8 bits add up within 32 bits
_LINE = 64  # bytes that the cache takes together

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
    if not all(advertises(name) for name in INSTRUCTIONS):
        return None
    source = Path(__file__).with_name("encoder.c")
    try:
        library = ctypes.CDLL(str(source.with_name(library_name(source.read_bytes()))))
    except OSError:
        return None  # not there, or made for another system
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
        self._maps: dict[str, _Linear] = {}
        self._layers = {blocks: self._make_layer(*blocks) for blocks in layer_plan(config)}
        self._embeddings = self._make_embeddings()
        self._limits = [
            len(weights[f"encoder.embeddings.{name}.weight"]) for name in ("words", "token_types", "positions")
        ]
        widest = max(size for one in self._maps.values() for size in (one.inputs, one.outputs))
        sizes = config.hidden_size, config.attention_size, config.num_heads, max(widest, config.embedding_size)
        self._shape = _Shape(*sizes, _ACTIVATIONS[config.activation], config.layer_norm_eps)
        self._weights = {}

    @classmethod
    def open(cls, config: ModelConfig, weights: Weights, int8: Int8 | None) -> "NativeEncoder | None":
        """The encoder of a model; None where it cannot run: another CPU, no compiler at installation, other sizes."""
        library = None if os.environ.get("LITEBERT_NATIVE") == "0" else _open_library()
        if library is None:
            return None
        sizes = [size for name, one in weights.items() for size in _sizes_of(name, one)]
        sizes += [config.attention_size // config.num_heads]
        fits = all(size % _UNIT == 0 and size <= _LARGEST for size in sizes)
        return cls(library, config, weights, int8) if fits else None

    def embed_tokens(self, inputs: Mapping[str, Array]) -> "TokenStates | None":
        """Rows of ids → states before any layer; None for what is left to others.

        That are ids and places that no table has, and texts whose first token is hidden: some heads read it.
        """
        mask, rows_of_ids, rows_of_types = (inputs[name] for name in ("attention_mask", "input_ids", "token_type_ids"))
        if not mask.size or not mask[:, 0].all() or not mask.shape == rows_of_ids.shape == rows_of_types.shape:
            return None
        states = TokenStates.begin(mask, self._config.hidden_size)
        ids, types = (array[states.rows, states.places] for array in (rows_of_ids, rows_of_types))
        numbers = [np.ascontiguousarray(one, np.int64) for one in (ids, types, states.places)]
        if any(one.min() < 0 or one.max() >= limit for one, limit in zip(numbers, self._limits, strict=True)):
            return None

        def run(begin: int, end: int) -> None:
            tokens = slice(states.starts[begin], states.starts[end])
            ids, types, places = (one[tokens] for one in numbers)
            given = ctypes.byref(self._embeddings), _at(ids), _at(places), _at(types), *_integers(len(ids))
            room = self._find_room(len(ids), 0)
            self._library.litebert_embed_tokens(ctypes.byref(self._shape), *given, _at(states.values[tokens]), room)

        _run_groups(states, run)
        return states

    def run_layers(
        self, plan: Sequence[tuple[int, int]], states: "TokenStates", first_only: bool = False
    ) -> "TokenStates":
        """Some layers; what comes out stands where it was, or is that of the first tokens alone."""
        layers = (ctypes.POINTER(_Layer) * len(plan))(*(ctypes.pointer(self._layers[blocks]) for blocks in plan))

        def run(begin: int, end: int) -> None:
            lengths = states.lengths[begin:end]
            values = states.values[states.starts[begin] : states.starts[end]]
            depth, texts, shorten = _integers(len(layers), end - begin, first_only)
            given = layers, depth, _at(lengths), texts, shorten, _at(values)
            room = self._find_room(len(values), int(lengths.max()))
            self._library.litebert_run_layers(ctypes.byref(self._shape), *given, room)

        _run_groups(states, run)
        return states.shorten() if first_only else states

    def average(self, states: "TokenStates", of_length_one: bool) -> NDArray[np.float32]:
        """The mean of the states of each text."""
        lengths, size = states.lengths, states.values.shape[1]
        means = np.empty((len(lengths), size), np.float32)
        self._library.litebert_average(
            _at(states.values), _at(lengths), *_integers(len(lengths), size, of_length_one), _at(means)
        )
        return means

    def _find_room(self, tokens: int, longest: int) -> ctypes.c_void_p:
        """Memory to work in, which a thread keeps for the next time."""
        num_bytes = self._library.litebert_room(ctypes.byref(self._shape), *_integers(tokens, longest))
        if getattr(_rooms, "memory", None) is None or len(_rooms.memory) < num_bytes:
            _rooms.memory = _allocate((num_bytes,), np.uint8)
        return _at(_rooms.memory)

    # --- weights as the kernels want them -----------------------------------------------------------------------

    def _keep(self, name: str, array: Array, kind: type[Any] = np.float32) -> int:
        """The address of a copy that stays where it is."""
        assert name not in self._kept, "something points to what would be freed"
        self._kept[name] = _allocate(array.shape, kind)
        self._kept[name][...] = array
        return int(self._kept[name].ctypes.data)

    def _keep_weight(self, name: str) -> int:
        """The same for a weight as it is; blocks that several layers share ask again."""
        return int(self._kept[name].ctypes.data) if name in self._kept else self._keep(name, self._weights[name])

    def _make_linear(self, name: str) -> _Linear:
        if name not in self._maps:
            self._maps[name] = self._convert_linear(name)
        return self._maps[name]

    def _convert_linear(self, name: str) -> _Linear:
        weight = self._weights[f"{name}.weight"]
        outputs, inputs = weight.shape
        bias, scale = self._keep_weight(f"{name}.bias"), None
        if name in self._int8:
            whole, scales = quantize(weight)
            scale = self._keep(f"{name}.scale", scales)
            weight = (whole.astype(np.int16) + _ZERO).astype(np.uint8)
        weight = np.pad(weight, ((0, -outputs % _PANEL), (0, 0)))
        together = 1 if scale is None else 4  # inputs whose numbers stand beside one another
        panels = weight.reshape(-1, _PANEL, inputs // together, together).swapaxes(1, 2)
        kind = np.float32 if scale is None else np.uint8
        return _Linear(inputs, outputs, self._keep(f"{name}.weight", panels, kind), scale, bias)

    def _make_layer(self, attention: int, feed_forward: int) -> _Layer:
        first, second = f"encoder.attention.{attention}", f"encoder.feed_forward.{feed_forward}"
        maps = [
            self._make_linear(name) for name in (f"{first}.qkv", f"{first}.output", f"{second}.up", f"{second}.down")
        ]
        norms = [self._keep_weight(f"{name}.norm.{kind}") for name in (first, second) for kind in ("weight", "bias")]
        return _Layer(*maps, *norms)

    def _make_embeddings(self) -> _Embeddings:
        table = "encoder.embeddings"
        words, scale = self._weights[f"{table}.words.weight"], None
        if f"{table}.words" in self._int8:
            words, scales = quantize(words)
            scale = self._keep(f"{table}.words.scale", scales)
        kind = np.float32 if scale is None else np.int8
        names = ("positions.weight", "token_types.weight", "norm.weight", "norm.bias")
        rest = [self._keep_weight(f"{table}.{name}") for name in names]
        projection = self._make_linear(f"{table}.projection") if self._config.projects_embeddings else _Linear()
        words_at = self._keep(f"{table}.words.weight", words, kind)
        return _Embeddings(self._config.embedding_size, words_at, scale, *rest, projection)


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
        return cls(attention_mask.shape, rows, places, lengths, _allocate((len(rows), size), np.float32))

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


def _allocate(shape: tuple[int, ...], kind: type[Any]) -> Array:
    """Room for an array that begins where a line of the cache does."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    memory = np.empty(size + _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    array: Array = memory[begin : begin + size].view(kind).reshape(shape)
    return array


def _run_groups(states: TokenStates, run: Callable[[int, int], None]) -> None:
    """Run groups of texts, on all cores if there are several."""
    groups, num_threads = states.part(_GROUP_TOKENS), choose_threads()
    if min(num_threads, len(groups)) > 1:
        pool = _open_pool(os.getpid(), num_threads)
        tasks: list[Future[None]] = []
        with contextlib.suppress(RuntimeError):  # the interpreter ends, and takes no new tasks
            for group in groups:
                tasks.append(pool.submit(run, *group))
        for task in tasks:
            task.result()
        groups = groups[len(tasks) :]
    for group in groups:
        run(*group)


@functools.lru_cache(maxsize=1)
def _open_pool(process: int, num_threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(num_threads, thread_name_prefix="litebert-native")
