"""Stage 5, derivation: an operator with a definition, and without an entry in derivatives.yaml, gets its formulas.

In: the definition (`scalar:`) and the schema of an operator. Out: the lines of an entry for derivatives.yaml, as text.
The stage is `derive.derive`. SymPy, which it needs, is loaded when the first operator is derived; what is derived is
kept in the generated package (Note [Derived entries] in gradloom.codegen.derivatives.derived).

    branches   the alternatives of a definition, each of which is smooth
    symbols    a smooth definition as an expression of SymPy, and back
    forms      ways to write its derivative
    measure    the error of each way, measured against more digits
    formulas   the chosen way in the language of formulas
"""
