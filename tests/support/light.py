"""Torch without its compiler, for trainings that compile nothing.

The first optimizer imports `torch._dynamo`: 0.9 s of processor time, as much as torch itself, at each of some hundred
starts. The scripts that show how vtune watches torch (`tests/integration/worker/scripts`) keep it.
"""

# For the head of a script that is written here as text.
LIGHT = """
import sys, types
sys.modules["torch._dynamo"] = types.SimpleNamespace(disable=lambda call, *_, **__: call, graph_break=lambda: None)
"""
