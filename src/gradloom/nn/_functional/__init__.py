"""The functions of `gradloom.nn.functional` that are written in Python, by family.

They turn users' arguments (names of reductions, None for a default, inplace=True) into calls of operators.
"""
