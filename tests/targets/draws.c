/* draws SEED: allocates and frees without end, at rates that are known on the mean only, in plain
 * C.
 *
 *   StepParse  in NewNode 0 to 8 times 200 bytes by malloc, in NewBuffer 0 to 2 times 3,000
 *   StepRender in NewNode 0 to 4 times 500 bytes, in NewTable 0 to 2 times 100 * 100 by calloc
 *
 * Each number is drawn anew in every millisecond and for itself. What is allocated is freed after
 * some thousand allocations more. Says "ready PID". For each line on stdin it says what was
 * allocated so far, as a line of JSON: bytes by the two functions, as malloc_usable_size tells
 * them, what was freed, and when that was (ns since 1970). Ends when stdin is closed.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/targets/keep_frame.h"

enum place { PARSE_NODE, PARSE_BUFFER, RENDER_NODE, RENDER_TABLE, PLACES };
static const char* const names[PLACES] = {"StepParse/NewNode", "StepParse/NewBuffer",
                                          "StepRender/NewNode", "StepRender/NewTable"};

enum { KEPT = 4096 };
static void* kept[KEPT];
static size_t next_kept;

static _Atomic uint64_t allocated[PLACES], freed;
static uint64_t state;

/* SplitMix64. */
static uint64_t draw(uint64_t below) {
  uint64_t x = state += 0x9e3779b97f4a7c15;

  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return (x ^ (x >> 31)) % below;
}

KEEP_FRAME void FreeOldest(void) {
  atomic_fetch_add(&freed, malloc_usable_size(kept[next_kept]));
  free(kept[next_kept]);
}

static void keep(enum place place, void* memory) {
  if (!memory) abort();
  atomic_fetch_add(&allocated[place], malloc_usable_size(memory));
  if (kept[next_kept]) FreeOldest();
  kept[next_kept] = memory;
  next_kept = (next_kept + 1) % KEPT;
}

KEEP_FRAME void* NewNode(size_t size) { return malloc(size); }

KEEP_FRAME void* NewBuffer(void) { return malloc(3000); }

KEEP_FRAME void* NewTable(void) { return calloc(100, 100); }

KEEP_FRAME void StepParse(void) {
  for (uint64_t n = draw(9); n > 0; n--) keep(PARSE_NODE, NewNode(200));
  for (uint64_t n = draw(3); n > 0; n--) keep(PARSE_BUFFER, NewBuffer());
}

KEEP_FRAME void StepRender(void) {
  for (uint64_t n = draw(5); n > 0; n--) keep(RENDER_NODE, NewNode(500));
  for (uint64_t n = draw(3); n > 0; n--) keep(RENDER_TABLE, NewTable());
}

/* Once a millisecond, whatever it takes. */
KEEP_FRAME void* Work(void* unused) {
  struct timespec next;

  pthread_setname_np(pthread_self(), "draws-work");
  clock_gettime(CLOCK_MONOTONIC, &next);
  for (;;) {
    StepParse();
    StepRender();
    next.tv_nsec += 1000000;
    if (next.tv_nsec >= 1000000000) {
      next.tv_nsec -= 1000000000;
      next.tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
  }
  return unused;
}

int main(int argc, char** argv) {
  pthread_t thread;
  char line[64];

  state = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  if (pthread_create(&thread, NULL, Work, NULL)) abort();
  printf("ready %d\n", getpid());
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin)) {
    printf("{");
    for (int i = 0; i < PLACES; i++)
      printf("\"%s\":%" PRIu64 ",", names[i], atomic_load(&allocated[i]));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("\"freed\":%" PRIu64 ",\"now_ns\":%" PRId64 "}\n", atomic_load(&freed),
           (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    fflush(stdout);
  }
  _exit(0);
}
