// alloc [KEY=VALUE...]: allocates and frees in known amounts at known places.
//
//   n=1000        allocations of each thread
//   size=4096     bytes of each
//   threads=1     named alloc0, alloc1, ...; they live as long as the program
//   sites=1       up to 16: each allocation is made in AllocSite0, AllocSite1 ..., in an order
//   without
//                 a pattern: an allocator that pauses every so many bytes would fall into step with
//                 one
//   skew=0        1: the first site has the most of them, the last the fewest
//   step=1        each site's objects are so many times as large, and as rare, as the one's before
//   calloc=0      percent of the allocations made by calloc,
//   aligned=0     by aligned_alloc to 64 bytes (the size is rounded up to that),
//   realloc=0     by malloc and a realloc to twice the size; the others by malloc
//   second=0      by the malloc of a second allocator, second_malloc, where one is linked or opened
//   open=PATH     opens that library for it, once the first line was read; then it waits for a line
//   more free=0        percent of the allocations that are freed again, what is of AllocSite0 in
//   FreeSite0,
//                 ...
//   by=self       who frees them: `self`, the `next` thread, or `main`
//   rate=0        MiB that all threads together allocate in a second; 0: as fast as they can
//   protect=0     MiB of which one more thread changes the protection without pause, once both
//   phases are
//                 over: the memory map is locked nearly all the time
//   dump=PATH     jemalloc's own heap profile: to PATH.0 before the first phase, to PATH.1 after
//                 the second
//
// Percentages are exact where n is a multiple of 100. Says "ready PID" and waits for a line on
// stdin before each of its two phases, allocating and freeing. Then it prints its account as a line
// of JSON, does what further lines say, and ends when stdin is closed:
//
//   exec PROGRAM [ARGUMENT...]   becomes another program
//   fork                         the child says "ready PID", waits for a line, allocates as one
//                                thread does, prints its account, waits for a line and ends
//   thread                       a thread more allocates as the others did, and ends; prints its
//   account
//
// "usable" is what the allocator says it gave
// (malloc_usable_size); a realloc counts as an allocation of the new size and a free of the old. Of
// what is "freed" the "released" is what FreeSite0 ... freed, where realloc freed the rest.
// Where the allocator is jemalloc, "counted" is what its own counters of the thread grew by.
// "mapped" is what the address space grew by from the first line on that lets it allocate.
// Nothing else in the program allocates during the phases.
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tests/targets/meter.h"

// Of jemalloc; null with another allocator.
extern "C" __attribute__((weak)) int mallctl(const char* name, void* old, size_t* old_size,
                                             void* changed, size_t changed_size);

// Of a second allocator, and of code that looks like an allocator's; null without.
extern "C" {
__attribute__((weak)) void* second_malloc(size_t size);
__attribute__((weak)) void second_free(void* memory);
__attribute__((weak)) size_t second_malloc_usable_size(void* memory);
__attribute__((weak)) int second_mallctl(const char* name, void* old, size_t* old_size,
                                         void* changed, size_t changed_size);
__attribute__((weak)) void RunDecoys();
}

namespace allocating {

constexpr int kMaxSites = 16;
constexpr int kMaxThreads = 1024;
constexpr size_t kAlignment = 64;

enum class Way { kMalloc, kCalloc, kAligned, kRealloc, kSecond };

struct Amount {
  uint64_t count = 0;
  uint64_t requested = 0;
  uint64_t usable = 0;

  void Add(size_t bytes, size_t given) {
    ++count;
    requested += bytes;
    usable += given;
  }
  void Add(const Amount& other) {
    count += other.count;
    requested += other.requested;
    usable += other.usable;
  }
};

struct Account {
  Amount allocated, freed, released;

