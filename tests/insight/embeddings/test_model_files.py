"""What is written is read by the package `onnx` as it was meant."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, strategies as st
from onnx import helper, numpy_helper

from toolyard.insight.embeddings.model_files import encode_model, encode_node, encode_tensor

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@given(
    shape=st.lists(st.integers(0, 300), max_size=2).map(tuple),
    kind=st.sampled_from([np.float32, np.int8, np.int64]),
    turned=st.booleans(),
)
def test_tensors_of_any_shape_come_back(shape, kind, turned):
    array = (np.arange(np.prod(shape, dtype=int)) % 251 - 125).astype(kind).reshape(shape)
    array = array.T if turned else array
    read = onnx.TensorProto.FromString(encode_tensor("name", array))
    assert read.name == "name"
    assert np.array_equal(numpy_helper.to_array(read), array)


@given(whole=st.integers(0, 2**62), part=st.floats(width=32, allow_nan=False), domain=st.text(max_size=5))
def test_nodes_come_back_with_their_options(whole, part, domain):
    read = onnx.NodeProto.FromString(encode_node("Kind", ["a", "b"], ["c"], domain=domain, whole=whole, part=part))
    wanted = helper.make_node("Kind", ["a", "b"], ["c"], domain=domain, whole=whole, part=part)
    assert (list(read.input), list(read.output), read.op_type, read.domain) == (["a", "b"], ["c"], "Kind", domain)
    assert {one.name: helper.get_attribute_value(one) for one in read.attribute} == {
        one.name: helper.get_attribute_value(one) for one in wanted.attribute
    }


def test_a_model_is_whole_to_the_checker_of_onnx():
    rows = encode_tensor("rows", np.ones((9, 4), np.float32))
    nodes = [
        encode_node("Gather", ["rows", "ids"], ["found"], domain="", axis=0),
        encode_node("ReduceMean", ["found"], ["vector"], domain="", keepdims=0),
    ]
    model = onnx.load_from_string(encode_model(nodes, [rows], ids="ids", vector="vector", width=4, opsets={"": 20}))
    onnx.checker.check_model(model)
    assert [one.name for one in model.graph.input] == ["ids"]
    assert model.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 4
