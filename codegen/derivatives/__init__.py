"""Stage 6, derivatives: the entries of derivatives.yaml are analysed and joined to the operators.

In: entries of derivatives.yaml, `NativeFunctions`, helpers. Out: `Derivatives`, a `DifferentiableFunction` for every
operator and variant. The stage is `derivatives.analyse_entries`; `specification.load` runs all stages up to here for a
target.
"""
