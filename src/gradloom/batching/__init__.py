"""Batching: tensors of which vmap computes all batch elements at once, and the batching rules of operators.

Note [Batching]
`vmap(f)(x)` calls f once, with a `BatchedTensor` in place of x. Its shape, dtype and dim are those of one batch
element; its *physical* tensor has all batch elements along dimension 0. A call of an operator on it is intercepted
(`answer.answer`), and the operator's batching rule calls ordinary operators on the physical tensors. These record
history and carry tangents as always, so there is no second autograd: a batched tensor requires grad if its physical
tensor does, and its gradient is that tensor's gradient.

Every running vmap has a `Level`; `state.batching` lists those of this thread, outermost first. The physical tensor of
an inner vmap's tensor may itself be batched at an outer level. A call is handled at the innermost level among its
arguments, and the operators that the rule calls at the next one. Physical dimensions are therefore in the order of the
levels, outermost first.

native_functions.yaml says which rule an operator has, mostly by its tags: see Note [Batching rules] in
`rules/__init__.py`. `generated/batching.py` has the table. An operator without a rule runs for one batch element after
the other, with a warning.

Layout: `levels` (which vmaps run), `tensor` (BatchedTensor), `call` (an operator's call, by parameter), `answer` (from
call to rule), `rules/` (the rules), `mapping` (vmap itself), `gradients` (autograd.grad on batched tensors),
`functions` (custom Functions).
"""
