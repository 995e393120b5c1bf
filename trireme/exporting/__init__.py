"""Write a model as ONNX, load it back, and compare."""
