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

// The varints of a packed column, one after another.
class Varints {
 public:
  Varints() = default;
  explicit Varints(std::string_view bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

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
    std::string_view left(next_, static_cast<size_t>(end_ - next_));
    const bool taken = TakeVarint(&left, value);
    next_ = left.data();
    return taken;
  }

  const char* next_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_WIRE_H_
