"""Stage 3, the languages of `kernel:` and of formulas: text becomes checked and resolved expressions.

In: a `Text` and what it may name (a schema, a `Scope`). Out: for a kernel a `KernelExpr`, for a formula a `Resolved`
and its generated code with what it saves. The stage is `kernels.analyse` for kernels; for formulas `formula.parse`,
`names.resolve` and `saving.write_backward` or `write_forward`.
"""
