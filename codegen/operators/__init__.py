"""Stage 4, operators: the entries of native_functions.yaml become operators with kernels and variants.

In: entries of native_functions.yaml and the folders of kernels and composites. Out: `NativeFunctions`. The stage is
`native_functions.analyse_entries`.
"""
