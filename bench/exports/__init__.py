"""A smaller model as files that run without headbench: ONNX graphs, or a GGUF file for llama.cpp."""
