#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace sync {

constexpr size_t kBlock = 4096;
constexpr int kWriters = 4;

struct File {
  int fd = -1;
  int64_t calls = 0;
  int64_t ns = 0;  // in these calls, as the caller sees it
};

File Open(const std::string& path) {
  File file;
  file.fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Check(file.fd >= 0, "open");
  Check(ftruncate(file.fd, kBlock) == 0, "ftruncate");
  return file;
}

void Write(const File& file, int64_t i) {
  const char block[kBlock] = {static_cast<char>(i)};
  Check(pwrite(file.fd, block, kBlock, 0) == static_cast<ssize_t>(kBlock), "pwrite");
}

// What is written each time is little, so that most of the time goes into the call.
KEEP_FRAME void CommitJournal(File* file, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Write(*file, i);
    const int64_t begin = Now();
    Check(fdatasync(file->fd) == 0, "fdatasync");
    file->ns += Now() - begin;
    ++file->calls;
  }
}

KEEP_FRAME void Checkpoint(File* file, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Write(*file, i);
    const int64_t begin = Now();
    Check(fsync(file->fd) == 0, "fsync");
    file->ns += Now() - begin;
    ++file->calls;
  }
}

// With MS_ASYNC, too, which syncs nothing.
KEEP_FRAME void FlushMap(File* file, int64_t count) {
  auto* map =
      static_cast<char*>(mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0));
  Check(map != MAP_FAILED, "mmap");
  for (int64_t i = 0; i < count; ++i) {
    map[0] = static_cast<char>(i);
    Check(msync(map, kBlock, MS_ASYNC) == 0, "msync");
    const int64_t begin = Now();
    Check(msync(map, kBlock, MS_SYNC) == 0, "msync");
    file->ns += Now() - begin;
    ++file->calls;
  }
  Check(munmap(map, kBlock) == 0, "munmap");
}

struct Shared {
  File file;
  int64_t each = 0;
};

KEEP_FRAME void* CommitTogether(void* argument) {
  const auto* shared = static_cast<const Shared*>(argument);
  Meter meter("writer");
  for (int64_t i = 0; i < shared->each; ++i) {
    Write(shared->file, i);
    Check(fdatasync(shared->file.fd) == 0, "fdatasync");
  }
  return nullptr;
}

}  // namespace sync

void Sync(const Arguments& arguments) {
  using namespace sync;
  Meter meter("committer");
  const int64_t count = arguments.Number(0, 40);
  const char* directory = arguments.Text(1);
  std::string folder = std::string(*directory ? directory : ".") + "/waiter-XXXXXX";
  Check(mkdtemp(folder.data()) != nullptr, "mkdtemp");
  const char* const names[] = {"/journal", "/table", "/map", "/shared"};
  File journal = Open(folder + names[0]), table = Open(folder + names[1]);
  File map = Open(folder + names[2]);
  Shared shared = {Open(folder + names[3]), count};
  // Blocks that are there already leave the journal of the file system less to do.
  for (File* file : {&journal, &table, &map, &shared.file}) Write(*file, 0);
  Check(fsync(journal.fd) == 0, "fsync");
  Stop("opened");
  CommitJournal(&journal, 3 * count);
  Checkpoint(&table, 2 * count);
  FlushMap(&map, count);
  pthread_t writers[kWriters];
  for (pthread_t& writer : writers) writer = Start(CommitTogether, &shared);
  for (const pthread_t writer : writers) Join(writer);
  char where[400];
  snprintf(where, sizeof(where),
           "synced {\"folder\": \"%s\", \"journal\": %lld, \"journal_ns\": %lld, \"table\": %lld, "
           "\"table_ns\": %lld, \"map\": %lld, \"map_ns\": %lld, \"shared\": %lld}",
           folder.c_str(), static_cast<long long>(journal.calls),
           static_cast<long long>(journal.ns), static_cast<long long>(table.calls),
           static_cast<long long>(table.ns), static_cast<long long>(map.calls),
           static_cast<long long>(map.ns), static_cast<long long>(kWriters * shared.each));
  Stop(where);
  for (const char* name : names) Check(unlink((folder + name).c_str()) == 0, "unlink");
  Check(rmdir(folder.c_str()) == 0, "rmdir");
}

}  // namespace waiter