  void Add(const Account& other) {
    allocated.Add(other.allocated);
    freed.Add(other.freed);
    released.Add(other.released);
  }
};

struct Block {
  void* memory;
  size_t requested;
  int site;
  bool second;  // the allocator
};

struct Allocator {
  decltype(&second_malloc) malloc = nullptr;
  decltype(&second_free) free = nullptr;
  decltype(&second_malloc_usable_size) usable_size = nullptr;
  decltype(&second_mallctl) mallctl = nullptr;
};

struct Options {
  uint64_t n = 1000;
  uint64_t size = 4096;
  uint64_t threads = 1;
  uint64_t sites = 1;
  uint64_t skew = 0;
  uint64_t step = 1;
  uint64_t calloc = 0;
  uint64_t aligned = 0;
  uint64_t realloc = 0;
  uint64_t second = 0;
  uint64_t free = 0;
  uint64_t rate = 0;
  uint64_t protect = 0;
  enum class By { kSelf, kNext, kMain } by = By::kSelf;
  const char* dump = nullptr;
  const char* open = nullptr;
};

struct Counters {
  uint64_t allocated = 0, freed = 0;
};

// What one thread did. `sites` is by the place of the allocation, also for what is freed.
struct Worker {
  int index = 0;
  int tid = 0;
  Block* blocks = nullptr;
  Account sites[kMaxSites];
  Account total;
  Counters before, after;
};

uint64_t mapped_before = 0;  // address space

Options options;
Allocator second;
Worker workers[kMaxThreads];
Worker main_worker;  // frees, where `by` says so; allocates in a forked child
pthread_barrier_t barrier;

void Check(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "alloc: %s: %s\n", what, strerror(errno));
  _exit(3);
}

// Inlined, so that the allocator's caller is the site.
__attribute__((always_inline)) inline void* Allocate(Way way, size_t size, Account* account) {
  void* memory = nullptr;
  switch (way) {
    case Way::kMalloc:
      memory = malloc(size);
      break;
    case Way::kCalloc:
      memory = calloc(1, size);
      break;
    case Way::kAligned:
      memory = aligned_alloc(kAlignment, size);
      break;
    case Way::kRealloc: {
      void* half = malloc(size / 2);
      const size_t given = malloc_usable_size(half);
      account->allocated.Add(size / 2, given);
      memory = realloc(half, size);
      account->freed.Add(size / 2, given);
      break;
    }
    case Way::kSecond:
      memory = second.malloc(size);
      break;
  }
  Check(memory != nullptr, "allocation");
  account->allocated.Add(
      size, way == Way::kSecond ? second.usable_size(memory) : malloc_usable_size(memory));
  return memory;
}

__attribute__((always_inline)) inline void Free(const Block& block) {
  if (block.second) {
    second.free(block.memory);
  } else {
    free(block.memory);
  }
}

// Functions of their own, whatever the optimiser would make of sixteen equal ones.
#define SITE(number)                                                                      \
  extern "C" KEEP_FRAME void* AllocSite##number(Way way, size_t size, Account* account) { \
    return Allocate(way, size, account);                                                  \
  }                                                                                       \
  extern "C" KEEP_FRAME void FreeSite##number(const Block& block) { Free(block); }

SITE(0)
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)
SITE(6)
SITE(7)
SITE(8)
SITE(9)
SITE(10)
SITE(11)
SITE(12)
SITE(13)
SITE(14)
SITE(15)

struct Site {
  void* (*allocate)(Way, size_t, Account*);
  void (*free)(const Block&);
};
constexpr Site kSites[kMaxSites] = {
    {AllocSite0, FreeSite0},   {AllocSite1, FreeSite1},   {AllocSite2, FreeSite2},
    {AllocSite3, FreeSite3},   {AllocSite4, FreeSite4},   {AllocSite5, FreeSite5},
    {AllocSite6, FreeSite6},   {AllocSite7, FreeSite7},   {AllocSite8, FreeSite8},
    {AllocSite9, FreeSite9},   {AllocSite10, FreeSite10}, {AllocSite11, FreeSite11},
    {AllocSite12, FreeSite12}, {AllocSite13, FreeSite13}, {AllocSite14, FreeSite14},
    {AllocSite15, FreeSite15}};

