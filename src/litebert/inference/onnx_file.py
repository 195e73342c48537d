"""ONNX files: nodes, tensors and graphs as bytes, in the form of protocol buffers that `onnx.proto` describes.

The package `onnx` does this as well, for 31 MB on disk and an eighth of a second at every start; these few messages do
not need it. The tests compare them with its own.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FLOAT", "INT64", "Node", "write_model"]

FLOAT, INT64 = 1, 7
_TYPES = {"float32": FLOAT, "uint8": 2, "int8": 3, "int64": INT64}
_IR_VERSION = 9
_VARINT, _BYTES, _FIXED32 = 0, 2, 5  # how a field is stored
Chunks = list[bytes]
"""A message in pieces, so that weights are copied once."""
Attribute = int | float | str | Sequence[int]
Shape = tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """An operator with the names of what it takes and gives."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    domain: str = ""

    def pack(self) -> Chunks:
        """The message `NodeProto`."""
        found = [*_texts(1, self.inputs), *_texts(2, self.outputs), *_texts(4, [self.operator])]
        for name, value in self.attributes.items():
            found += _message(5, _pack_attribute(name, value))
        return [*found, *_texts(7, [self.domain] if self.domain else [])]


def write_model(
    nodes: Iterable[Node],
    tensors: Mapping[str, NDArray[np.generic]],
    inputs: Mapping[str, tuple[int, Shape]],
    outputs: Mapping[str, tuple[int, Shape]],
    versions: Mapping[str, int],
    about: Mapping[str, str],
) -> bytes:
    """The message `ModelProto`: inputs and outputs with their types and shapes, versions of operators by domain."""
    graph: Chunks = []
    for node in nodes:
        graph += _message(1, node.pack())
    graph += _texts(2, ["litebert"])
    for name, array in tensors.items():
        graph += _message(5, _pack_tensor(name, array))
    for number, values in ((11, inputs), (12, outputs)):
        for name, (kind, shape) in values.items():
            graph += _message(number, _pack_value(name, kind, shape))
    model = [*_integer(1, _IR_VERSION), *_texts(2, ["litebert"]), *_message(7, graph)]
    for domain, version in versions.items():
        model += _message(8, [*_texts(1, [domain]), *_integer(2, version)])
    for key, value in about.items():
        model += _message(14, [*_texts(1, [key]), *_texts(2, [value])])
    return b"".join(model)


def _pack_attribute(name: str, value: Attribute) -> Chunks:
    """`AttributeProto`; its type is field 20."""
    begin = _texts(1, [name])
    match value:
        case int():
            return [*begin, *_integer(3, value), *_integer(20, 2)]
        case float():
            return [*begin, _tag(2, _FIXED32), struct.pack("<f", value), *_integer(20, 1)]
        case str():
            return [*begin, *_texts(4, [value]), *_integer(20, 3)]
        case _:
            return [*begin, *_integers(8, value), *_integer(20, 7)]


def _pack_tensor(name: str, array: NDArray[np.generic]) -> Chunks:
    """`TensorProto`, its numbers as they lie in memory, little-endian."""
    stored = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    dims = _integers(1, array.shape)
    return [*dims, *_integer(2, _TYPES[array.dtype.name]), *_texts(8, [name]), *_message(9, [stored.tobytes()])]


def _pack_value(name: str, kind: int, shape: Shape) -> Chunks:
    """`ValueInfoProto`: a tensor whose sizes are free, by name."""
    dims: Chunks = []
    for size in shape:
        dims += _message(1, _texts(2, [size]))
    tensor = [*_integer(1, kind), *_message(2, dims)]
    return [*_texts(1, [name]), *_message(2, _message(1, tensor))]


def _message(number: int, content: Chunks) -> Chunks:
    return [_tag(number, _BYTES), _varint(sum(map(len, content))), *content]


def _texts(number: int, texts: Iterable[str]) -> Chunks:
    found: Chunks = []
    for text in texts:
        found += _message(number, [text.encode("utf-8")])
    return found


def _integer(number: int, value: int) -> Chunks:
    return [_tag(number, _VARINT), _varint(value)]


def _integers(number: int, values: Iterable[int]) -> Chunks:
    return _message(number, [_varint(int(value)) for value in values])


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; negative numbers as 64 bits.

    >>> _varint(300).hex(), _varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
