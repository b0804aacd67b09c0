#include "daemon/service/text.h"

#include <cstdint>

namespace profd {
namespace {

// Length of the valid UTF-8 sequence that `s` begins with, 0 where there is none (RFC 3629).
size_t SequenceLength(std::string_view s) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || s.size() < length) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, beyond U+10FFFF.
  const uint8_t second = at(1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string CleanText(std::string_view bytes, size_t limit) {
  std::string out;
  while (!bytes.empty()) {
    const size_t length = SequenceLength(bytes);
    const auto lead = static_cast<uint8_t>(bytes[0]);
    if (out.size() + length > limit) return out + "…";
    if (length == 0 || lead < 0x20 || lead == 0x7f) {
      out.push_back('?');
    } else {
      out.append(bytes.substr(0, length));
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string_view WithoutWorkerNumber(std::string_view thread) {
  constexpr std::string_view kWorker = "kworker";
  const bool worker = thread.size() > kWorker.size() && thread.starts_with(kWorker) &&
                      thread[kWorker.size()] == '/';
  return worker ? kWorker : thread;
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace profd
