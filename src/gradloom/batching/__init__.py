"""vmap: batched tensors, and the rules by which operators compute on them.

Note [Batching]
`vmap(f)(x)` calls f once, with a `BatchedTensor` in place of x. Its metadata (shape, dtype, dim) are those of one batch
element; it holds the *physical* tensor of all elements, whose dimension 0 is the batch. The call of an operator with
such an argument goes to `handler.handle_call`, and the operator's batching rule calls ordinary operators on physical
tensors. These record history and carry tangents as always, so there is no second autograd: a batched tensor requires
grad if its physical tensor does, and its gradient is that tensor's gradient.

Every running vmap has a `Level`; `state.batching` lists the levels of this thread, outermost first. The physical tensor
of an inner level may itself be batched at an outer level. A call is handled at the innermost level among its arguments;
the operators that the rule calls are then handled at the next one. Physical dimensions are therefore in the order of
the levels, outermost first.

native_functions.yaml declares the rule of each operator, usually by its tags: Note [Batching rules] in
`rules/__init__.py`. An operator without a rule is called once per batch element, with a warning.

Layout: `levels` (which vmaps run), `tensor` (BatchedTensor), `call` (an operator's call, by parameter), `handler` (from
call to rule), `rules/` (the rules), `mapping` (vmap itself), `gradients` (autograd.grad on batched tensors),
`functions` (custom Functions).
"""
