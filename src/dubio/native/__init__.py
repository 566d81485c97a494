"""Noise at the price of memory: kernels in C behind one seam, `dubio.native.stream`."""
