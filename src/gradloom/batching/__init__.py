"""Batching: tensors that stand for a batch of tensors, and the rules by which operators compute on them.

Note [Batching]
`vmap(f)(x)` calls f once, with a `BatchedTensor` in the place of x. Whatever f asks of it (shape, dtype, dim) is that
of one example; it holds the *physical* tensor with all examples, of which dimension 0 is the batch. An operator that
meets one comes here (`answer.answer`), and its batching rule calls ordinary operators on the physical tensors. These
record history and carry tangents as always, so there is no second autograd: a batched tensor requires grad if its
physical tensor does, and its gradient is that tensor's gradient.

Every vmap that is running has a `Level`; `state.batching` lists those of this thread, outermost first. The physical
tensor of an inner vmap's tensor may itself be batched at an outer level. A call is answered for the innermost level
among its arguments, and what the rule calls then meets the next one. Physical dimensions are therefore in the order
of the levels, outermost first.

Which rule an operator has is said in native_functions.yaml, most often by its tags: Note [Batching rules] in
`rules/__init__.py`. `generated/batching.py` has the table. An operator without a rule is called for one example after
the other, with a warning.

Layout: `levels` (which vmaps run), `tensor` (BatchedTensor), `call` (an operator's call, by parameter), `answer` (from
call to rule), `rules/` (the rules), `mapping` (vmap itself), `gradients` (autograd.grad on batched tensors),
`functions` (custom Functions).
"""
