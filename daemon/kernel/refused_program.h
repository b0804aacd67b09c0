// Which program the kernel refused.
#ifndef PROFD_DAEMON_KERNEL_REFUSED_PROGRAM_H_
#define PROFD_DAEMON_KERNEL_REFUSED_PROGRAM_H_

#include <string>
#include <string_view>

namespace profd {

// The name in libbpf's warning "libbpf: prog 'NAME': BPF program load failed: REASON"; empty for
// any other text.
inline std::string RefusedProgram(std::string_view text) {
  constexpr std::string_view kBegin = "prog '";
  constexpr std::string_view kEnd = "': BPF program load failed";
  const size_t begin = text.find(kBegin);
  if (begin == std::string_view::npos) return "";
  const size_t name = begin + kBegin.size();
  const size_t end = text.find(kEnd, name);
  return end == std::string_view::npos ? "" : std::string(text.substr(name, end - name));
}

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_REFUSED_PROGRAM_H_
