// Bytes of a protobuf message, read where they lie: columns of numbers take no memory beyond their
// bytes. https://protobuf.dev/programming-guides/encoding
#ifndef PROFD_DAEMON_STORE_WIRE_H_
#define PROFD_DAEMON_STORE_WIRE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "daemon/base/varint.h"

namespace profd {

// The fields of a message, one after another.
class WireFields {
 public:
  struct Field {
    uint64_t number = 0;
    bool has_bytes = false;    // a packed column, bytes or a message
    std::string_view bytes{};  // of these
    std::string_view whole{};  // with the tag
  };

  explicit WireFields(std::string_view message) : left_(message) {}
  // False at the end, and where the message is damaged.
  bool Next(Field* field) {
    if (left_.empty() || damaged_) return false;
    const std::string_view before = left_;
    *field = {};
    damaged_ = !Take(field);
    field->whole = before.substr(0, before.size() - left_.size());
    return !damaged_;
  }
  bool damaged() const { return damaged_; }

 private:
  bool Take(Field* field) {
    uint64_t tag = 0, number = 0;
    if (!TakeVarint(&left_, &tag)) return false;
    field->number = tag >> 3;
    switch (tag & 7) {
      case 0:
        return TakeVarint(&left_, &number);
      case 1:
        return Skip(sizeof(uint64_t));
      case 2:
        if (!TakeVarint(&left_, &number) || number > left_.size()) return false;
        field->has_bytes = true;
        field->bytes = left_.substr(0, number);
        return Skip(number);
      case 5:
        return Skip(sizeof(uint32_t));
      default:
        return false;
    }
  }
  bool Skip(size_t size) {
    if (size > left_.size()) return false;
    left_.remove_prefix(size);
    return true;
  }

  std::string_view left_;
  bool damaged_ = false;
};

// Appends a field that has bytes: a packed column, bytes or a message.
inline void PutField(uint64_t number, std::string_view bytes, std::string* message) {
  if (bytes.empty()) return;
  PutVarint(number << 3 | 2, message);
  PutVarint(bytes.size(), message);
  message->append(bytes);
}

// The varints of a packed column, one after another. Of one that is too long, the low bits.
class Varints {
 public:
  Varints() = default;
  // `bytes` end with the end of a number, see IsWhole.
  explicit Varints(std::string_view bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool IsWhole() const { return empty() || static_cast<uint8_t>(end_[-1]) < 0x80; }
  // How many there are, and how many of them are odd.
  struct Counts {
    size_t all = 0, odd = 0;
  };
  Counts Count() const {
    Counts counts;
    uint8_t before = 0;
    for (const char* at = next_; at != end_; ++at) {
      const auto byte = static_cast<uint8_t>(*at);
      counts.all += static_cast<uint8_t>(~byte) >> 7;
      counts.odd += byte & 1 & static_cast<uint8_t>(~before) >> 7;
      before = byte;
    }
    return counts;
  }

  // False where there is none.
  bool Take(uint64_t* value) {
    // Which numbers are long cannot be predicted: eight bytes at once, without a branch.
    static_assert(std::endian::native == std::endian::little);
    if (end_ - next_ >= static_cast<std::ptrdiff_t>(sizeof(uint64_t))) {
      uint64_t word = 0;
      std::memcpy(&word, next_, sizeof(word));
      const uint64_t stops = ~word & 0x8080808080808080;
      if (stops != 0) {
        next_ += (std::countr_zero(stops) + 1) / 8;
        *value = Sevens(word & (stops ^ (stops - 1)));
        return true;
      }
    }
    return TakeSlowly(value);
  }
  bool TakeZigzag(int64_t* value) {
    uint64_t zigzag = 0;
    const bool taken = Take(&zigzag);
    *value = FromZigzag(zigzag);
    return taken;
  }
  bool empty() const { return next_ == end_; }

 private:
  // The low seven bits of each byte, side by side.
  static uint64_t Sevens(uint64_t word) {
    word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
    word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
    return (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
  }
  bool TakeSlowly(uint64_t* value) {
    *value = 0;
    for (unsigned shift = 0; next_ != end_; shift += 7) {
      const auto byte = static_cast<uint8_t>(*next_++);
      if (shift < 64) *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  const char* next_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_WIRE_H_
