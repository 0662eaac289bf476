"""Expectations of one input as functions of its kernel, tabulated."""
