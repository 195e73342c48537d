"""Layers in C, for CPUs with AVX-512: compiled when the package is installed, where there is a compiler."""
