"""`gradloom prove`: the formulas of operators with a definition, compared with its derivative by symbolic mathematics.

reading      formulas of derivatives.yaml, and the helpers that they call, in the scalar language
equality     whether two expressions of SymPy are equal
proving      a formula beside the derivative, alternative by alternative
command      the command
"""
