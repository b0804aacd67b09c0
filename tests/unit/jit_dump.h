// Writes a jitdump as a just-in-time compiler does.
#ifndef PROFD_TESTS_UNIT_JIT_DUMP_H_
#define PROFD_TESTS_UNIT_JIT_DUMP_H_

#include <cstdint>
#include <string>

namespace profd::test {

class JitDumpWriter {
 public:
  JitDumpWriter() {
    Put<uint32_t>(0x4A695444);
    for (const uint32_t word : {1u, 40u, 62u, 0u, 5u}) Put(word);
    Put<uint64_t>(0);
    Put<uint64_t>(0);
  }

  JitDumpWriter& Load(uint64_t address, const std::string& name, const std::string& code,
                      uint64_t index) {
    Begin(0, 56 + name.size() + 1 + code.size());
    for (const uint64_t word : {address, address, uint64_t{code.size()}, index}) Put(word);
    bytes_.append(name).append(1, '\0').append(code);
    return *this;
  }

  JitDumpWriter& Move(uint64_t from, uint64_t to, uint64_t code_size, uint64_t index) {
    Begin(1, 64);
    for (const uint64_t word : {to, from, to, code_size, index}) Put(word);
    return *this;
  }

  // A record of another kind, which starts like all.
  JitDumpWriter& Other(uint32_t id, const std::string& content) {
    Put(id);
    Put(static_cast<uint32_t>(16 + content.size()));
    Put<uint64_t>(0);
    bytes_ += content;
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  template <typename T>
  void Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Begin(uint32_t id, size_t size) {
    Put(id);
    Put(static_cast<uint32_t>(size));
    Put<uint64_t>(7);  // time
    Put<uint32_t>(5);  // PID
    Put<uint32_t>(5);  // TID
  }

  std::string bytes_;
};

}  // namespace profd::test

#endif  // PROFD_TESTS_UNIT_JIT_DUMP_H_
