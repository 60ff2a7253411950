"""Old and private names of PyTorch that resolve here: legacy tensor types, the old file format, absent devices."""
