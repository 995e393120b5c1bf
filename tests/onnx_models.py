"""The smallest ONNX models there are."""


def of_one(operator):
    """A model of one operator, on rows of two numbers."""
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 2])
    y = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 2])
    graph = helper.make_graph([helper.make_node(operator, ["input"], ["output"])], "g", [x], [y])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
