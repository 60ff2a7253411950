"""Tools that need both the library and its generator, and the command line that starts them (`cli`, `commands`)."""
