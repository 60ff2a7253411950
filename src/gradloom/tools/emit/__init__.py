"""`gradloom emit torch|jax`: operators written out as a Python module that needs no gradloom.

library      what stands in the place of gradloom's operators, and the functions that a module carries along
translation  formulas and helpers, in terms of that library
definitions  kernels: a definition as operations on arrays, or a kernel of NumPy
operators    the operators of a module, each as what the template prints
of_torch     its formulas as an autograd.Function
of_jax       its formulas as the rule of a jax.custom_jvp function
command      the command
"""
