"""The parts of `gradloom.nn.functional` that are written in Python, by family.

They turn the arguments that users give (names of reductions, None for a default, inplace=True) into calls of
operators; what they compute, the operators compute.
"""
