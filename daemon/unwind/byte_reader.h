// Bounds-checked little-endian reading of bytes that may be hostile.
#ifndef PROFD_DAEMON_UNWIND_BYTE_READER_H_
#define PROFD_DAEMON_UNWIND_BYTE_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace profd {

// A cursor over bytes it does not own. A read past the end returns zero and makes ok() false for
// good, so a parser can check once after several reads.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes, uint64_t position = 0)
      : bytes_(bytes), position_(std::min<uint64_t>(position, bytes.size())) {
    ok_ = position <= bytes.size();
  }

  bool ok() const { return ok_; }
  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  T Read() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (remaining() < sizeof(T)) {
      Fail();
      return value;
    }
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // LEB128; bits above 64 are dropped.
  uint64_t ReadUleb() {
    uint64_t value = 0;
    unsigned shift = 0;
    return ReadLeb(value, shift), value;
  }
  int64_t ReadSleb() {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t last = ReadLeb(value, shift);
    if (shift < 64 && (last & 0x40) != 0) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }

  std::span<const uint8_t> ReadBytes(uint64_t size) {
    if (size > remaining()) {
      Fail();
      return {};
    }
    std::span<const uint8_t> result = bytes_.subspan(position_, size);
    position_ += size;
    return result;
  }

  // A NUL-terminated string of at most `max_size` bytes, without its NUL.
  std::string_view ReadString(uint64_t max_size) {
    const uint64_t window = std::min(remaining(), max_size + 1);
    const uint8_t* begin = bytes_.data() + position_;
    const uint8_t* end = std::find(begin, begin + window, 0);
    if (end == begin + window) {
      Fail();
      return {};
    }
    position_ += static_cast<uint64_t>(end - begin) + 1;
    return {reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin)};
  }

 private:
  void Fail() {
    ok_ = false;
    position_ = bytes_.size();
  }

  // Returns the last byte; `shift` ends as the number of bits read.
  uint8_t ReadLeb(uint64_t& value, unsigned& shift) {
    uint8_t byte;
    do {
      byte = Read<uint8_t>();
      if (shift < 64) {
        value |= uint64_t{byte & 0x7fu} << shift;
        shift += 7;
      }
    } while ((byte & 0x80) != 0);
    return byte;
  }

  std::span<const uint8_t> bytes_;
  uint64_t position_;
  bool ok_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_BYTE_READER_H_
