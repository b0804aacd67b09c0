// A thread that the kernel may refuse.
#ifndef PROFD_DAEMON_BASE_START_THREAD_H_
#define PROFD_DAEMON_BASE_START_THREAD_H_

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace profd {

// Runs `function` with `arguments` on a thread of its own; none when there can be no more (EAGAIN):
// in a storm of processes that must not end the daemon.
template <typename... Arguments>
std::optional<std::thread> StartThread(Arguments&&... arguments) {
  try {
    return std::thread(std::forward<Arguments>(arguments)...);
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_START_THREAD_H_
