// Numbers in as few bytes as they need.
#ifndef PROFD_DAEMON_BASE_VARINT_H_
#define PROFD_DAEMON_BASE_VARINT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace profd {

// Small magnitudes of either sign as small numbers.
inline uint64_t ToZigzag(int64_t v) {
  return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
}
inline int64_t FromZigzag(uint64_t v) { return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1)); }

// Seven bits a byte, the lowest first; the eighth says that more follow.
inline void PutVarint(uint64_t v, std::string* out) {
  while (v >= 0x80) {
    out->push_back(static_cast<char>(v | 0x80));
    v >>= 7;
  }
  out->push_back(static_cast<char>(v));
}
inline void PutZigzag(int64_t v, std::string* out) { PutVarint(ToZigzag(v), out); }

// Takes one off the front of `in`. False where there is none.
inline bool TakeVarint(std::string_view* in, uint64_t* v) {
  *v = 0;
  for (unsigned shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *v |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}
inline bool TakeZigzag(std::string_view* in, int64_t* v) {
  uint64_t zigzag = 0;
  const bool taken = TakeVarint(in, &zigzag);
  *v = FromZigzag(zigzag);
  return taken;
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_VARINT_H_
