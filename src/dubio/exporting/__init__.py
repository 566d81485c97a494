"""A network and its noise as a graph that others can run: ONNX, or torch's own format."""
