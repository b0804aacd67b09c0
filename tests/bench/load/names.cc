// How long it takes to name addresses in a file as an answer does: the first time, and again.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bpf/abi.h"
#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/service/frame_names.h"
#include "daemon/symbolize/symbolizer.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr profd::ModuleId kModule{1};

// One file, as profd knows those that its targets map.
class OneFile : public profd::ModuleSource {
 public:
  explicit OneFile(std::string path) : path_(std::move(path)) {
    absl::StatusOr<profd::UniqueFd> fd = profd::OpenReadOnly(path_);
    if (!fd.ok()) return;
    absl::StatusOr<profd::ModuleIdentity> identity = profd::ReadIdentity(fd->get(), path_);
    if (identity.ok()) identity_ = *std::move(identity);
  }

  std::optional<profd::ModuleFile> Find(profd::ModuleId id) const override {
    absl::StatusOr<profd::UniqueFd> fd = profd::OpenReadOnly(path_);
    if (id != kModule || !fd.ok()) return std::nullopt;
    return profd::ModuleFile{.identity = identity_, .fd = *std::move(fd), .root = nullptr};
  }

 private:
  const std::string path_;
  profd::ModuleIdentity identity_;
};

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Names the addresses on stdin, which are hexadecimal, a line each; prints seconds as JSON");
  std::string path;
  size_t rounds = 10;
  bool names = false;
  app.add_option("FILE", path, "a program or library")->required();
  app.add_option("--rounds", rounds, "times to name them again");
  app.add_flag("--names", names, "print the names, a line each, and no times");
  CLI11_PARSE(app, argc, argv);

  const absl::StatusOr<profd::UniqueFd> fd = profd::OpenReadOnly(path);
  const auto elf = profd::symbolize::ElfFile::Open(fd.ok() ? fd->get() : -1);
  if (!elf.ok()) {
    std::fprintf(stderr, "bench_names: %s: %s\n", path.c_str(), elf.status().ToString().c_str());
    return 1;
  }
  std::vector<profd::FrameAddress> addresses;
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto place = elf->CodeAt(std::strtoull(line.c_str(), nullptr, 16));
    if (!place) continue;
    addresses.push_back({.frame = PROFD_FRAME(1, place->offset), .exact = true, .process = {}});
  }
  const OneFile source(path);
  profd::FrameNames frames(&source);
  const Clock::time_point began = Clock::now();
  const std::vector<profd::NamedFrame> named = frames.Name(addresses);
  const double first = Seconds(began);
  if (names) {
    for (const profd::NamedFrame& frame : named) std::printf("%s\n", frame.function.c_str());
    return 0;
  }
  std::vector<double> again;
  for (size_t i = 0; i < rounds; ++i) {
    const Clock::time_point start = Clock::now();
    frames.Name(addresses);
    again.push_back(Seconds(start));
  }
  std::sort(again.begin(), again.end());
  std::printf("{\"addresses\":%zu,\"first_s\":%.6f,\"again_s\":%.6f}\n", addresses.size(), first,
              again.empty() ? 0 : again[again.size() / 2]);
  return 0;
}
