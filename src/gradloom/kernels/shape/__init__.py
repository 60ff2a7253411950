"""Shape kernels. Views share the memory of their input and never copy; everything else returns memory of its own."""
