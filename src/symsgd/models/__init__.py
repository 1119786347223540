"""Models on disk, for other runtimes, and for people."""

from symsgd.models.disk import load, save
from symsgd.models.onnx import to_onnx
from symsgd.models.text import to_text

__all__ = ["load", "save", "to_onnx", "to_text"]
