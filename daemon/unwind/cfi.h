// Reads .eh_frame and .debug_frame: finds functions and runs their call frame instructions.
// Format: DWARF 5 section 6.4; .eh_frame with the differences in the LSB's chapter on it.
#ifndef PROFD_DAEMON_UNWIND_CFI_H_
#define PROFD_DAEMON_UNWIND_CFI_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/unwind/byte_reader.h"
#include "daemon/unwind/cfa_rule.h"
#include "daemon/unwind/pointer_encoding.h"

namespace profd {

// The bytes of an .eh_frame, or of a .debug_frame, and the bases of its pointers.
struct FrameSection {
  std::span<const uint8_t> bytes;
  uint64_t address = 0;    // of the first byte
  uint64_t data_base = 0;  // address of .eh_frame_hdr
  uint64_t text_base = 0;  // address of the first executable segment
  bool exact_size = true;  // false: `bytes` runs past the section, a terminator ends it
  // A .debug_frame: a function names its common entry by position, and pointers are absolute.
  bool debug_frame = false;
};

// Of a compressed .debug_frame, which is unpacked in memory: that of a program of 100 MB.
inline constexpr uint64_t kMaxDebugFrameBytes = 16 << 20;

// How the functions of the common entry at the start of `record` encode their addresses
// (DW_EH_PE_*). `record` may run past the entry. Empty when malformed.
std::optional<uint8_t> ReadPointerEncoding(std::span<const uint8_t> record, uint64_t address);

// Address of the .eh_frame that an .eh_frame_hdr (`header`, at `address`) names. Empty when
// malformed. Format: the LSB's chapter on .eh_frame_hdr.
std::optional<uint64_t> ReadFrameHeader(std::span<const uint8_t> header, uint64_t address);

// The rules in force at one address, for the registers that a walk needs.
struct FrameState {
  CfaRule cfa;
  RegisterRule rbp;
  RegisterRule rsp;
  RegisterRule return_address;
  bool signal_frame = false;
};

// The position of one function's description, and the code that it covers.
struct FrameDescription {
  uint64_t position = 0;  // of its record in the section
  uint64_t begin = 0;     // address
  uint64_t size = 0;      // bytes of code
};

// Interprets one such section. Total work is linear in the size of the section. Beyond a generous
// multiple of it, exhausted() becomes true and every later call fails.
class FrameReader {
 public:
  explicit FrameReader(const FrameSection& section);

  // Calls `found` for each function in file order. Returns the number of malformed descriptions.
  uint64_t ForEachFunction(absl::FunctionRef<void(const FrameDescription&)> found);

  // Runs the instructions of the description at `position`, calling `stretch(begin, end, state)`
  // for each non-empty range of addresses in rising order. False if malformed; the ranges reported
  // until then must be discarded.
  bool Run(uint64_t position,
           absl::FunctionRef<void(uint64_t, uint64_t, const FrameState&)> stretch);

  bool exhausted() const { return exhausted_; }

 private:
  friend std::optional<uint8_t> ReadPointerEncoding(std::span<const uint8_t> record,
                                                    uint64_t address);

  // Shared by the functions of one common information entry.
  struct Common {
    uint64_t position = UINT64_MAX;
    bool valid = false;
    bool augmented = false;  // has a length of augmentation data
    uint8_t encoding = 0;
    uint64_t code_align = 1;
    int64_t data_align = 1;
    FrameState initial;
  };
  struct Record {
    uint64_t begin = 0;  // position of the id field
    uint64_t end = 0;
    uint64_t body = 0;      // what follows the id field
    bool is_common = true;  // or a terminator; else it is a function's
    uint64_t common = 0;    // of a function: position of its common entry
  };
  struct Function {
    FrameDescription description;
    const Common* common = nullptr;
    ByteReader program;
  };
  class Program;

  std::optional<Record> ReadRecord(uint64_t position) const;
  std::optional<Function> ReadFunction(uint64_t position, const Record& record);
  const Common* FindCommon(uint64_t position);
  bool ParseCommon(uint64_t position, Common& common);
  bool ParseCommonHeader(ByteReader& reader, Common& common);
  bool ParseAugmentation(ByteReader& reader, std::string_view augmentation, Common& common);
  std::optional<uint64_t> ReadPointer(ByteReader& reader, uint8_t encoding) const;
  void Charge(uint64_t bytes);

  const FrameSection section_;
  uint64_t budget_;  // bytes of shared entries that may still be parsed
  bool exhausted_ = false;
  std::vector<Common> cache_;           // direct-mapped by position
  std::vector<FrameState> remembered_;  // kept between runs for its memory
};

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_CFI_H_
