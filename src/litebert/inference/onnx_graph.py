"""A model as an ONNX graph, written from its configuration and its weights. Without torch.

A tensor that several layers share stands once in the graph, however often it is used; the layers of the plan are
written out one after the other. The graph has free sizes (rows and tokens) and standard operators alone, and takes
and gives what transformers' exporters do: `input_ids`, `attention_mask` and `token_type_ids`; the outputs of the head.

`build_part` writes the embeddings, one layer or the head alone, for who looks at the states on the way. With `Int8`
linear maps multiply whole numbers of 8 bits, by an operator of onnxruntime's own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from litebert.config import Activation, Head, ModelConfig
from litebert.errors import RequestError
from litebert.inference.onnx_file import FLOAT, INT64, Node, write_model
from litebert.model.head_kinds import BEAM_SIZE
from litebert.model.hf.int8 import quantize
from litebert.model.sharing import layer_plan

__all__ = [
    "LARGEST",
    "OUTPUTS",
    "POOLED",
    "Int8",
    "build_onnx",
    "build_part",
    "build_product",
    "list_inputs",
    "list_int8_maps",
    "scale_queries",
]

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
Shape = tuple[str, ...]
_TOKENS: Shape = ("batch", "tokens")
_BEAM: Shape = ("batch", "beam")
OUTPUTS: dict[str, dict[str, Shape]] = {
    "none": {"last_hidden_state": (*_TOKENS, "hidden"), "pooler_output": ("batch", "hidden")},
    "sentence-embedding": {"last_hidden_state": (*_TOKENS, "hidden"), "sentence_embedding": ("batch", "hidden")},
    "pretraining": {"prediction_logits": (*_TOKENS, "vocabulary"), "sop_logits": ("batch", "order")},
    "masked-lm": {"logits": (*_TOKENS, "vocabulary")},
    "sequence-classification": {"logits": ("batch", "labels")},
    "token-classification": {"logits": (*_TOKENS, "labels")},
    "multiple-choice": {"logits": ("batch", "options")},
    "question-answering": {"start_logits": _TOKENS, "end_logits": _TOKENS},
    "answerable-question-answering": {
        "start_log_probs": _BEAM,
        "starts": _BEAM,
        "end_log_probs": (*_BEAM, "ends"),
        "ends": (*_BEAM, "ends"),
        "answerable_logits": ("batch",),
    },
}
"""What the file of each head gives. The last one's are the likeliest spans, as `AnswerableSpanHead` finds them."""
_OPSET = 20
_HIDDEN_FROM_ATTENTION = -1e30
LARGEST = 2_000_000_000  # bytes that a protobuf message may have, nearly
_INTEGERS = (*_INPUTS, "answer_mask", "starts", "ends")
_WORDS = "encoder.embeddings.words"
_ZERO = 128  # what stands for 0 in states of 8 bits
_ONNXRUNTIME = "com.microsoft"
POOLED = ("sequence-classification", "multiple-choice")
"""Heads that read the first token alone."""


@dataclass(frozen=True)
class Int8:
    """Which tables and linear maps are stored with whole numbers of 8 bits, and how these are written."""

    maps: frozenset[str]
    """Names out of `list_int8_maps`."""
    is_unsigned: bool = False
    """Weights from 0 to 255 around 128: the same products, slower on new CPUs, but right on old ones too."""