// Strides without a common factor with 100: in a row of 100, each percentage comes up once.
uint64_t WayPercent(uint64_t i) { return i * 37 % 100; }
uint64_t FreePercent(uint64_t i) { return i * 61 % 100; }

Way WayOf(uint64_t i) {
  const uint64_t percent = WayPercent(i);
  if (percent < options.calloc) return Way::kCalloc;
  if (percent < options.calloc + options.aligned) return Way::kAligned;
  if (percent < options.calloc + options.aligned + options.realloc) return Way::kRealloc;
  if (percent >= 100 - options.second) return Way::kSecond;
  return Way::kMalloc;
}

size_t SizeOf(Way way) {
  switch (way) {
    case Way::kMalloc:
    case Way::kCalloc:
    case Way::kSecond:
      return options.size;
    case Way::kAligned:
      return (options.size + kAlignment - 1) / kAlignment * kAlignment;
    case Way::kRealloc:
      return options.size * 2;
  }
  return 0;
}

// The finaliser of MurmurHash3.
int SiteOf(const Worker* worker, uint64_t i) {
  uint64_t h = i + static_cast<uint64_t>(worker->index) * 0x9e3779b97f4a7c15;
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53;
  h ^= h >> 33;
  if (options.step > 1) {
    // Each is as likely as the one before, by `step`.
    double all = 0, part = 1;
    for (uint64_t k = 0; k < options.sites; ++k, part /= static_cast<double>(options.step)) {
      all += part;
    }
    double rest = all * static_cast<double>(h >> 11) / static_cast<double>(uint64_t{1} << 53);
    uint64_t site = 0;
    for (part = 1; site + 1 < options.sites && rest >= part; ++site) {
      rest -= part;
      part /= static_cast<double>(options.step);
    }
    return static_cast<int>(site);
  }
  const uint64_t site = h % options.sites;
  return static_cast<int>(options.skew == 0 ? site : std::min(site, (h >> 32) % options.sites));
}

// Sleeps as long as a thread is ahead of its part of `rate`.
class Pace {
 public:
  explicit Pace(const Account* sites) : sites_(sites) {
    if (options.rate != 0) clock_gettime(CLOCK_MONOTONIC, &begin_);
  }
  void Keep() {
    if (options.rate == 0) return;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < options.sites; ++i) bytes += sites_[i].allocated.usable;
    const auto per_second = static_cast<double>(options.rate << 20) /
                            static_cast<double>(std::max(options.threads, uint64_t{1}));
    const auto due = static_cast<int64_t>(static_cast<double>(bytes) / per_second * 1e9);
    timespec until = begin_;
    until.tv_sec += (until.tv_nsec + due) / 1'000'000'000;
    until.tv_nsec = (until.tv_nsec + due) % 1'000'000'000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
  }

 private:
  const Account* const sites_;
  timespec begin_ = {};
};

KEEP_FRAME void AllocateAll(Worker* worker) {
  constexpr uint64_t kStep = 1'000;  // allocations between two sleeps
  Pace pace(worker->sites);
  for (uint64_t i = 0; i < options.n; ++i) {
    if (i % kStep == 0) pace.Keep();
    const Way way = WayOf(i);
    const int site = SiteOf(worker, i);
    size_t size = SizeOf(way);
    for (int k = 0; k < site; ++k) size *= options.step;
    void* memory = kSites[site].allocate(way, size, &worker->sites[site]);
    worker->blocks[i] = {memory, size, site, way == Way::kSecond};
    if (RunDecoys != nullptr) RunDecoys();
  }
}

// `worker` frees what `owner` allocated.
KEEP_FRAME void FreeAll(Worker* worker, const Worker& owner) {
  for (uint64_t i = 0; i < options.n; ++i) {
    if (FreePercent(i) >= options.free) continue;
    const Block& block = owner.blocks[i];
    const size_t given =
        block.second ? second.usable_size(block.memory) : malloc_usable_size(block.memory);
    worker->sites[block.site].freed.Add(block.requested, given);
    worker->sites[block.site].released.Add(block.requested, given);
    kSites[block.site].free(block);
  }
}

