// A library with an allocator of its own, for programs that open it while they run.