@dataclass
class _Graph:
    """A graph that grows node by node; a value is the name of what a node makes."""

    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Initializers by name: each stands once."""

    def add(self, operator: str, *inputs: str, values: int = 1, domain: str = "", **attributes: Any) -> Any:
        """A node; its output, or all of them if there are several."""
        outputs = tuple(f"v{len(self.nodes)}_{number}" for number in range(values))
        self.nodes.append(Node(operator, inputs, outputs, attributes, domain))
        return outputs[0] if values == 1 else outputs

    def tensor(self, name: str, values: NDArray[Any]) -> str:
        """Some weights, under their name; asked for again, they are not stored again."""
        self.tensors.setdefault(name, values)
        return name

    def number(self, value: float) -> str:
        return self.tensor(f"float {value!r}", np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        return self.tensor(f"integers {' '.join(map(str, values))}", np.array(values, np.int64))

    def integer(self, value: int) -> str:
        return self.tensor(f"integer {value}", np.array(value, np.int64))

    def round(self, values: str) -> str:
        """Whole numbers from -127 to 127, around `_ZERO`."""
        return str(self.add("QuantizeLinear", values, self.number(1.0), self._zero()))

    def multiply_int8(self, rounded: str, name: str, weight: NDArray[Any], is_unsigned: bool) -> str:
        """Whole numbers times the rows of a weight."""
        integers, scales = quantize(weight)
        stored = (integers.astype(np.int16) + _ZERO).astype(np.uint8) if is_unsigned else integers
        factors = [rounded, self.tensor(f"{name}.int8", stored.T), self.number(1.0)]
        factors += [self.tensor(f"{name}.scale", scales), self._zero(), *([self._zero()] if is_unsigned else [])]
        return str(self.add("MatMulIntegerToFloat", *factors, domain=_ONNXRUNTIME))

    def _zero(self) -> str:
        return self.tensor("zero of 8 bits", np.array(_ZERO, np.uint8))

    def put_out(self, value: str, name: str) -> None:
        """Give a value the name of an output."""
        self.nodes.append(Node("Identity", (value,), (name,), {}))

    def write(
        self, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape], about: Mapping[str, str] | None = None
    ) -> bytes:
        """The graph as an ONNX file."""
        given, made = (
            {name: (INT64 if name in _INTEGERS else FLOAT, shape) for name, shape in values.items()}
            for values in (inputs, outputs)
        )
        versions = {"": _OPSET, **{node.domain: 1 for node in self.nodes if node.domain}}
        return write_model(self.nodes, self.tensors, given, made, versions, about or {})


class _Writer:
    """Writes the parts of a model into a graph, in the order of `model.layers`, `encoder` and `heads`."""

    def __init__(
        self, config: ModelConfig, weights: Mapping[str, NDArray[Any]], depth: int | None, int8: "Int8 | None"
    ) -> None:
        self.config, self.weights = config, {**weights, **scale_queries(config, weights)}
        self.int8 = int8
        self.plan = layer_plan(config, depth)
        self.graph = _Graph()
        self.rounded: dict[str, tuple[str, str]] = {}

    # --- parts that many use ------------------------------------------------------------------------------------

    def linear(self, name: str, states: str, outputs: range | None = None) -> str:
        """A linear map, or some of its outputs; its weight is stored as the graph multiplies with it."""
        graph = self.graph
        if self.has_int8(name):
            return self.int8_linear(name, states, outputs)
        weight = graph.tensor(f"{name}.weight", self.weights[f"{name}.weight"].T)
        bias = graph.tensor(f"{name}.bias", self.weights[f"{name}.bias"])
        if outputs is not None:
            limits = graph.integers(outputs.start), graph.integers(outputs.stop)
            weight = graph.add("Slice", weight, *limits, graph.integers(1))
            bias = graph.add("Slice", bias, *limits)
        return str(graph.add("Add", graph.add("MatMul", states, weight), bias))

    def has_int8(self, name: str) -> bool:
        return self.int8 is not None and name in self.int8.maps

    def int8_linear(self, name: str, states: str, outputs: range | None) -> str:
        """The same with weights of 8 bits, a scale for each output, and states of 8 bits, a scale for each token.

        A token's scale is its own, so that what stands beside it in a batch does not change what comes out.
        """
        assert self.int8 is not None
        graph, weight = self.graph, self.weights[f"{name}.weight"]
        part = slice(None) if outputs is None else slice(outputs.start, outputs.stop)
        title = name if outputs is None else f"{name} {outputs.start}:{outputs.stop}"
        rounded, scale = self.round_states(states)
        product = graph.multiply_int8(rounded, title, weight[part], self.int8.is_unsigned)
        bias = graph.tensor(f"{title}.bias", self.weights[f"{name}.bias"][part])
        return str(graph.add("Add", graph.add("Mul", product, scale), bias))

    def round_states(self, states: str) -> tuple[str, str]:
        """States as integers around `_ZERO`, and what one step of each token is worth; made once for all who ask."""
        graph = self.graph
        if states not in self.rounded:
            largest = graph.add("ReduceMax", graph.add("Abs", states), graph.integers(-1), keepdims=1)
            scale = graph.add("Max", graph.add("Mul", largest, graph.number(1 / 127)), graph.number(1e-30))
            self.rounded[states] = graph.round(graph.add("Div", states, scale)), scale
        return self.rounded[states]

    def norm(self, name: str, states: str) -> str:
        weight, bias = (
            self.graph.tensor(f"{name}.{kind}", self.weights[f"{name}.{kind}"]) for kind in ("weight", "bias")
        )
        epsilon = self.config.layer_norm_eps
        return str(self.graph.add("LayerNormalization", states, weight, bias, axis=-1, epsilon=epsilon))

    def activate(self, activation: Activation, states: str) -> str:
        match activation:
            case "gelu_new":
                return str(self.graph.add("Gelu", states, approximate="tanh"))
            case "gelu":
                return str(self.graph.add("Gelu", states, approximate="none"))
            case "relu":
                return str(self.graph.add("Relu", states))
            case "silu":
                return str(self.graph.add("Mul", states, self.graph.add("Sigmoid", states)))

    def first(self, hidden: str) -> str:
        """The states of the first tokens, (batch, H)."""
        return str(self.graph.add("Gather", hidden, self.graph.integer(0), axis=1))

    def first_two(self, hidden: str) -> str:
        """The states of the first two tokens, (batch, 2, H), where the first one's alone are wanted.

        Products of a single row take another way, on which the last bit depends on the padding. With two rows a text
        has the same answer to the bit, whatever stands beside it in a batch.
        """
        limits = self.graph.integers(0), self.graph.integers(2)
        return str(self.graph.add("Slice", hidden, *limits, self.graph.integers(1)))

    # --- the encoder --------------------------------------------------------------------------------------------

    def encode(self, input_ids: str, attention_mask: str, token_type_ids: str, first_only: bool = False) -> str:
        """Ids → the last hidden states, (batch, tokens, H); or those of the first two tokens alone, (batch, 2, H)."""
        hidden = self.embed_tokens(input_ids, token_type_ids)
        bias = self.bias_attention(attention_mask)
        for number, blocks in enumerate(self.plan, start=1):
            hidden = self.run_layer(blocks, hidden, bias, first_only and number == len(self.plan))
        return hidden

    def embed_tokens(self, input_ids: str, token_type_ids: str) -> str:
        """Words, positions and types: (batch, tokens, H)."""
        graph, table = self.graph, "encoder.embeddings."
        num_tokens = graph.add("Shape", input_ids, start=1)
        positions = graph.tensor(f"{table}positions", self.weights[f"{table}positions.weight"])
        types = graph.tensor(f"{table}token_types", self.weights[f"{table}token_types.weight"])
        embedded = graph.add("Add", self.look_up(input_ids), graph.add("Gather", types, token_type_ids))
        embedded = graph.add("Add", embedded, graph.add("Slice", positions, graph.integers(0), num_tokens))
        hidden = self.norm(f"{table}norm", embedded)
        return self.linear(f"{table}projection", hidden) if self.config.projects_embeddings else hidden

    def bias_attention(self, attention_mask: str) -> str:
        """What is added to the scores of attention: nothing, or so much that padding is not seen."""
        graph = self.graph
        is_hidden = graph.add("Sub", graph.number(1.0), graph.add("Cast", attention_mask, to=FLOAT))
        bias = graph.add("Mul", is_hidden, graph.number(_HIDDEN_FROM_ATTENTION))
        return str(graph.add("Unsqueeze", bias, graph.integers(1, 2)))  # (batch, 1, 1, tokens)

    def run_layer(self, blocks: tuple[int, int], hidden: str, bias: str, first_only: bool = False) -> str:
        """One layer, by the numbers of its attention and of its feed-forward block."""
        attention, feed_forward = blocks
        attended = self.attend(f"encoder.attention.{attention}", hidden, bias, first_only)
        return self.feed_forward(f"encoder.feed_forward.{feed_forward}", attended)

    def look_up(self, input_ids: str) -> str:
        """The vector of each word."""
        graph = self.graph
        if not self.has_int8(_WORDS):
            return str(graph.add("Gather", self.words(), input_ids))
        integers, scales = self.int8_words()
        return self.scale_rows(graph.add("Gather", integers, input_ids), graph.add("Gather", scales, input_ids))

    def words(self) -> str:
        """The table of all words."""
        if self.has_int8(_WORDS):
            return self.scale_rows(*self.int8_words())
        return self.graph.tensor(_WORDS, self.weights[f"{_WORDS}.weight"])

    def int8_words(self) -> tuple[str, str]:
        integers, scales = quantize(self.weights[f"{_WORDS}.weight"])
        return self.graph.tensor(_WORDS, integers), self.graph.tensor(f"{_WORDS}.scale", scales)

    def scale_rows(self, integers: str, scales: str) -> str:
        floats = self.graph.add("Cast", integers, to=FLOAT)
        return str(self.graph.add("Mul", floats, self.graph.add("Unsqueeze", scales, self.graph.integers(-1))))

    def attend(self, name: str, hidden: str, bias: str, first_only: bool) -> str:
        """Self-attention.

        With `first_only` the first two tokens alone make queries; all make keys and values.
        """
        graph, heads, size = self.graph, self.config.num_heads, self.config.attention_size
        asking = hidden
        if first_only:
            asking = self.first_two(hidden)
            split = [
                self.linear(f"{name}.qkv", states, range(part * size, (part + 1) * size))
                for part, states in enumerate((asking, hidden, hidden))
            ]
        else:
            split = graph.add("Split", self.linear(f"{name}.qkv", hidden), values=3, num_outputs=3, axis=-1)
        parts = [graph.add("Reshape", part, graph.integers(0, 0, heads, size // heads)) for part in split]
        query = graph.add("Transpose", parts[0], perm=[0, 2, 1, 3])  # (batch, heads, tokens, size)
        key = graph.add("Transpose", parts[1], perm=[0, 2, 3, 1])
        value = graph.add("Transpose", parts[2], perm=[0, 2, 1, 3])
        scores = graph.add("Add", graph.add("MatMul", query, key), bias)
        attended = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
        attended = graph.add("Transpose", attended, perm=[0, 2, 1, 3])
        attended = self.linear(f"{name}.output", graph.add("Reshape", attended, graph.integers(0, 0, size)))
        return self.norm(f"{name}.norm", graph.add("Add", asking, attended))

    def feed_forward(self, name: str, hidden: str) -> str:
        wide = self.activate(self.config.activation, self.linear(f"{name}.up", hidden))
        return self.norm(f"{name}.norm", self.graph.add("Add", hidden, self.linear(f"{name}.down", wide)))

    # --- heads --------------------------------------------------------------------------------------------------

    def pool(self, hidden: str, name: str | None = None) -> str:
        """The pooled state of the first token, (batch, H), or a linear map of it."""
        pooled = str(self.graph.add("Tanh", self.linear("encoder.pooler", self.first_two(hidden))))
        return self.first(pooled if name is None else self.linear(name, pooled))

    def predict_words(self, hidden: str) -> str:
        """Logits of all words at each token; the product takes the word table as it lies there."""
        graph, name = self.graph, "heads.masked_lm"
        states = self.norm(f"{name}.norm", self.activate(self.config.activation, self.linear(f"{name}.dense", hidden)))
        flat = graph.add("Reshape", states, graph.integers(-1, self.config.embedding_size))
        bias = graph.tensor(f"{name}.bias", self.weights[f"{name}.bias"])
        logits = graph.add("Gemm", flat, self.words(), bias, transB=1)
        size = graph.add("Concat", graph.add("Shape", hidden, end=2), graph.integers(self.config.vocab_size), axis=0)
        return str(graph.add("Reshape", logits, size))

    def embed(self, hidden: str, attention_mask: str) -> str:
        """The mean of the states of each row's tokens, (batch, H), of length 1 if so configured."""
        graph = self.graph
        mask = graph.add("Cast", attention_mask, to=FLOAT)
        weights = graph.add("Unsqueeze", mask, graph.integers(1))  # (batch, 1, tokens)
        # Two rows, as in `first_two`.
        total = graph.add("MatMul", graph.add("Concat", weights, weights, axis=1), hidden)  # (batch, 2, H)
        total = graph.add("Slice", total, graph.integers(0), graph.integers(1), graph.integers(1))
        count = graph.add("Unsqueeze", graph.add("ReduceSum", mask, graph.integers(1)), graph.integers(1))
        mean = graph.add("Div", total, graph.add("Max", count, graph.number(1e-9)))
        if self.config.embedding_normalize:  # by a product, which sums a row alike whatever stands beside it
            square = graph.add("MatMul", mean, graph.add("Transpose", mean, perm=[0, 2, 1]))
            mean = graph.add("Div", mean, graph.add("Max", graph.add("Sqrt", square), graph.number(1e-12)))
        return str(graph.add("Squeeze", mean, graph.integers(1)))

    def find_answers(self, hidden: str, candidates: str) -> tuple[str, ...]:
        """The likeliest spans among the candidates, and whether there is an answer: `AnswerableSpanHead.search`."""
        graph, name = self.graph, "heads.answerable_spans"
        no_candidate = graph.add("Equal", candidates, graph.integer(0))
        start = self.only(self.column(f"{name}.start", hidden), no_candidate)
        probabilities = graph.add("Unsqueeze", graph.add("Softmax", start, axis=-1), graph.integers(1))
        expected = graph.add("Squeeze", graph.add("MatMul", probabilities, hidden), graph.integers(1))
        both = graph.add("Concat", expected, self.first(hidden), axis=-1)
        answerable = self.column(f"{name}.answerable", graph.add("Tanh", self.linear(f"{name}.answerable_dense", both)))
        num_tokens = graph.add("Shape", hidden, start=1, end=2)
        width = graph.add("Min", num_tokens, graph.integers(BEAM_SIZE))
        start_log_probs, starts = graph.add("TopK", graph.add("LogSoftmax", start, axis=-1), width, values=2)
        # (batch, k, 1, H) beside (batch, 1, tokens, H)
        states = graph.add("GatherND", hidden, graph.add("Unsqueeze", starts, graph.integers(2)), batch_dims=1)
        shape = graph.add(
            "Concat", graph.add("Shape", states, end=2), graph.add("Shape", hidden, start=1), axis=0
        )  # (batch, k, tokens, H)
        given = graph.add("Expand", graph.add("Unsqueeze", states, graph.integers(2)), shape)
        here = graph.add("Expand", graph.add("Unsqueeze", hidden, graph.integers(1)), shape)
        pairs = self.linear(f"{name}.end_dense", graph.add("Concat", here, given, axis=-1))
        end = self.column(f"{name}.end", self.norm(f"{name}.end_norm", graph.add("Tanh", pairs)))
        last = graph.add("Squeeze", num_tokens, graph.integers(0))
        places = graph.add("Range", graph.integer(0), last, graph.integer(1))
        is_before = graph.add("Less", places, graph.add("Unsqueeze", starts, graph.integers(2)))
        end = self.only(end, graph.add("Or", is_before, graph.add("Unsqueeze", no_candidate, graph.integers(1))))
        end_log_probs, ends = graph.add("TopK", graph.add("LogSoftmax", end, axis=-1), width, values=2)
        return start_log_probs, starts, end_log_probs, ends, answerable

    def column(self, name: str, states: str) -> str:
        """A linear map to one number: (…, H) → (…)."""
        return str(self.graph.add("Squeeze", self.linear(name, states), self.graph.integers(-1)))

    def only(self, logits: str, is_other: str) -> str:
        """Give all that are no candidates the lowest number."""
        lowest = self.graph.number(float(np.finfo(np.float32).min))
        return str(self.graph.add("Where", is_other, lowest, logits))

    def write_outputs(self, head: str) -> tuple[str, ...]:
        """The whole model; what it gives, in the order of `OUTPUTS`."""
        graph, inputs = self.graph, _INPUTS
        if head == "multiple-choice":  # (batch, options, tokens) → (batch · options, tokens)
            shape = graph.add("Concat", graph.integers(-1), graph.add("Shape", _INPUTS[0], start=2), axis=0)
            inputs = tuple(graph.add("Reshape", name, shape) for name in _INPUTS)
        found = self.write_head(head, self.encode(*inputs, first_only=head in POOLED), inputs[1])
        if head == "multiple-choice":
            return (graph.add("Reshape", found[0], graph.add("Shape", _INPUTS[0], end=2)),)
        return found

    def write_head(self, head: str, hidden: str, attention_mask: str) -> tuple[str, ...]:
        """What a head makes of the last states. Options of a choice stand in rows of their own."""
        match head:
            case "none":
                return hidden, self.pool(hidden)
            case "sentence-embedding":
                return hidden, self.embed(hidden, attention_mask)
            case "pretraining":
                return self.predict_words(hidden), self.pool(hidden, "heads.sentence")
            case "masked-lm":
                return (self.predict_words(hidden),)
            case "sequence-classification" | "multiple-choice":
                return (self.pool(hidden, "heads.classifier.linear"),)
            case "token-classification":
                return (self.linear("heads.classifier.linear", hidden),)
            case "question-answering":
                spans = self.linear("heads.spans", hidden)
                start, end = self.graph.add("Split", spans, values=2, num_outputs=2, axis=-1)
                return tuple(self.graph.add("Squeeze", one, self.graph.integers(-1)) for one in (start, end))
            case _:
                return self.find_answers(hidden, "answer_mask")