uint64_t Counter(decltype(&mallctl) control, const char* name) {
  uint64_t value = 0;
  size_t size = sizeof(value);
  Check(control(name, &value, &size, nullptr, 0) == 0, "mallctl");
  return value;
}

// Of both allocators.
Counters ReadCounters() {
  Counters sum;
  for (const auto control : {&mallctl, second.mallctl}) {
    if (control == nullptr) continue;
    sum.allocated += Counter(control, "thread.allocated");
    sum.freed += Counter(control, "thread.deallocated");
  }
  return sum;
}

// Bytes of the address space, read without an allocation.
uint64_t AddressSpace() {
  char text[32] = {};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  Check(file >= 0 && read(file, text, sizeof(text) - 1) > 0, "statm");
  close(file);
  return strtoull(text, nullptr, 10) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void Dump(int number) {
  if (options.dump == nullptr) return;
  char path[256];
  const char* name = path;
  Check(snprintf(path, sizeof(path), "%s.%d", options.dump, number) < int{sizeof(path)}, "dump");
  Check(mallctl != nullptr && mallctl("prof.dump", nullptr, nullptr, &name, sizeof(name)) == 0,
        "prof.dump");
}

void Meet() { pthread_barrier_wait(&barrier); }

KEEP_FRAME void* Work(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  worker->tid = static_cast<int>(syscall(SYS_gettid));
  char name[16];
  snprintf(name, sizeof(name), "alloc%d", worker->index);
  pthread_setname_np(pthread_self(), name);
  worker->before = ReadCounters();
  Meet();  // all are there
  Meet();  // the first line was read
  AllocateAll(worker);
  Meet();
  Meet();  // the second line was read
  if (options.by == Options::By::kSelf) FreeAll(worker, *worker);
  if (options.by == Options::By::kNext) {
    FreeAll(worker, workers[(static_cast<uint64_t>(worker->index) + 1) % options.threads]);
  }
  worker->after = ReadCounters();
  Meet();
  Meet();  // never: the program ends first
  return nullptr;
}

// The next line of stdin without its newline, cut to `size`. False at the end of stdin.
bool ReadLine(char* line, size_t size) {
  size_t used = 0;
  char c;
  while (read(STDIN_FILENO, &c, 1) == 1) {
    if (c == '\n') {
      line[used] = '\0';
      return true;
    }
    if (used + 1 < size) line[used++] = c;
  }
  return false;
}

bool AwaitLine() {
  char line[8];
  return ReadLine(line, sizeof(line));
}

// Ends the program when nobody is there to say go.
void AwaitGo() {
  char line[32];  // stdio would allocate
  const int size = snprintf(line, sizeof(line), "ready %d\n", getpid());
  Check(write(STDOUT_FILENO, line, static_cast<size_t>(size)) == size, "write");
  if (!AwaitLine()) _exit(0);
}

template <typename F>
void Look(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  Check(*function != nullptr, name);
}

void OpenSecond() {
  void* const library = dlopen(options.open, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fprintf(stderr, "alloc: %s\n", dlerror());
  Check(library != nullptr, "dlopen");
  Look(library, "second_malloc", &second.malloc);
  Look(library, "second_free", &second.free);
  Look(library, "second_malloc_usable_size", &second.usable_size);
  Look(library, "second_mallctl", &second.mallctl);
}

void PrintAmount(const char* name, const Amount& amount) {
  printf("\"%s\":{\"count\":%" PRIu64 ",\"requested\":%" PRIu64 ",\"usable\":%" PRIu64 "}", name,
         amount.count, amount.requested, amount.usable);
}

void PrintAccount(const Account& account) {
  PrintAmount("allocated", account.allocated);
  printf(",");
  PrintAmount("freed", account.freed);
  printf(",");
  PrintAmount("released", account.released);
}

void PrintWorker(const Worker& worker) {
  printf("{\"tid\":%d,", worker.tid);
  PrintAccount(worker.total);
  if (mallctl != nullptr) {
    printf(",\"counted\":{\"allocated\":%" PRIu64 ",\"freed\":%" PRIu64 "}",
           worker.after.allocated - worker.before.allocated,
           worker.after.freed - worker.before.freed);
  }
  printf("}");
}

void PrintReport() {
  Account sites[kMaxSites];
  Account total;
  const auto add = [&](Worker* worker) {
    for (uint64_t i = 0; i < options.sites; ++i) {
      sites[i].Add(worker->sites[i]);
      worker->total.Add(worker->sites[i]);
    }
    total.Add(worker->total);
  };
  add(&main_worker);
  for (uint64_t i = 0; i < options.threads; ++i) add(&workers[i]);

  printf("{\"pid\":%d,\"allocator\":\"%s\",\"main\":", getpid(),
         mallctl != nullptr ? "jemalloc" : "glibc");
  PrintWorker(main_worker);
  printf(",\"threads\":[");
  for (uint64_t i = 0; i < options.threads; ++i) {
    if (i > 0) printf(",");
    PrintWorker(workers[i]);
  }
  printf("],\"sites\":[");
  for (uint64_t i = 0; i < options.sites; ++i) {
    printf("%s{\"name\":\"AllocSite%" PRIu64 "\",", i > 0 ? "," : "", i);
    PrintAccount(sites[i]);
    printf("}");
  }
  printf("],\"mapped\":%" PRId64 ",\"total\":{",
         static_cast<int64_t>(AddressSpace() - mapped_before));
  PrintAccount(total);
  printf("}}\n");
  fflush(stdout);
}

Block* MapBlocks() {
  void* blocks = mmap(nullptr, options.n * sizeof(Block) + 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Check(blocks != MAP_FAILED, "mmap");
  return static_cast<Block*>(blocks);
}

[[noreturn]] void RunChild() {
  options.threads = 0;  // they are not in the child
  main_worker = Worker();
  main_worker.tid = getpid();
  main_worker.blocks = MapBlocks();
  main_worker.before = ReadCounters();
  AwaitGo();
  AllocateAll(&main_worker);
  main_worker.after = ReadCounters();
  PrintReport();
  AwaitLine();
  _exit(0);
}

void Fork() {
  const pid_t child = fork();
  Check(child >= 0, "fork");
  if (child == 0) RunChild();
  int status = 0;
  Check(waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

void* WorkAndEnd(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  worker->tid = static_cast<int>(syscall(SYS_gettid));
  worker->before = ReadCounters();
  AllocateAll(worker);
  worker->after = ReadCounters();
  return nullptr;
}

void RunThread() {
  Worker worker;
  worker.blocks = MapBlocks();
  pthread_t thread;
  Check(pthread_create(&thread, nullptr, WorkAndEnd, &worker) == 0, "pthread_create");
  Check(pthread_join(thread, nullptr) == 0, "pthread_join");
  for (uint64_t i = 0; i < options.sites; ++i) worker.total.Add(worker.sites[i]);
  printf("{\"total\":");
  PrintWorker(worker);
  printf("}\n");
  fflush(stdout);
}

// `words` is cut at its spaces.
[[noreturn]] void Exec(char* words) {
  char* argv[32] = {};
  char* rest = nullptr;
  size_t count = 0;
  for (char* word = strtok_r(words, " ", &rest); word != nullptr && count + 1 < 32;
       word = strtok_r(nullptr, " ", &rest)) {
    argv[count++] = word;
  }
  if (count > 0) execv(argv[0], argv);
  Check(false, "exec");
  _exit(3);
}

// What lines say, until stdin is closed.
void Obey() {
  char line[4096];
  while (ReadLine(line, sizeof(line))) {
    if (strcmp(line, "fork") == 0) Fork();
    if (strcmp(line, "thread") == 0) RunThread();
    if (strncmp(line, "exec ", 5) == 0) Exec(line + 5);
  }
}

void* ChangeProtection(void* /*argument*/) {
  const size_t bytes = options.protect << 20;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  Check(memory != MAP_FAILED, "mmap");
  while (true) {
    Check(mprotect(memory, bytes, PROT_READ) == 0, "mprotect");
    Check(mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0, "mprotect");
  }
}

bool Parse(const char* argument) {
  const char* equals = strchr(argument, '=');
  if (equals == nullptr) return false;
  const auto named = [&](const char* name) {
    return strlen(name) == static_cast<size_t>(equals - argument) &&
           strncmp(argument, name, strlen(name)) == 0;
  };
  const char* value = equals + 1;
  const struct {
    const char* name;
    Options::By by;
  } kFreers[] = {
      {"self", Options::By::kSelf}, {"next", Options::By::kNext}, {"main", Options::By::kMain}};
  for (const auto& freer : kFreers) {
    if (!named("by") || strcmp(value, freer.name) != 0) continue;
    options.by = freer.by;
    return true;
  }
  if (named("dump")) {
    options.dump = value;
    return true;
  }
  if (named("open")) {
    options.open = value;
    return true;
  }
  const struct {
    const char* name;
    uint64_t* value;
  } kNumbers[] = {{"n", &options.n},
                  {"size", &options.size},
                  {"threads", &options.threads},
                  {"sites", &options.sites},
                  {"skew", &options.skew},
                  {"step", &options.step},
                  {"calloc", &options.calloc},
                  {"aligned", &options.aligned},
                  {"realloc", &options.realloc},
                  {"second", &options.second},
                  {"free", &options.free},
                  {"rate", &options.rate},
                  {"protect", &options.protect}};
  for (const auto& number : kNumbers) {
    if (!named(number.name)) continue;
    char* end = nullptr;
    *number.value = strtoull(value, &end, 10);
    return end != value && *end == '\0';
  }
  return false;
}

bool Valid() {
  return options.n <= uint64_t{1} << 32 && options.size >= 1 && options.size <= uint64_t{1} << 40 &&
         options.threads >= 1 && options.threads <= kMaxThreads && options.sites >= 1 &&
         options.sites <= kMaxSites && options.skew <= 1 && options.step >= 1 &&
         options.step <= 64 && options.free <= 100 && options.protect <= 1024 &&
         options.calloc + options.aligned + options.realloc + options.second <= 100 &&
         (options.second == 0 || second.malloc != nullptr || options.open != nullptr);
}

}  // namespace allocating

int main(int argc, char** argv) {
  using namespace allocating;
  for (int i = 1; i < argc; ++i) {
    if (Parse(argv[i])) continue;
    fprintf(stderr, "alloc: cannot use '%s'\n", argv[i]);
    return 2;
  }
  second = {second_malloc, second_free, second_malloc_usable_size, second_mallctl};
  if (!Valid()) {
    fprintf(stderr, "alloc: a value is out of range\n");
    return 2;
  }
  Check(pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(options.threads) + 1) == 0,
        "pthread_barrier_init");
  for (uint64_t i = 0; i < options.threads; ++i) {
    workers[i].index = static_cast<int>(i);
    workers[i].blocks = MapBlocks();
    pthread_t thread;
    Check(pthread_create(&thread, nullptr, Work, &workers[i]) == 0, "pthread_create");
  }
  main_worker.tid = getpid();
  Meet();
  main_worker.before = ReadCounters();
  AwaitGo();
  if (options.open != nullptr) {
    OpenSecond();
    AwaitGo();
  }
  Dump(0);
  mapped_before = AddressSpace();
  Meet();
  Meet();  // all is allocated
  AwaitGo();
  Meet();
  if (options.by == Options::By::kMain) {
    for (uint64_t i = 0; i < options.threads; ++i) FreeAll(&main_worker, workers[i]);
  }
  Meet();  // all is freed
  main_worker.after = ReadCounters();
  Dump(1);
  PrintReport();
  if (options.protect != 0) {
    pthread_t thread;
    Check(pthread_create(&thread, nullptr, ChangeProtection, nullptr) == 0, "pthread_create");
  }
  Obey();
  _exit(0);
}
