"""Export a network and its noise as a graph: ONNX, or torch's own format."""