def scale_queries(config: ModelConfig, weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Maps to queries, keys and values whose queries are already divided by the root of the head's size."""
    size = config.attention_size
    scales = np.ones(3 * size, np.float32)
    scales[:size] = (size // config.num_heads) ** -0.5
    return {name: (array.T * scales).T for name, array in weights.items() if ".qkv." in name}


def list_int8_maps(weights: Mapping[str, NDArray[Any]]) -> list[str]:
    """What may be stored as int8: the words, the projection behind them, and the maps of the layers. Heads stay."""
    names = [name.removesuffix(".weight") for name, array in weights.items() if array.ndim == 2]
    layers = ("encoder.attention.", "encoder.feed_forward.", _WORDS, "encoder.embeddings.projection")
    return sorted(name for name in names if name.startswith(layers))


def build_onnx(
    config: ModelConfig,
    head: Head,
    weights: Mapping[str, NDArray[Any]],
    depth: int | None = None,
    int8: Int8 | None = None,
) -> bytes:
    """A model as an ONNX file, from its weights by the names that they have in memory.

    `depth` writes another number of layers than its own.
    """
    writer = _begin(config, weights, depth, int8)
    for value, name in zip(writer.write_outputs(head), OUTPUTS[head], strict=True):
        writer.graph.put_out(value, name)
    shape = ("batch", "options", "tokens") if head == "multiple-choice" else _TOKENS
    about = {"head": head, "layers": str(len(writer.plan)), "max_positions": str(config.max_positions)}
    labels = {"labels": json.dumps(config.labels, ensure_ascii=False)} if config.labels else {}
    return writer.graph.write(dict.fromkeys(list_inputs(head), shape), OUTPUTS[head], about | labels)


def build_part(
    config: ModelConfig,
    head: Head,
    weights: Mapping[str, NDArray[Any]],
    part: Literal["embeddings", "head"] | tuple[int, int],
    int8: Int8 | None = None,
) -> bytes:
    """An ONNX file with the embeddings of a model, the layer of two blocks, or its head; `hidden` are its states."""
    writer = _begin(config, weights, None, int8)
    graph, states = writer.graph, {"hidden": (*_TOKENS, "hidden")}
    if part == "embeddings":
        graph.put_out(writer.embed_tokens(_INPUTS[0], _INPUTS[2]), "hidden")
        return graph.write({_INPUTS[0]: _TOKENS, _INPUTS[2]: _TOKENS}, states)
    given = {"attention_mask": _TOKENS, **dict.fromkeys(list_inputs(head)[3:], _TOKENS)}
    if part == "head":
        for value, name in zip(writer.write_head(head, "states", "attention_mask"), OUTPUTS[head], strict=True):
            graph.put_out(value, name)
        return graph.write({"states": states["hidden"], **given}, OUTPUTS[head])
    graph.put_out(writer.run_layer(part, "states", writer.bias_attention("attention_mask")), "hidden")
    return graph.write({"states": states["hidden"], "attention_mask": _TOKENS}, states)


def build_product(weight: NDArray[Any], is_unsigned: bool) -> bytes:
    """One product of whole numbers alone, to try what the machine makes of it."""
    graph = _Graph()
    graph.put_out(graph.multiply_int8(graph.round("states"), "weight", weight, is_unsigned), "product")
    return graph.write({"states": ("rows", "inputs")}, {"product": ("rows", "outputs")})


def _begin(config: ModelConfig, weights: Mapping[str, NDArray[Any]], depth: int | None, int8: Int8 | None) -> _Writer:
    num_bytes = sum(array.nbytes for array in weights.values())
    if num_bytes > LARGEST:
        raise RequestError(f"the weights have {num_bytes:,} bytes; one ONNX file holds at most 2 GB")
    return _Writer(config, weights, depth, int8)


def list_inputs(head: Head) -> list[str]:
    """What the file of a head takes."""
    return [*_INPUTS, *(["answer_mask"] if head == "answerable-question-answering" else [])]
