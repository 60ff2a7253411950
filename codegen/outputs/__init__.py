"""Stage 9, outputs: the text of every generated file, through the templates.

In: a `Specification`. Out: {path: text}. The stage is `render.render_package`. `support` determines the features that
an operator supports, for documentation and tools.
"""
