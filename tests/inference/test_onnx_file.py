"""What is written by hand is what the library of the format reads and writes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from litebert.inference.onnx_file import FLOAT, INT64, Node, write_model
from tests.conftest import need

onnx = need("onnx")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
)


@given(st.dictionaries(NAMES, VALUES), st.lists(NAMES), st.lists(NAMES), NAMES)
def test_nodes(attributes: dict[str, object], inputs: list[str], outputs: list[str], domain: str) -> None:
    node = Node("Some", tuple(inputs), tuple(outputs), attributes, domain)  # type: ignore[arg-type]
    expected = onnx.helper.make_node("Some", inputs, outputs, domain=domain)
    expected.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in attributes.items())
    assert onnx.NodeProto.FromString(b"".join(node.pack())) == expected


@given(
    st.sampled_from(["float32", "int64", "uint8", "int8"]),
    st.lists(st.integers(0, 4), max_size=3),
    st.booleans(),
)
def test_a_model(kind: str, shape: list[int], turned: bool) -> None:
    array = np.random.default_rng(0).integers(0, 100, shape).astype(kind)
    array = array.T if turned else array
    content = write_model(
        [Node("Identity", ("x",), ("y",), {})],
        {"weights": array},
        {"x": (FLOAT, ("batch", "tokens"))},
        {"y": (INT64, ("batch",))},
        {"": 20, "com.microsoft": 1},
        {"head": "none", "labels": '["ä"]'},
    )
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "litebert",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", "tokens"])],
        [helper.make_tensor_value_info("y", INT64, ["batch"])],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), "weights")],
    )
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    expected = helper.make_model(graph, opset_imports=domains, ir_version=9, producer_name="litebert")
    helper.set_model_props(expected, {"head": "none", "labels": '["ä"]'})
    assert onnx.load_from_string(content) == expected
