"""Tools that need both the library and its generator; the commands of the command line start them."""
