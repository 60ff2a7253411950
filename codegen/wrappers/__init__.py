"""Stage 8, wrappers and nodes: all decisions for the templates of generated functions.

In: `DifferentiableFunction`s and a `Notation`. Out: `Wrapper`s, `NodeClass`es and `PublicName`s. The stage is
`wrappers.make_all`.
"""
