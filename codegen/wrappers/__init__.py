"""Stage 7, wrappers and nodes: everything that the templates of generated functions print is decided.

In: `DifferentiableFunction`s and a `Notation`. Out: `Wrapper`s, `NodeClass`es and `PublicName`s. The stage is
`wrappers.make_all`.
"""
