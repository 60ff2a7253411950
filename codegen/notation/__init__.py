"""Stage 7, notation: derivatives in mathematical notation.

In: a `DifferentiableFunction`, and the helpers that its formulas call. Out: `Equations`, as LaTeX, MathML or text, and
docstrings. The stage is `equations.Notation.of`.
"""
