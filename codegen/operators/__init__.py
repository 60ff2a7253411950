"""Stage 4, operators: the entries of native_functions.yaml become operators with kernels and variants.

In: entries of native_functions.yaml and the folders of kernels and composites. Out: `NativeFunctions` (model.py). The
stage is `native_functions.analyse_entries`; entries.py reads one entry, keys.py and the modules of features its keys.
"""
