// Walks real stacks of this process by the compiled rules, as the kernel programs do, and expects
// every one of them to end at a root.
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/symbolize/vdso.h"
#include "daemon/unwind/rules.h"
#include "gtest/gtest.h"

#define PROFD_TEST_FRAME \
  __attribute__((noinline, no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")))

namespace profd {
namespace {

constexpr size_t kMaxFrames = 200;

struct Module {
  std::string path;
  uint64_t base = 0;
  std::vector<ElfW(Phdr)> segments;
  RuleTable table;
};

std::vector<Module> LoadModules() {
  std::vector<Module> modules;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        Module module;
        module.path = info->dlpi_name;
        module.base = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type == PT_LOAD) module.segments.push_back(info->dlpi_phdr[i]);
        }
        static_cast<std::vector<Module>*>(out)->push_back(std::move(module));
        return 0;
      },
      &modules);
  for (Module& module : modules) {
    if (module.path.empty()) module.path = std::filesystem::read_symlink("/proc/self/exe");
    absl::StatusOr<UniqueFd> fd = OpenReadOnly(module.path);
    if (!fd.ok()) continue;  // the vdso
    absl::StatusOr<MappedFile> file = MappedFile::Map(fd->get());
    if (!file.ok()) continue;
    absl::StatusOr<RuleTable> table = CompileRules(file->bytes());
    EXPECT_TRUE(table.ok()) << module.path << ": " << table.status();
    if (table.ok()) module.table = *std::move(table);
  }
  return modules;
}

uint32_t RuleAt(const std::vector<Module>& modules, uint64_t address) {
  for (const Module& module : modules) {
    for (const ElfW(Phdr) & segment : module.segments) {
      const uint64_t begin = module.base + segment.p_vaddr;
      if (address < begin || address >= begin + segment.p_filesz) continue;
      return FindRule(module.table, static_cast<uint32_t>(address - begin + segment.p_offset));
    }
  }
  return PROFD_RULE_PACK(PROFD_RULE_NONE, 0, 0);
}

struct Registers {
  uint64_t rip = 0;
  uint64_t rsp = 0;
  uint64_t rbp = 0;
};

// Allocates nothing, so that a signal handler may make one.
struct Walk {
  std::array<uint64_t, kMaxFrames> frames{};
  size_t depth = 0;
  unsigned last_kind = 0;
  int signal_frames = 0;
};

// Reads what no object of the language lives at.
PROFD_TEST_FRAME uint64_t Load(uint64_t address) {
  return *reinterpret_cast<const volatile uint64_t*>(address);
}

PROFD_TEST_FRAME Walk WalkFrom(const std::vector<Module>& modules, Registers registers) {
  Walk walk;
  bool exact = true;
  while (walk.depth < walk.frames.size()) {
    walk.frames[walk.depth++] = registers.rip;
    const uint32_t rule = RuleAt(modules, exact ? registers.rip : registers.rip - 1);
    walk.last_kind = PROFD_RULE_KIND(rule);
    exact = false;
    uint64_t cfa = 0;
    switch (walk.last_kind) {
      case PROFD_RULE_RSP:
        cfa = registers.rsp + PROFD_RULE_CFA(rule);
        break;
      case PROFD_RULE_RBP:
        cfa = registers.rbp + PROFD_RULE_CFA(rule);
        break;
      case PROFD_RULE_PLT:
        cfa = registers.rsp + 8 + ((registers.rip & 15) >= 11 ? 8 : 0);
        break;
      case PROFD_RULE_DEREF_RBP:
        cfa = Load(registers.rbp + PROFD_RULE_CFA(rule));
        registers.rbp = Load(registers.rbp);
        break;
      case PROFD_RULE_SIGNAL:
        ++walk.signal_frames;
        registers = {Load(registers.rsp + 168), Load(registers.rsp + 160),
                     Load(registers.rsp + 120)};
        exact = true;
        continue;
      default:
        return walk;
    }
    if (PROFD_RULE_RBP_OFFSET(rule) != 0) {
      registers.rbp = Load(cfa + PROFD_RULE_RBP_OFFSET(rule));
    }
    registers.rip = Load(cfa - 8);
    registers.rsp = cfa;
  }
  return walk;
}

