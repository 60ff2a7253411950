"""What operators compute for sparse tensors: the functions that the key `sparse:` of their entries names.

A kernel gets the arguments of the overload, below autograd, and returns the result. A file has the name of a family.
"""

from . import elementwise as elementwise, matmul as matmul, reduction as reduction, shape as shape
