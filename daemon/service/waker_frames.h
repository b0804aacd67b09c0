// The frames of whoever ended a wait.
#ifndef PROFD_DAEMON_SERVICE_WAKER_FRAMES_H_
#define PROFD_DAEMON_SERVICE_WAKER_FRAMES_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "daemon/profile/profile.h"

namespace profd {

// Frames that stand in a stack between the waiter and its waker, or in place of the waker.
inline constexpr std::string_view kWakerSeparator = "--";
inline constexpr std::string_view kWakerUnknownFrame = "[waker unknown]";
inline constexpr std::string_view kNoWakerFrame = "[runqueue]";

// Whether the stack of a waker has the frames that hold its name.
bool HasWakerName(const StackTrace& waker);
// "process/thread", or one word if both have the same name; "kworker" for each of the kernel's
// workers. Empty if an interrupt ended the wait.
std::string WakerName(const StackTrace& waker);

// The names of kernel frames, innermost first. How many of them only do the waking.
size_t FramesOfWaking(std::span<const std::string_view> kernel);
// What an interrupt was for: "[timer]", "[network]", "[block]", else "[interrupt]".
std::string_view InterruptName(std::span<const std::string_view> kernel);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_WAKER_FRAMES_H_
