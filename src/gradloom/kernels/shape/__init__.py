"""Shape kernels. Views share the memory of their input and never copy; all others return new memory."""
