// strain WAY [ARGUMENT...]: does what makes a profiler with little room lose something. Says "ready
// PID", waits for a line on stdin, says "begun" once all of its threads are at it, and goes on
// until stdin is closed.
//
//   sleepers N        N threads that nap for a millisecond, each deeper in its stack than the last
//   births N MS       N threads at a time that live for MS milliseconds, over and over
//   herd N MS         N threads that wait for one futex, and are all woken every MS milliseconds
//   children N        N processes that only wait
//   switches          two pairs of threads that wake each other, with a short pause every 500 times
//   touch             two threads that touch fresh memory
//   disk              two threads that read past the page cache
//   maps              two threads that map and unmap memory, and one that naps below them
//   jemallocs LIB...  a thread that allocates from each of these libraries in turn
//   modules LIB...    a thread that opens one library after the other and naps in PluginNap
//   closes LIB...     the same, but each but the last is closed before the next one is opened
//   foreign FILE      a thread that waits in code of a file that is no ELF file
//   endings           a thread for each way in which a stack ends before its root, named so
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tests/targets/meter.h"

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStack = 128 << 10;

void Expect(bool holds, const char* what) {
  if (holds) return;
  perror(what);
  _exit(3);
}

void Nap(int64_t ns) {
  const timespec time{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  nanosleep(&time, nullptr);
}

std::atomic<int> begun;
std::atomic<bool> ending;  // never

pthread_t Begin(const char* name, void* (*body)(void*), void* argument = nullptr,
                size_t stack = kStack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_t thread;
  Expect(pthread_create(&thread, &attributes, body, argument) == 0, "pthread_create");
  pthread_setname_np(thread, name);
  pthread_attr_destroy(&attributes);
  return thread;
}

void AwaitBegun(int threads) {
  while (begun.load() < threads) Nap(1'000'000);
}

void* Number(int64_t number) { return reinterpret_cast<void*>(number); }
int64_t NumberOf(void* argument) { return reinterpret_cast<int64_t>(argument); }

// Each level is a frame of its own.
KEEP_FRAME int64_t SleepDeep(int64_t depth) {
  if (depth > 0) return SleepDeep(depth - 1) + 1;
  ++begun;
  while (!ending.load()) Nap(1'000'000);
  return 0;
}

void* Sleeper(void* depth) { return Number(SleepDeep(NumberOf(depth))); }

void Sleepers(int count) {
  for (int i = 0; i < count; ++i) Begin("sleeper", Sleeper, Number(i), 64 << 10);
  AwaitBegun(count);
}

void* ShortLife(void* ms) {
  Nap(NumberOf(ms) * 1'000'000);
  return nullptr;
}

std::atomic<uint32_t> herd;

void* AwaitHerd(void*) {
  ++begun;
  while (!ending.load()) {
    syscall(SYS_futex, &herd, FUTEX_WAIT_PRIVATE, herd.load(), nullptr, nullptr, 0);
  }
  return nullptr;
}

void* WakeHerd(void* ms) {
  while (!ending.load()) {
    Nap(NumberOf(ms) * 1'000'000);
    ++herd;
    syscall(SYS_futex, &herd, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }
  return nullptr;
}

void Herd(int count, int64_t ms) {
  for (int i = 0; i < count; ++i) Begin("herd", AwaitHerd, nullptr, 64 << 10);
  AwaitBegun(count);
  Begin("herder", WakeHerd, Number(ms));
}

struct Births {
  int count;
  int64_t ms;
};

void* Bear(void* argument) {
  const Births births = *static_cast<Births*>(argument);
  auto* threads = new pthread_t[births.count];
  ++begun;
  while (true) {
    for (int i = 0; i < births.count; ++i) {
      threads[i] = Begin("brief", ShortLife, Number(births.ms), 32 << 10);
    }
    for (int i = 0; i < births.count; ++i) pthread_join(threads[i], nullptr);
  }
}

void Children(int count) {
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    Expect(child >= 0, "fork");
    if (child != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
}

struct Pair {
  int to[2], back[2];
};

// Pauses now and then. Linux 6.18 can starve all else on a CPU, for minutes, while a pair of
// threads in a group of tasks never leaves it to others.
void* Ping(void* argument) {
  constexpr int kRounds = 500;
  constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 500'000};
  const Pair& pair = *static_cast<Pair*>(argument);
  ++begun;
  int round = 0;
  for (char c = 0; write(pair.to[1], &c, 1) == 1 && read(pair.back[0], &c, 1) == 1;) {
    if (++round % kRounds == 0) nanosleep(&kPause, nullptr);
  }
  return nullptr;
}

void* Pong(void* argument) {
  const Pair& pair = *static_cast<Pair*>(argument);
  ++begun;
  for (char c = 0; read(pair.to[0], &c, 1) == 1 && write(pair.back[1], &c, 1) == 1;) {
  }
  return nullptr;
}

void Switches() {
  static Pair pairs[2];
  for (Pair& pair : pairs) {
    Expect(pipe(pair.to) == 0 && pipe(pair.back) == 0, "pipe");
    Begin("ping", Ping, &pair);
    Begin("pong", Pong, &pair);
  }
  AwaitBegun(4);
}

char* Map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Expect(memory != MAP_FAILED, "mmap");
  return static_cast<char*>(memory);
}

void* ReadDisk(void*) {
  char path[] = "/var/tmp/strain-XXXXXX";
  const int file = mkstemp(path);
  Expect(file >= 0, "mkstemp");
  auto* buffer = static_cast<char*>(aligned_alloc(kPage, kPage));
  memset(buffer, 1, kPage);
  Expect(write(file, buffer, kPage) == static_cast<ssize_t>(kPage) && fsync(file) == 0, "write");
  const int direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
  Expect(direct >= 0 && unlink(path) == 0, "open with O_DIRECT");
  ++begun;
  while (!ending) {
    Expect(pread(direct, buffer, kPage, 0) == static_cast<ssize_t>(kPage), "pread");
    Nap(1'000'000);
  }
  return nullptr;
}

void* Touch(void*) {
  constexpr size_t kBytes = 1 << 20;
  ++begun;
  while (true) {
    char* memory = Map(kBytes);
    for (size_t at = 0; at < kBytes; at += kPage) memory[at] = 1;
    munmap(memory, kBytes);
    Nap(100'000);
  }
}

void* MapAndUnmap(void*) {
  ++begun;
  while (true) {
    char* memory = Map(8 * kPage);
    memory[0] = 1;
    munmap(memory, 8 * kPage);
  }
}

// jemallocs: each library brings its own malloc.
struct Library {
  void* (*allocate)(size_t);
  void (*release)(void*);
};
constexpr int kMostLibraries = 8;
Library libraries[kMostLibraries];
int library_count;

void* AllocateFromAll(void*) {
  ++begun;
  while (true) {
    for (int i = 0; i < library_count; ++i) {
      for (int k = 0; k < 64; ++k) {
        void* memory = libraries[i].allocate(4096);
        Expect(memory != nullptr, "malloc of a library");
        libraries[i].release(memory);
      }
    }
    Nap(100'000);
  }
}

void Jemallocs(char** paths) {
  for (; *paths != nullptr && library_count < kMostLibraries; ++paths) {
    void* library = dlopen(*paths, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
    Expect(library != nullptr, "dlopen");
    Library& entry = libraries[library_count++];
    entry.allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "malloc"));
    entry.release = reinterpret_cast<void (*)(void*)>(dlsym(library, "free"));
    Expect(entry.allocate != nullptr && entry.release != nullptr, "dlsym");
  }
  Begin("allocator", AllocateFromAll);
  AwaitBegun(1);
}

constexpr int kNaps = 10;

// Naps in a library.
void* OpenAndNap(const char* path, int naps) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  Expect(library != nullptr, "dlopen");
  auto* nap = reinterpret_cast<void (*)(int64_t)>(dlsym(library, "PluginNap"));
  Expect(nap != nullptr, "dlsym");
  for (int i = 0; i < naps; ++i) nap(20'000);
  return library;
}

void* OpenOneAfterTheOther(void* argument) {
  ++begun;
  for (auto** path = static_cast<char**>(argument); *path != nullptr; ++path)
    OpenAndNap(*path, kNaps);
  while (true) pause();
}

void* OpenAndCloseEach(void* argument) {
  ++begun;
  for (auto** path = static_cast<char**>(argument); *path != nullptr; ++path) {
    // It stays in the last one: nobody knows when there will be room for it.
    const bool last = path[1] == nullptr;
    Expect(dlclose(OpenAndNap(*path, last ? INT_MAX : kNaps)) == 0, "dlclose");
  }
  return nullptr;
}

// pause() for ever, without a stack or a rule.
constexpr unsigned char kPauseCode[] = {
    0x31, 0xed,                    // xor %ebp, %ebp
    0xb8, 0x22, 0x00, 0x00, 0x00,  // mov $34, %eax
    0x0f, 0x05,                    // syscall
    0xeb, 0xf7,                    // jmp to the mov
};

void* RunCode(void* code) {
  ++begun;
  reinterpret_cast<void (*)()>(code)();
  return nullptr;
}

void Foreign(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
  Expect(file >= 0, path);
  char page[kPage] = {};
  memcpy(page, kPauseCode, sizeof(kPauseCode));
  Expect(write(file, page, sizeof(page)) == sizeof(page), "write");
  void* code = mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  Expect(code != MAP_FAILED, "mmap");
  Begin("foreign", RunCode, code);
  AwaitBegun(1);
}

}  // namespace

// Each waits for ever in a place whose rule leads nowhere, and on a stack that it needs no more.
extern "C" {
void EndNotGrowing();
void EndNotSupported();
void EndNotMapped();
void EndUnreadable(void* stack);
}
asm(R"(
  .macro PAUSE_FOR_EVER
1: mov $34, %eax
  syscall
  jmp 1b
  .endm

  .text
  .type EndNotGrowing, @function
EndNotGrowing:
  .cfi_startproc
  lea -256(%rsp), %rbp
  .cfi_def_cfa rbp, 16
  PAUSE_FOR_EVER
  .cfi_endproc
  .size EndNotGrowing, . - EndNotGrowing

  .type EndNotSupported, @function
EndNotSupported:
  .cfi_startproc
  mov %rsp, %r12
  .cfi_def_cfa r12, 8
  PAUSE_FOR_EVER
  .cfi_endproc
  .size EndNotSupported, . - EndNotSupported

  .type EndNotMapped, @function
EndNotMapped:
  .cfi_startproc
  push $0x1000
  PAUSE_FOR_EVER
  .cfi_endproc
  .size EndNotMapped, . - EndNotMapped

  .type EndUnreadable, @function
EndUnreadable:
  .cfi_startproc
  mov %rdi, %rsp
  PAUSE_FOR_EVER
  .cfi_endproc
  .size EndUnreadable, . - EndUnreadable
)");

namespace {

void* NotGrowing(void*) {
  ++begun;
  EndNotGrowing();
  return nullptr;
}
void* NotSupported(void*) {
  ++begun;
  EndNotSupported();
  return nullptr;
}
void* NotMapped(void*) {
  ++begun;
  EndNotMapped();
  return nullptr;
}
void* Unreadable(void* stack) {
  ++begun;
  EndUnreadable(stack);
  return nullptr;
}

// The kernel's thread that looks for requests of this process sleeps as long as there are none.
void StartKernelThread() {
  io_uring_params parameters = {};
  parameters.flags = IORING_SETUP_SQPOLL;
  parameters.sq_thread_idle = 1;
  Expect(syscall(SYS_io_uring_setup, 4, &parameters) >= 0, "io_uring_setup");
}

void Endings() {
  Begin("too-deep", Sleeper, Number(400));
  char* code = Map(kPage);
  memcpy(code, kPauseCode, sizeof(kPauseCode));
  Expect(mprotect(code, kPage, PROT_READ | PROT_EXEC) == 0, "mprotect");
  Begin("no-rule", RunCode, code);
  Begin("not-growing", NotGrowing);
  Begin("not-supported", NotSupported);
  Begin("not-mapped", NotMapped);
  // Not unmapped: another mapping might take its place. Before the thread is there: one that rests
  // is walked once.
  char* hole = Map(2 * kPage);
  Expect(mprotect(hole, 2 * kPage, PROT_NONE) == 0, "mprotect");
  Begin("unreadable", Unreadable, hole + kPage);
  AwaitBegun(6);
  StartKernelThread();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* way = argv[1];
  const auto number = [&](int index) { return argc > index ? atoi(argv[index]) : 1; };
  printf("ready %d\n", getpid());
  fflush(stdout);
  char line[64];
  if (fgets(line, sizeof(line), stdin) == nullptr) return 0;
  Births births = {number(2), number(3)};
  if (strcmp(way, "sleepers") == 0) {
    Sleepers(number(2));
  } else if (strcmp(way, "births") == 0) {
    Begin("parent", Bear, &births);
    AwaitBegun(1);
  } else if (strcmp(way, "herd") == 0) {
    Herd(number(2), number(3));
  } else if (strcmp(way, "children") == 0) {
    Children(number(2));
  } else if (strcmp(way, "switches") == 0) {
    Switches();
  } else if (strcmp(way, "touch") == 0) {
    for (int i = 0; i < 2; ++i) Begin("toucher", Touch);
    AwaitBegun(2);
  } else if (strcmp(way, "disk") == 0) {
    for (int i = 0; i < 2; ++i) Begin("reader", ReadDisk);
    AwaitBegun(2);
  } else if (strcmp(way, "maps") == 0) {
    for (int i = 0; i < 2; ++i) Begin("mapper", MapAndUnmap);
    for (int i = 0; i < 4; ++i) Begin("sleeper", Sleeper, Number(8 + i));
    AwaitBegun(6);
  } else if (strcmp(way, "jemallocs") == 0) {
    Jemallocs(argv + 2);
  } else if (strcmp(way, "modules") == 0) {
    Begin("opener", OpenOneAfterTheOther, argv + 2);
    AwaitBegun(1);
  } else if (strcmp(way, "closes") == 0) {
    Begin("opener", OpenAndCloseEach, argv + 2);
    AwaitBegun(1);
  } else if (strcmp(way, "foreign") == 0 && argc > 2) {
    Foreign(argv[2]);
  } else if (strcmp(way, "endings") == 0) {
    Endings();
  } else {
    return 2;
  }
  printf("begun\n");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != nullptr) {
  }
  _exit(0);
}
