/* For programs in C and in C++. */
#ifndef PROFD_TESTS_TARGETS_KEEP_FRAME_H_
#define PROFD_TESTS_TARGETS_KEEP_FRAME_H_

/* Keeps a function out of every optimisation across calls: its frame is there, under its name. */
#if defined(__clang__)
#define KEEP_FRAME __attribute__((noinline, optnone))
#else
#define KEEP_FRAME __attribute__((noipa))
#endif

#endif /* PROFD_TESTS_TARGETS_KEEP_FRAME_H_ */