PROFD_TEST_FRAME Walk WalkHere(const std::vector<Module>& modules) {
  Registers registers;
  asm volatile(
      "lea 0(%%rip), %0\n\t"
      "mov %%rsp, %1\n\t"
      "mov %%rbp, %2"
      : "=r"(registers.rip), "=r"(registers.rsp), "=r"(registers.rbp));
  return WalkFrom(modules, registers);
}

// A frame whose stack pointer is realigned and of unknown distance from the caller's.
PROFD_TEST_FRAME Walk WalkUnderRealignedFrame(const std::vector<Module>& modules, size_t size) {
  alignas(128) volatile char aligned[256];
  auto* buffer = static_cast<volatile char*>(__builtin_alloca(size));
  buffer[0] = 1;
  aligned[0] = buffer[size - 1];
  Walk walk = WalkHere(modules);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(&aligned) % 128, 0u);
  return walk;
}

// A frame of a size known only when it runs, of many KiB.
PROFD_TEST_FRAME Walk WalkUnderLargeFrame(const std::vector<Module>& modules, size_t size) {
  auto* buffer = static_cast<volatile char*>(__builtin_alloca(size));
  buffer[0] = 1;
  buffer[size - 1] = 1;
  return WalkHere(modules);
}

const std::vector<Module>& Modules() {
  static const std::vector<Module>* modules = new std::vector<Module>(LoadModules());
  return *modules;
}

void ExpectWhole(const Walk& walk) {
  EXPECT_EQ(walk.last_kind, static_cast<unsigned>(PROFD_RULE_END)) << walk.depth;
  EXPECT_GE(walk.depth, 4u);
}

TEST(RulesWalkTest, MainThreadEndsAtStart) {
  const Walk walk = WalkHere(Modules());
  ExpectWhole(walk);
  const uint64_t entry = getauxval(AT_ENTRY);
  EXPECT_GT(walk.frames[walk.depth - 1], entry);
  EXPECT_LT(walk.frames[walk.depth - 1], entry + 64);
}

TEST(RulesWalkTest, OtherThreadEndsAtItsStart) {
  Walk walk;
  std::thread([&walk] { walk = WalkHere(Modules()); }).join();
  ExpectWhole(walk);
}

TEST(RulesWalkTest, AwkwardFramesAreWalked) {
  ExpectWhole(WalkUnderRealignedFrame(Modules(), 100));
  ExpectWhole(WalkUnderLargeFrame(Modules(), 70000));
}

Walk* signal_walk = nullptr;

PROFD_TEST_FRAME void OnSignal(int) { *signal_walk = WalkHere(Modules()); }

TEST(RulesWalkTest, SignalFrameIsCrossed) {
  Modules();
  Walk walk;
  signal_walk = &walk;
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = OnSignal;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  ASSERT_EQ(raise(SIGUSR1), 0);
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  signal_walk = nullptr;
  ExpectWhole(walk);
  EXPECT_EQ(walk.signal_frames, 1);
}

TEST(RulesWalkTest, VdsoHasRules) {
  const absl::StatusOr<UniqueFd> copy = CopyVdso();
  ASSERT_TRUE(copy.ok()) << copy.status();
  const absl::StatusOr<MappedFile> image = MappedFile::Map(copy->get());
  ASSERT_TRUE(image.ok()) << image.status();
  const absl::StatusOr<RuleTable> table = CompileRules(image->bytes());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_GT(table->functions, 0u);
  EXPECT_EQ(table->rejected_functions, 0u);
}

}  // namespace
}  // namespace profd
