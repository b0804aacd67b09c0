#include "tests/support/machine.h"

#include <fcntl.h>
#include <sys/capability.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

namespace profd::test {
namespace {

bool IsPermitted(cap_value_t capability) {
  const std::unique_ptr<std::remove_pointer_t<cap_t>, int (*)(void*)> caps(cap_get_proc(),
                                                                           cap_free);
  cap_flag_value_t value = CAP_CLEAR;
  return caps && cap_get_flag(caps.get(), capability, CAP_PERMITTED, &value) == 0 &&
         value == CAP_SET;
}

bool HasCapabilities() {
  for (const cap_value_t capability :
       {CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE, CAP_SYSLOG,
        CAP_DAC_READ_SEARCH, CAP_SYS_NICE, CAP_SYS_ADMIN}) {
    if (!IsPermitted(capability)) return false;
  }
  return true;
}

bool KernelIsAtLeast(int major, int minor) {
  utsname name{};
  int has_major = 0, has_minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &has_major, &has_minor) != 2) {
    return false;
  }
  return has_major > major || (has_major == major && has_minor >= minor);
}

bool ShowsKernelAddresses() {
  std::ifstream symbols("/proc/kallsyms");
  std::string line;
  while (std::getline(symbols, line)) {
    if (line.ends_with(" T schedule")) return std::strtoull(line.c_str(), nullptr, 16) != 0;
  }
  return false;
}

bool HasHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  return std::getline(file, modes) && modes.find("[never]") == std::string::npos;
}

uint64_t BytesRead() {
  std::ifstream file("/proc/thread-self/io");
  std::string name;
  for (uint64_t bytes = 0; file >> name >> bytes;) {
    if (name == "read_bytes:") return bytes;
  }
  return 0;
}

// Reads past the page cache reach a block device; of a file in memory they do not.
bool ReadsFromDisk() {
  constexpr size_t kPage = 4096;
  std::string path = "/var/tmp/profd-test-XXXXXX";
  const int file = mkstemp(path.data());
  const std::unique_ptr<void, void (*)(void*)> page(aligned_alloc(kPage, kPage), free);
  if (file < 0 || !page) return false;
  std::memset(page.get(), 1, kPage);
  bool reads = write(file, page.get(), kPage) == ssize_t{kPage} && fsync(file) == 0;
  const int direct = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  unlink(path.c_str());
  close(file);
  if (direct < 0) return false;
  const uint64_t before = BytesRead();
  reads = reads && pread(direct, page.get(), kPage, 0) == ssize_t{kPage};
  close(direct);
  return reads && BytesRead() - before >= kPage;
}

// By readelf, not by what is under test. Debian's rustc has jemalloc linked in, others have not.
bool RustcHasJemalloc() {
  return std::system(
             "readelf -Ws \"$(rustc --print sysroot)/bin/rustc\" 2>/dev/null"
             " | grep -q 'FUNC.*je_te_event_trigger'") == 0;
}

}  // namespace

std::string PidsCgroups() {
  const std::string version1 = "/sys/fs/cgroup/pids", version2 = "/sys/fs/cgroup";
  if (access((version1 + "/cgroup.procs").c_str(), W_OK) == 0) return version1;
  std::ifstream offered(version2 + "/cgroup.controllers");
  for (std::string controller; offered >> controller;) {
    if (controller != "pids") continue;
    const bool writable = access((version2 + "/cgroup.subtree_control").c_str(), W_OK) == 0;
    return writable ? version2 : "";
  }
  return "";
}

namespace {

struct Fact {
  std::string_view name;
  std::string_view missing;
  bool (*probe)();
};

constexpr Fact kFacts[] = {
    {"root", "needs uid 0, to give it up", [] { return geteuid() == 0; }},
    {"capabilities", "needs every capability that a feature of profd needs, as root has them",
     HasCapabilities},
    {"kernel.6_10", "needs Linux 6.10 or later: programs may look up tasks",
     [] { return KernelIsAtLeast(6, 10); }},
    {"kernel.pagemap_scan", "needs Linux 6.7 or later: /proc/PID/pagemap tells huge pages",
     [] { return KernelIsAtLeast(6, 7); }},
    {"kernel.huge_pages", "the kernel makes no transparent huge pages", HasHugePages},
    {"kernel.proc_children", "the kernel does not list children (CONFIG_PROC_CHILDREN)",
     [] { return access("/proc/thread-self/children", R_OK) == 0; }},
    {"kernel.kallsyms", "/proc/kallsyms shows no addresses: kernel.kptr_restrict or no CAP_SYSLOG",
     ShowsKernelAddresses},
    {"kernel.cgroup_pids", "no cgroup with the pids controller can be made",
     [] { return !PidsCgroups().empty(); }},
    {"kernel.cgroup_v1_memory", "no memory controller of cgroup version 1 is mounted",
     [] { return access("/sys/fs/cgroup/memory/memory.limit_in_bytes", W_OK) == 0; }},
    {"disk_requests", "no file in /var/tmp is on a block device", ReadsFromDisk},
    {"rustc.jemalloc", "no rustc with jemalloc linked in is installed", RustcHasJemalloc},
};

const Fact* Find(std::string_view name) {
  for (const Fact& fact : kFacts) {
    if (fact.name == name) return &fact;
  }
  ADD_FAILURE() << "no fact of the machine is called " << name << " (tests/support/machine.cc)";
  return nullptr;
}

// What PROFD_FACTS says; an empty object without it.
const nlohmann::json& GivenFacts() {
  static const nlohmann::json* const facts = [] {
    auto* given = new nlohmann::json(nlohmann::json::object());
    const char* path = std::getenv("PROFD_FACTS");
    if (path == nullptr) return given;
    std::ifstream file(path);
    const nlohmann::json all = nlohmann::json::parse(file, nullptr, false);
    if (all.is_object() && all.contains("facts") && all["facts"].is_object()) {
      *given = all["facts"];
    } else {
      ADD_FAILURE() << "PROFD_FACTS=" << path << " is no JSON file with \"facts\"";
    }
    return given;
  }();
  return *facts;
}

}  // namespace

bool HasFact(std::string_view name) {
  const Fact* fact = Find(name);
  if (fact == nullptr) return true;
  const auto given = GivenFacts().find(std::string(name));
  const bool is_given = given != GivenFacts().end() && given->is_boolean();
  return is_given ? given->get<bool>() : fact->probe();
}

std::string SkipMessage(std::string_view name) {
  const Fact* fact = Find(name);
  return "skipped: " + std::string(name) + ": " +
         (fact != nullptr ? std::string(fact->missing) : std::string());
}

}  // namespace profd::test
