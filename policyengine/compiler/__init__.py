"""Policies to a program, and a program to what engines load."""

from policyengine.compiler.pipeline import compile_policies

__all__ = ["compile_policies"]
