"""A smaller model as graphs that run without headbench: ONNX, in which layers without heads have no attention."""
