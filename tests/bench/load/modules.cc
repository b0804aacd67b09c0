#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "tests/bench/load/load.h"

namespace load {
namespace {

using ModuleCall = uint64_t (*)(void (*)(void*), void*);
std::vector<ModuleCall> g_calls;

// A call that goes through the modules from `at` to `end`, then waits.
struct Journey {
  size_t at, end;
  int64_t wait_ns;
};

KEEP_FRAME void Onward(void* argument) {
  auto* journey = static_cast<Journey*>(argument);
  if (journey->at == journey->end) {
    Sleep(journey->wait_ns);
  } else {
    g_calls[journey->at++ % g_calls.size()](Onward, journey);
  }
  asm volatile("" ::: "memory");
}

KEEP_FRAME void* Travel(void* argument) {
  const int64_t wait_ns = *static_cast<int64_t*>(argument);
  for (size_t first = 0; !g_stop; first = (first + kModulesInStack) % g_calls.size()) {
    Journey journey{first, first + kModulesInStack, wait_ns};
    Onward(&journey);
  }
  return nullptr;
}

}  // namespace

void StartModules(const std::string& file, const std::string& directory, int count,
                  int64_t wait_ns) {
  if (count == 0) return;
  for (int i = 0; i < count; ++i) {
    const std::string copy = directory + "/module" + std::to_string(i) + ".so";
    std::error_code error;
    std::filesystem::copy_file(file, copy, error);
    Check(!error, ("copy of " + file + " to " + copy).c_str());
    void* handle = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    Check(handle != nullptr, ("dlopen of " + copy).c_str());
    auto call = reinterpret_cast<ModuleCall>(dlsym(handle, "ModuleCall"));
    Check(call != nullptr, "dlsym of ModuleCall");
    g_calls.push_back(call);
  }
  static int64_t wait = wait_ns;
  Start("modules", Travel, &wait);
}

}  // namespace load
