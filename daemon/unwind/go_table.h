// The table of functions that Go's linker puts into every program, stripped or not (.gopclntab):
// names, bounds, and how deep the stack is at each instruction.
// Format: Go 1.18 to 1.26, internal/abi/symtab.go, and pcHeader, _func and step in package runtime.
#ifndef PROFD_DAEMON_UNWIND_GO_TABLE_H_
#define PROFD_DAEMON_UNWIND_GO_TABLE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace profd {

// Names of the section of the table, in programs at a fixed address and in others.
inline constexpr std::string_view kGoTableSections[] = {".gopclntab", ".data.rel.ro.gopclntab"};
inline constexpr std::string_view kGoModuleSection = ".go.module";
inline constexpr std::string_view kGoTextSection = ".text";

// Where the parts are: places in the file, and an address.
struct GoPlaces {
  uint64_t table = 0;
  uint64_t table_size = 0;
  uint64_t module = 0;  // of .go.module, which Go 1.26 and later have; 0: none
  uint64_t text = 0;    // address of .text
};

struct GoFunction {
  uint64_t begin = 0, end = 0;  // addresses
  uint32_t name = 0;            // see GoTable::Name
  uint32_t depths = 0;          // see GoTable::ForEachDepth
  bool is_root = false;         // has no caller: a thread or a goroutine begins here
  bool sets_stack = false;  // writes to rsp what the table does not say, as if it changes stacks
};

// Reads what it is asked for. The file is hostile: any bytes give answers or none.
class GoTable {
 public:
  // Fills `out` with the bytes of the file at `offset`; false if it does not have them.
  using Read = std::function<bool(uint64_t offset, std::span<uint8_t> out)>;
  // The place in the file of the code at an address; none if there is no code.
  using CodeOffset = std::function<std::optional<uint64_t>(uint64_t address)>;

  // None if there is no table that can be read, or if it does not fit the code.
  static std::optional<GoTable> Open(const GoPlaces& places, Read read, CodeOffset code_offset);

  uint32_t size() const { return count_; }
  // `index` below size(). Functions are in the order of their addresses. None if it is malformed.
  std::optional<GoFunction> At(uint32_t index) const;
  std::optional<GoFunction> Around(uint64_t address) const;

  // At most 512 bytes; "" if it cannot be read.
  std::string Name(const GoFunction& function) const;

  // Calls `stretch(begin, end, depth)` for addresses in rising order: `depth` bytes of the stack
  // lie between rsp and the return address. False if the rest is malformed.
  bool ForEachDepth(const GoFunction& function,
                    absl::FunctionRef<void(uint64_t, uint64_t, int64_t)> stretch) const;

 private:
  GoTable(Read read, CodeOffset code_offset)
      : read_(std::move(read)), code_offset_(std::move(code_offset)) {}

  bool ReadHeader(const GoPlaces& places);
  bool FindText(const GoPlaces& places);
  bool FitsCode(uint64_t text) const;
  // Where the function `index` begins, and its description: both relative. None beyond the table.
  struct Entry {
    uint32_t begin = 0;
    uint32_t description = 0;
  };
  std::optional<Entry> EntryAt(uint32_t index) const;

  Read read_;
  CodeOffset code_offset_;
  uint64_t end_ = 0;  // of the table, in the file
  uint64_t names_ = 0, depths_ = 0, functions_ = 0;
  uint64_t header_text_ = 0;
  uint64_t text_ = 0;  // address from which functions are counted
  uint32_t count_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_GO_TABLE_H_
