// What it costs to read the unwind rules of a file, and how much memory they take in the kernel.
#include "daemon/unwind/rules.h"

#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/unwind/rule_table.h"

namespace {

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Reads the unwind rules of a file and packs them for the kernel; prints JSON");
  std::string path;
  app.add_option("FILE", path, "a program or library")->required();
  CLI11_PARSE(app, argc, argv);

  const absl::StatusOr<profd::UniqueFd> fd = profd::OpenReadOnly(path);
  const auto file = fd.ok() ? profd::MappedFile::Map(fd->get()) : fd.status();
  if (!file.ok()) {
    std::fprintf(stderr, "bench_rules: %s: %s\n", path.c_str(), file.status().ToString().c_str());
    return 1;
  }
  const double began = CpuSeconds();
  const absl::StatusOr<profd::RuleTable> table = profd::CompileRules(file->bytes());
  if (!table.ok()) {
    std::fprintf(stderr, "bench_rules: %s: %s\n", path.c_str(), table.status().ToString().c_str());
    return 1;
  }
  const std::vector<uint64_t> words = profd::PackRules(table->rows);
  std::printf("{\"rows\":%zu,\"functions\":%u,\"cpu_s\":%.6f,\"bytes\":%zu}\n", table->rows.size(),
              table->functions, CpuSeconds() - began, words.size() * sizeof(uint64_t));
  return 0;
}
